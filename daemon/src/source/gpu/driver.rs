//! The GPUs by the CUDA driver itself, where NVML shows none. A driver may hang, crash or write over the
//! memory of its process, so a short-lived child of the daemon asks it ([`answer`]), and makes no context.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rtswap_engine::Uuid;
use rtswap_engine::config::MAX_GPUS;
use rtswap_engine::sample::NamedGpu;
use rtswap_policy::units::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use rustix::time::Timespec;

use crate::sys::cuda::{Cuda, CudaError};

/// What makes the daemon's executable the child that asks.
const OPTION: &str = "--ask-driver";

/// How long the driver may take.
const BOUND: Duration = Duration::from_secs(5);

/// How long until it is asked again: it may be loaded later.
const RETRY: Duration = Duration::from_mins(1);

/// More bytes than an answer has.
const LONGEST: usize = 4096;

/// A line in place of an answer begins so.
const ERROR: &str = "error ";

/// Why the driver names no GPUs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum AskError {
    #[error("the child that asks it cannot be started: {0}")]
    Start(String),
    #[error("it did not answer within {} s, and the child that asked it was killed", BOUND.as_secs())]
    Late,
    #[error("the child that asked it ended early: {0}")]
    Ended(String),
    #[error("{0}")]
    Driver(String),
    #[error("the child that asked it wrote something else than GPUs")]
    Format,
}

/// Asks the driver now and then, until it has named a GPU.
#[derive(Debug, Default)]
pub(super) struct Asker {
    asked: Option<Instant>,
    has_answer: bool,
    /// A child that was killed and has not ended: the kernel's driver holds it.
    stuck: Option<Child>,
    said: String,
}

impl Asker {
    /// The GPUs that it names; none where it is not the time to ask.
    pub(super) fn ask(&mut self) -> Vec<NamedGpu> {
        let is_due = self.asked.is_none_or(|at| at.elapsed() >= RETRY);
        if self.has_answer || !is_due || self.is_stuck() {
            return Vec::new();
        }
        self.asked = Some(Instant::now());
        match self.ask_child() {
            Ok(gpus) => {
                self.has_answer = !gpus.is_empty();
                gpus
            }
            Err(error) => {
                let error = error.to_string();
                if self.said != error {
                    tracing::warn!("the CUDA driver names no GPUs: {error}");
                    self.said = error;
                }
                Vec::new()
            }
        }
    }

    fn is_stuck(&mut self) -> bool {
        let stuck = self.stuck.as_mut();
        let is_stuck = stuck.is_some_and(|child| matches!(child.try_wait(), Ok(None)));
        if !is_stuck {
            self.stuck = None;
        }
        is_stuck
    }

    fn ask_child(&mut self) -> Result<Vec<NamedGpu>, AskError> {
        // By this name also where an upgrade has replaced the file.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("rtswapd")
            .arg(OPTION)
            .env_remove("LD_PRELOAD")
            .env_remove("LD_AUDIT")
            .env_remove("NOTIFY_SOCKET")
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
        self.run(command, BOUND)
    }

