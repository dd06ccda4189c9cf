//! Processes that are waited for with a bound and never outlive their test.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::judged::Verdict;

/// A running process whose output is collected.
pub struct Program {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<thread::JoinHandle<()>>,
}

/// What a process left.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All that it printed.
    pub stdout: String,
    /// All that it complained.
    pub stderr: String,
}

impl Finished {
    /// The last line of its output as JSON, where it ended well.
    pub fn json(&self) -> Result<serde_json::Value> {
        ensure!(
            self.status.success(),
            "ended with {}: {}{}",
            self.status,
            self.stdout,
            self.stderr
        );
        let line = self.stdout.lines().rfind(|line| line.starts_with('{'));
        let line = line.with_context(|| format!("no JSON in: {}{}", self.stdout, self.stderr))?;
        Ok(serde_json::from_str(line)?)
    }
}

impl Program {
    /// Starts it with its three standard streams at hand.
    pub fn start(mut command: Command) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let (stdout, out) = collect(child.stdout.take().expect("piped"));
        let (stderr, err) = collect(child.stderr.take().expect("piped"));
        Ok(Self {
            child,
            stdout,
            stderr,
            readers: vec![out, err],
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far.
    pub fn stdout(&self) -> String {
        self.stdout.lock().expect("a reader panicked").clone()
    }

    /// What it complained so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().expect("a reader panicked").clone()
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Whether all that it will ever print has been collected: the process has ended, and so has
    /// every other one that it left its standard output to. A process can be seen dead before its
    /// last lines are.
    pub fn is_silent(&self) -> bool {
        self.readers.iter().all(thread::JoinHandle::is_finished)
    }

    /// Waits until a line of its output contains `text`.
    pub fn wait_for_line(&mut self, text: &str, bound: Duration) -> Result<()> {
        let until = Instant::now() + bound;
        loop {
            let silent = self.is_silent();
            if self.stdout().lines().any(|line| line.contains(text)) {
                return Ok(());
            }
            ensure!(
                !silent && Instant::now() < until,
                "no line with {text:?} in: {}{}",
                self.stdout(),
                self.stderr()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until `text` is in what it complained: a log is written by a thread of its own.
    pub fn wait_for_complaint(&self, text: &str, bound: Duration) -> Result<()> {
        wait_until(text, bound, || self.stderr().contains(text)).with_context(|| self.stderr())
    }

    /// As [`Self::wait_for_complaint`], and it has said that once.
    pub fn complains_once(&self, text: &str, bound: Duration) -> Result<()> {
        self.wait_for_complaint(text, bound)?;
        let stderr = self.stderr();
        ensure!(stderr.matches(text).count() == 1, "{stderr}");
        Ok(())
    }

    /// Of a daemon: it has warned of nothing. With warnings of late agents alone, which a stalled host
    /// makes late, the run is unjudged.
    ///
    /// # Errors
    /// A warning of anything else.
    pub fn judge_warnings(&self) -> Result<Verdict> {
        let late = [
            "kind=\"swap-overdue\"",
            "kind=\"undrainable\"",
            "take longer than their cost says",
        ];
        let stderr = self.stderr();
        let warnings = stderr.lines().filter(|line| line.contains("WARN"));
        let (excused, faults): (Vec<_>, Vec<_>) =
            warnings.partition(|line| late.iter().any(|kind| line.contains(kind)));
        ensure!(faults.is_empty(), "{faults:?} in: {stderr}");
        Ok(match excused.last() {
            None => Verdict::Judged,
            Some(last) => {
                Verdict::Unjudged(format!("{} late agents, at last {last}", excused.len()))
            }
        })
    }

    /// Writes to its standard input.
    pub fn say(&mut self, text: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().expect("piped");
        Ok(stdin.write_all(text.as_bytes())?)
    }

    /// Ends its standard input.
    pub fn end_input(&mut self) {
        self.child.stdin = None;
    }

    /// Ends it with SIGKILL and reaps it.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    /// As [`Self::finish`], of a `dnn` with `--json`: it has run so many jobs, and each result was right.
    pub fn finish_dnn(self, bound: Duration, jobs: u64) -> Result<()> {
        let report = self.finish(bound)?.json()?;
        ensure!(
            report["checksum_errors"] == 0 && report["jobs"] == jobs,
            "{report}"
        );
        Ok(())
    }

    /// Waits for its end, at most `bound`.
    pub fn finish(mut self, bound: Duration) -> Result<Finished> {
        let until = Instant::now() + bound;
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if Instant::now() > until => {
                    bail!(
                        "still running after {bound:?}: {}{}",
                        self.stdout(),
                        self.stderr()
                    )
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader panicked");
        }
        Ok(Finished {
            status,
            stdout: self.stdout(),
            stderr: self.stderr(),
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Already dead is fine; nothing else can be done here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stream: impl Read + Send + 'static) -> (Arc<Mutex<String>>, thread::JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&text);
    let reader = thread::spawn(move || {
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            shared.lock().expect("the test panicked").push_str(&line);
            line.clear();
        }
    });
    (text, reader)
}

/// Polls `condition` until it holds; an error after `bound` says `what` was awaited.
pub fn wait_until(what: &str, bound: Duration, mut condition: impl FnMut() -> bool) -> Result<()> {
    let until = Instant::now() + bound;
    // What comes at once is waited for ten thousand times by some tests; what takes long is asked for rarely.
    let mut pause = Duration::from_micros(20);
    while !condition() {
        ensure!(Instant::now() < until, "{what}: not within {bound:?}");
        thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(2));
    }
    Ok(())
}

/// Bytes that left at each turn of `RTSWAP_TORTURE=every-call`, as a program with `RTSWAP_LOG=debug` said on stderr.
pub fn tortures(said: &str) -> Vec<u64> {
    let left = said.lines().filter_map(|line| {
        let (_, rest) = line.split_once("torture: ")?;
        rest.split(' ').next()?.parse().ok()
    });
    left.collect()
}

/// Compiles `probes/NAME.c` into `folder`, linked against the driver library in `driver_folder`, and
/// returns the program's path.
pub fn probe(name: &str, folder: &Path, driver_folder: &Path) -> Result<PathBuf> {
    let source = probes().join(format!("{name}.c"));
    compile(&source, folder, driver_folder)
}

fn probes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("probes")
}

/// As [`probe`], for a C program that lies elsewhere; `cuda.h` of the probes here serves it too.
pub fn compile(source: &Path, folder: &Path, driver_folder: &Path) -> Result<PathBuf> {
    let name = source.file_stem().context("a source has a name")?;
    let program = folder.join(name);
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&compiler)
        .args(["-O1", "-Wall", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-I")
        .arg(probes())
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda-agent/include"))
        .arg("-L")
        .arg(driver_folder)
        .args(["-l:libcuda.so.1"])
        .output()
        .with_context(|| format!("cannot run the C compiler {compiler}"))?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(program)
}
