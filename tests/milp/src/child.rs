//! A process that answers lines by lines, with a bound on each wait.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// The longest answer in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// How often and how long apart it is asked whether a process has ended after its output has.
const END_CHECKS: (u32, Duration) = (200, Duration::from_millis(10));

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    /// `program` cannot be executed.
    #[error("cannot start {program}; name a Python interpreter by --python")]
    Start { program: String, source: io::Error },
    /// The output of `program` ended; `how` says how the process did.
    #[error("{program} {how} without an answer; see what it wrote to standard error")]
    Ended { program: String, how: String },
    /// `program` gave no answer within `patience`.
    #[error("{program} gave no answer in {patience:?}; try again where the machine is less busy")]
    Silent { program: String, patience: Duration },
}

/// A running process. It is killed when this is dropped.
pub(crate) struct Child {
    process: process::Child,
    program: String,
    questions: Sender<Vec<u8>>,
    answers: Receiver<Vec<u8>>,
    patience: Duration,
}

impl Child {
    /// Starts `command`, which writes one line now and one for each line that it reads, each within
    /// `patience`.
    pub(crate) fn start(mut command: Command, patience: Duration) -> Result<Self, ChildError> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = match command.spawn() {
            Ok(process) => process,
            Err(source) => return Err(ChildError::Start { program, source }),
        };
        let (questions, asked) = mpsc::channel();
        let (answered, answers) = mpsc::channel();
        if let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) {
            thread::spawn(move || relay(stdin, stdout, &asked, &answered));
        }
        Ok(Self {
            process,
            program,
            questions,
            answers,
            patience,
        })
    }

    /// Sends `line`, which ends with a newline, and returns the answer.
    pub(crate) fn ask(&mut self, line: Vec<u8>) -> Result<Vec<u8>, ChildError> {
        // If the process has ended, `answer` says so.
        let _ = self.questions.send(line);
        self.answer()
    }

    /// The next line that the process writes.
    pub(crate) fn answer(&mut self) -> Result<Vec<u8>, ChildError> {
        let program = self.program.clone();
        match self.answers.recv_timeout(self.patience) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(ChildError::Silent {
                program,
                patience: self.patience,
            }),
            Err(RecvTimeoutError::Disconnected) => Err(ChildError::Ended {
                program,
                how: self.end(),
            }),
        }
    }

    /// How the process ended. Its output ends a little before it does.
    fn end(&mut self) -> String {
        let (checks, apart) = END_CHECKS;
        for _ in 0..checks {
            if let Ok(Some(status)) = self.process.try_wait() {
                return format!("ended ({status})");
            }
            thread::sleep(apart);
        }
        "closed its output".into()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Either fails only if the process has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Passes lines on until either side closes. In a thread of its own, since neither writing to a
/// process that does not read nor reading from one that does not write can be bounded.
fn relay(
    mut stdin: ChildStdin,
    stdout: ChildStdout,
    asked: &Receiver<Vec<u8>>,
    answered: &Sender<Vec<u8>>,
) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = (&mut stdout).take(MOST_BYTES).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) || answered.send(line).is_err() {
            return;
        }
        let Ok(question) = asked.recv() else { return };
        if stdin.write_all(&question).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_are_answered() {
        let mut child = Child::start(shell("echo ready; exec cat"), PATIENCE).unwrap();
        assert_eq!(child.answer().unwrap(), b"ready\n");
        for line in ["one\n", "two\n"] {
            assert_eq!(child.ask(line.into()).unwrap(), line.as_bytes());
        }
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let Err(error) = Child::start(Command::new("/nonexistent/python3"), PATIENCE) else {
            panic!("it was started");
        };
        let text = error.to_string();
        assert!(text.contains("/nonexistent/python3"), "{text}");
        assert!(text.contains("--python"), "{text}");
    }

    #[test]
    fn a_process_that_dies_is_told_by_its_status() {
        for (script, how) in [
            ("exit 3", "exit status: 3"),
            ("kill -9 $$", "signal: 9"),
            ("echo ready; read line; exit 4", "exit status: 4"),
        ] {
            let mut child = Child::start(shell(script), PATIENCE).unwrap();
            let answer = match child.answer() {
                Ok(_) => child.ask(b"question\n".into()),
                early => early,
            };
            let text = answer.unwrap_err().to_string();
            assert!(text.contains(how), "{script}: {text}");
        }
    }

    #[test]
    fn no_wait_is_unbounded() {
        let soon = Duration::from_millis(200);
        // More than a pipe holds, so that the question is not even taken.
        let question = vec![b' '; 1 << 20];
        for script in ["exec sleep 60", "echo ready; exec sleep 60"] {
            let mut child = Child::start(shell(script), soon).unwrap();
            let answer = match child.answer() {
                Ok(_) => child.ask(question.clone()),
                early => early,
            };
            assert!(matches!(answer, Err(ChildError::Silent { .. })), "{script}");
        }
    }
}