    fn run(&mut self, mut command: Command, bound: Duration) -> Result<Vec<NamedGpu>, AskError> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|error| AskError::Start(error.to_string()))?;
        let read = read_all(&mut child, Instant::now() + bound);
        let ended = self.end(child);
        let answer = read?;
        match ended {
            Some(status) if !status.success() => Err(AskError::Ended(status.to_string())),
            _ => parse(&answer),
        }
    }

    /// Sees to it that the child ends; its status where it has ended by itself or could be killed.
    fn end(&mut self, mut child: Child) -> Option<ExitStatus> {
        for is_killed in [false, true] {
            if is_killed {
                // It fails only where the child has ended.
                let _ = child.kill();
            }
            for _ in 0..20 {
                if let Ok(Some(status)) = child.try_wait() {
                    return (!is_killed).then_some(status);
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        self.stuck = Some(child);
        None
    }
}

/// What the child writes until it closes its stdout, by that time at the latest.
fn read_all(child: &mut Child, until: Instant) -> Result<Vec<u8>, AskError> {
    let mut answer = Vec::new();
    let failed = |error: io::Error| AskError::Ended(error.to_string());
    let Some(mut stdout) = child.stdout.take() else {
        return Ok(answer);
    };
    let mut part = [0; 512];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| AskError::Late)?;
        let mut fds = [PollFd::new(&stdout, PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => {
                // It fails only where the child has ended.
                let _ = child.kill();
                return Err(AskError::Late);
            }
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(failed(error.into())),
        }
        let count = stdout.read(&mut part).map_err(failed)?;
        if count == 0 {
            return Ok(answer);
        }
        answer.extend(part.iter().take(count));
        if answer.len() > LONGEST {
            return Err(AskError::Format);
        }
    }
}

/// An answer: a UUID and a number of bytes per line, each UUID once, and the end; or an error.
fn parse(answer: &[u8]) -> Result<Vec<NamedGpu>, AskError> {
    let text = str::from_utf8(answer).map_err(|_| AskError::Format)?;
    if let Some(error) = text.strip_prefix(ERROR) {
        return Err(AskError::Driver(error.trim_end().to_owned()));
    }
    let lines = text.strip_suffix("end\n").ok_or(AskError::Format)?;
    let mut gpus: Vec<NamedGpu> = Vec::new();
    for line in lines.split_terminator('\n') {
        let gpu = parse_gpu(line).ok_or(AskError::Format)?;
        if gpus.len() == MAX_GPUS || gpus.iter().any(|it| it.uuid == gpu.uuid) {
            return Err(AskError::Format);
        }
        gpus.push(gpu);
    }
    Ok(gpus)
}

fn parse_gpu(line: &str) -> Option<NamedGpu> {
    let (uuid, total) = line.split_once(' ')?;
    let is_number = total.bytes().all(|byte| byte.is_ascii_digit());
    let total = total.parse().ok().filter(|total| is_number && *total > 0)?;
    Some(NamedGpu {
        uuid: uuid.parse().ok()?,
        total: Bytes(total),
    })
}

/// The whole work of the child: asks the driver, and writes its answer to stdout.
pub fn answer() -> ExitCode {
    // It does not outlive the daemon; without the limit it works as well.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    leave_no_core();
    let text = name_gpus().unwrap_or_else(|error| format!("{ERROR}{error}\n"));
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Sees to it that this process leaves no core where the driver crashes.
pub(super) fn leave_no_core() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // Without the limit all works as well.
    let _ = setrlimit(Resource::Core, none);
}

fn name_gpus() -> Result<String, CudaError> {
    let cuda = Cuda::open()?;
    let mut text = String::new();
    for index in (0..cuda.count()?).take(MAX_GPUS) {
        let gpu = cuda.gpu(index)?;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {}", Uuid::of(gpu.uuid), gpu.total);
    }
    text.push_str("end\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-01234567-89ab-cdef-0123-456789abcdef";

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn answers_are_read_strictly() {
        let gpu = NamedGpu {
            uuid: UUID.parse().unwrap(),
            total: Bytes(4096),
        };
        let line = format!("{UUID} 4096\n");
        assert_eq!(parse(format!("{line}end\n").as_bytes()), Ok(vec![gpu]));
        assert_eq!(parse(b"end\n"), Ok(vec![]));
        let error = parse(b"error cuInit fails: error 100\n");
        assert_eq!(
            error,
            Err(AskError::Driver("cuInit fails: error 100".into()))
        );
        let others = (0..=MAX_GPUS).map(|last| format!("{} 1\n", Uuid::of([last as u8; 16])));
        let too_many: String = others.collect();
        for text in [
            "",
            "end",
            &line,
            &format!("{line}{line}end\n"),
            &format!("{UUID} +1\nend\n"),
            &format!("{UUID} 0\nend\n"),
            &format!("{UUID}\nend\n"),
            &format!("{UUID} 99999999999999999999\nend\n"),
            &format!("\n{line}end\n"),
            &format!("{line}end\nend\n"),
            &format!("{too_many}end\n"),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(AskError::Format), "{text:?}");
        }
        assert_eq!(parse(b"\xff"), Err(AskError::Format));
    }

    #[test]
    fn a_child_that_hangs_crashes_or_babbles_is_done_with_in_time() {
        let mut asker = Asker::default();
        let bound = Duration::from_millis(300);
        let begun = Instant::now();
        assert_eq!(asker.run(shell("sleep 60"), bound), Err(AskError::Late));
        let crashed = asker.run(shell("kill -SEGV $$"), bound);
        assert!(
            matches!(&crashed, Err(AskError::Ended(why)) if why.contains("signal")),
            "{crashed:?}"
        );
        let babble = asker.run(shell("while echo 0123456789; do :; done"), bound);
        assert!(babble.is_err(), "{babble:?}");
        let answer = asker.run(shell(&format!("echo {UUID} 7; echo end")), BOUND);
        assert_eq!(answer.map(|gpus| gpus.len()), Ok(1));
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(!asker.is_stuck());
    }
}
