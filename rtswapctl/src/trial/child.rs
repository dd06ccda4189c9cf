//! Programs that are read while they run, and are killed with the trial.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::TrialError;
use super::interrupt::Interrupt;

/// How long a program gets to end on SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// Between two looks at a program that is ending.
const POLL: Duration = Duration::from_millis(5);
/// How long its last words are read after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Bytes of a line that are kept.
const LONGEST_LINE: u64 = 4096;
/// Lines that are kept of each stream; older ones are forgotten.
const MOST_LINES: usize = 10_000;

type Lines = Arc<Mutex<Vec<String>>>;

/// A running program.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    out: Lines,
    err: Lines,
    readers: Vec<JoinHandle<()>>,
    /// It has ended, and what it left running was killed.
    is_over: bool,
}

impl Program {
    /// Starts `command`. Its standard input stays open until [`Self::close_input`].
    pub(crate) fn start(mut command: Command) -> Result<Self, TrialError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = command
            // A group of its own: what it starts in turn ends with it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|source| TrialError::Start {
            program: name.clone(),
            source,
        })?;
        let (out, err) = (Lines::default(), Lines::default());
        let mut readers = Vec::new();
        readers.extend(child.stdout.take().map(|pipe| read(pipe, Arc::clone(&out))));
        readers.extend(child.stderr.take().map(|pipe| read(pipe, Arc::clone(&err))));
        Ok(Self {
            name,
            stdin: child.stdin.take(),
            child,
            out,
            err,
            readers,
            is_over: false,
        })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard error so far; after its end all of it.
    pub(crate) fn said(&self) -> Vec<String> {
        lines(&self.err)
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, TrialError> {
        let ended = self.child.try_wait()?;
        if ended.is_some() && !self.is_over {
            self.is_over = true;
            self.kill_group();
            // What it started may still hold the pipes: they are not waited for.
            let until = Instant::now() + LAST_WORDS;
            while Instant::now() < until && !self.readers.iter().all(JoinHandle::is_finished) {
                thread::sleep(POLL);
            }
            self.readers.clear();
        }
        Ok(ended)
    }

    /// An error if it has ended.
    pub(crate) fn must_run(&mut self) -> Result<(), TrialError> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(self.end(status)),
        }
    }

    /// The error that it ended.
    pub(crate) fn end(&self, status: ExitStatus) -> TrialError {
        let said = self.said();
        TrialError::Ended {
            program: self.name.clone(),
            status,
            said: said.last().cloned().unwrap_or_else(|| "no word".into()),
        }
    }

    /// Ends its standard input.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end, at most for `bound`, and no longer than until the signal; its standard output.
    pub(crate) fn finish(
        mut self,
        bound: Duration,
        interrupt: &Interrupt,
    ) -> Result<String, TrialError> {
        self.close_input();
        let what = format!("{} ends", self.name);
        interrupt.wait(
            || what,
            bound,
            || match self.ended()? {
                Some(status) if status.success() => Ok(Some(lines(&self.out).join("\n"))),
                Some(status) => Err(self.end(status)),
                None => Ok(None),
            },
        )
    }

    /// Kills it and what it started.
    fn kill_group(&self) {
        // Those that have ended cannot be killed, which is just as well.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    /// Asks it to end, and insists after a while.
    pub(crate) fn stop(mut self) {
        // An error means that it ended before: the loop finds that out.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
        let until = Instant::now() + GRACE;
        while matches!(self.ended(), Ok(None)) && Instant::now() < until {
            thread::sleep(POLL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill_group();
        }
        let _ = self.child.wait();
    }
}

fn lines(lines: &Lines) -> Vec<String> {
    lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn read(pipe: impl Read + Send + 'static, into: Lines) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        loop {
            let mut line = Vec::new();
            // A line that is too long is several.
            let read = pipe
                .by_ref()
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line);
            if !read.is_ok_and(|read| read > 0) {
                return;
            }
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            let mut lines = into.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == MOST_LINES {
                lines.drain(..MOST_LINES / 2);
            }
            lines.push(line);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start(command).unwrap()
    }

    #[test]
    fn an_end_is_told_with_the_last_word() {
        let interrupt = Interrupt::watch().unwrap();
        let finish = |script| shell(script).finish(GRACE, &interrupt);
        assert_eq!(finish("echo a; echo b >&2").unwrap(), "a");
        let failed = finish("echo why >&2; exit 3").unwrap_err();
        assert_eq!(failed.to_string(), "sh ended (exit status: 3): why");
    }

    #[test]
    fn an_end_is_waited_for_until_the_signal() {
        let finished = shell("exec sleep 60").finish(GRACE, &Interrupt::told());
        assert!(
            matches!(finished, Err(TrialError::Interrupted)),
            "{finished:?}"
        );
    }

    #[test]
    fn any_bytes_are_read_and_what_is_left_running_is_ended() {
        let mut program = shell("printf '\\377 x\\n' >&2; sleep 60 & echo $! >&2; exec sleep 60");
        while program.said().len() < 2 {
            program.must_run().unwrap();
        }
        let said = program.said();
        assert!(said[0].ends_with(" x"), "{said:?}");
        let left = Pid::from_raw(said[1].parse().unwrap()).unwrap();
        drop(program);
        let gone = || rustix::process::test_kill_process(left).is_err();
        let until = Instant::now() + GRACE;
        while !gone() && Instant::now() < until {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", left.as_raw_nonzero()));
            if stat.unwrap_or_default().contains(" Z ") {
                return;
            }
            thread::sleep(POLL);
        }
        assert!(gone());
    }

    #[test]
    fn dropping_kills_and_stopping_asks_first() {
        let program = shell("exec sleep 60");
        let pid = Pid::from_raw(program.pid().cast_signed()).unwrap();
        drop(program);
        assert!(rustix::process::test_kill_process(pid).is_err());
        let mut program = shell("trap 'exit 0' TERM; echo ready >&2; while :; do sleep 0.01; done");
        while program.said().is_empty() {
            program.must_run().unwrap();
        }
        let start = Instant::now();
        program.stop();
        assert!(start.elapsed() < GRACE, "had to be killed");
    }
}
