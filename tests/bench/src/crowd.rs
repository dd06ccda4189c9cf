//! Many processes at once, with two pipes for all of them: in one each writes a byte when it is
//! ready, the end of the other ends them.

use std::fs::File;
use std::io::PipeWriter;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::Machine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How often the end of a process is looked for.
const LOOK: Duration = Duration::from_millis(1);

/// Processes that are ready one by one and end together. Dropped, they are killed.
pub(crate) struct Crowd {
    children: Vec<Child>,
    /// Bytes that are to come.
    awaited: usize,
    ready: OwnedFd,
    /// What they write to; closed here once all are started.
    tell: Option<OwnedFd>,
    /// What they read from, and its other end.
    input: OwnedFd,
    last: Option<PipeWriter>,
    /// What they complain of.
    complaints: PathBuf,
}

impl Crowd {
    /// Nobody yet.
    pub(crate) fn new(machine: &Machine, name: &str) -> Result<Self> {
        let (ready, tell) = std::io::pipe()?;
        let (input, last) = std::io::pipe()?;
        let complaints = machine.path(&format!("{name}.err"));
        File::create(&complaints)?;
        Ok(Self {
            children: Vec::new(),
            awaited: 0,
            ready: ready.into(),
            tell: Some(tell.into()),
            input: input.into(),
            last: Some(last),
            complaints,
        })
    }

    /// Starts one more program, which says `times` that it is ready.
    pub(crate) fn add(&mut self, mut command: Command, times: usize) -> Result<()> {
        let tell = self.tell.as_ref().context("it waits already")?;
        let complaints = File::options().append(true).open(&self.complaints)?;
        command
            .stdin(Stdio::from(self.input.try_clone()?))
            .stdout(Stdio::from(tell.try_clone()?))
            .stderr(Stdio::from(complaints));
        let child = command.spawn();
        let child = child.with_context(|| format!("cannot start {command:?}"))?;
        self.children.push(child);
        self.awaited += times;
        Ok(())
    }

    /// Waits until all are ready.
    pub(crate) fn wait(&mut self, bound: Duration) -> Result<()> {
        self.tell = None;
        let until = Instant::now() + bound;
        let mut room = [0; 256];
        while self.awaited > 0 {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left)?;
            let ready = self.ready.as_fd();
            let waited = poll(&mut [PollFd::new(&ready, PollFlags::IN)], Some(&left))?;
            let got = rustix::io::read(&self.ready, &mut room)?;
            ensure!(
                waited > 0 && got > 0,
                "{} of them are not ready: {}",
                self.awaited,
                self.complaints()
            );
            self.awaited = self.awaited.saturating_sub(got);
        }
        Ok(())
    }

    /// Lets them end, and waits until the last one has, well.
    pub(crate) fn leave(mut self, bound: Duration) -> Result<()> {
        self.last = None;
        let until = Instant::now() + bound;
        while let Some(child) = self.children.last_mut() {
            if let Some(status) = child.try_wait()? {
                ensure!(
                    status.success(),
                    "one ended with {status}: {}",
                    self.complaints()
                );
                self.children.pop();
            } else {
                ensure!(Instant::now() < until, "{} still run", self.children.len());
                sleep(LOOK);
            }
        }
        Ok(())
    }

    fn complaints(&self) -> String {
        std::fs::read_to_string(&self.complaints).unwrap_or_default()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Already dead is fine; nothing else can be done here.
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}
