//! Programs that are read while they run and never outlive this one.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

/// How long a program gets to end on SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// How often an end is looked for.
const POLL: Duration = Duration::from_millis(10);

/// A running program; killed and reaped when dropped.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<Line>,
}

/// A line that a program wrote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// On standard output.
    Out(String),
    /// On standard error.
    Err(String),
}

impl Program {
    /// Starts it. Called on the main thread only: the kernel ends it with the thread that started it.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: the closure runs between fork and exec and makes one system call, which is
        // async-signal-safe; it allocates nothing.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let name = command.get_program().display().to_string();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let (sender, lines) = mpsc::channel();
        let out = child.stdout.take().expect("piped");
        let err = child.stderr.take().expect("piped");
        read_lines(out, sender.clone(), Line::Out);
        read_lines(err, sender, Line::Err);
        Ok(Self { child, lines })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote since the last call. After its end: all the rest.
    pub(crate) fn lines(&mut self) -> Result<Vec<Line>> {
        if self.ended()?.is_some() {
            // The readers stop at the end of the pipes, which a grandchild could hold open.
            let until = Instant::now() + GRACE;
            let mut rest = Vec::new();
            while let Ok(line) = self.lines.recv_timeout(until - Instant::now().min(until)) {
                rest.push(line);
            }
            return Ok(rest);
        }
        Ok(self.lines.try_iter().collect())
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ends its standard input.
    pub(crate) fn close_input(&mut self) {
        self.child.stdin = None;
    }

    /// Asks it to end, and insists after a while.
    pub(crate) fn stop(mut self) {
        // An error means that it ended before: the loop finds that out.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let until = Instant::now() + GRACE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(POLL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has ended cannot be killed, which is just as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(
    stream: impl Read + Send + 'static,
    sender: mpsc::Sender<Line>,
    make: fn(String) -> Line,
) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if sender.send(make(line)).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start(command).unwrap()
    }

    fn wait(program: &mut Program) -> ExitStatus {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = program.ended().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "did not end");
            thread::sleep(POLL);
        }
    }

    #[test]
    fn both_streams_are_read_to_their_end() {
        let mut program = shell("echo a; echo b >&2; exit 3");
        assert_eq!(wait(&mut program).code(), Some(3));
        let mut lines = program.lines().unwrap();
        lines.sort_by_key(|line| matches!(line, Line::Err(_)));
        assert_eq!(lines, [Line::Out("a".into()), Line::Err("b".into())]);
    }

    #[test]
    fn dropping_kills() {
        let program = shell("exec sleep 60");
        let pid = Pid::from_raw(program.pid().cast_signed()).unwrap();
        drop(program);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[test]
    fn stopping_asks_first() {
        let program = shell("trap 'exit 0' TERM; while :; do sleep 0.01; done");
        thread::sleep(Duration::from_millis(200));
        let start = Instant::now();
        program.stop();
        assert!(start.elapsed() < GRACE, "had to be killed");
    }
}
