//! Phase 1: the four programs on the bare GPU, without rtswap.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::bench::Bench;
use crate::child::{Line, Program};
use crate::interrupt::Interrupt;
use crate::tasks::Task;

/// Jobs that each tries to do: long enough to hold its memory until the last has asked for its own.
const JOBS: &str = "3";
/// Exit code of `dnn` for a failed CUDA call.
const CUDA_FAILED: i32 = 3;
const POLL: Duration = Duration::from_millis(20);

/// How one program fared.
pub(crate) struct Bare {
    /// Its name.
    pub name: &'static str,
    /// Whether it ran to its end.
    pub completed: bool,
    /// What it said when it did not.
    pub complaint: String,
}

impl Bare {
    /// Whether it ended for want of GPU memory.
    pub(crate) fn out_of_memory(&self) -> bool {
        !self.completed && self.complaint.contains("OUT_OF_MEMORY")
    }
}

/// Runs all together.
pub(crate) fn run(bench: &Bench, tasks: &[Task], interrupt: &Interrupt) -> Result<Vec<Bare>> {
    let mut programs = Vec::new();
    for task in tasks {
        let mut command = bench.dnn("bare")?;
        command
            .args(task.dnn_arguments())
            .args(["--json", "--jobs", JOBS]);
        programs.push((task.name, Program::start(command)?));
    }
    let longest = tasks
        .iter()
        .map(|task| task.period)
        .max()
        .unwrap_or_default();
    let until = Instant::now() + longest * 8 + Duration::from_secs(30);
    let mut fared = Vec::new();
    for (name, mut program) in programs {
        let status = loop {
            if let Some(status) = program.ended()? {
                break status;
            }
            interrupt.check()?;
            ensure!(
                Instant::now() < until,
                "{name} does not end on the bare GPU"
            );
            thread::sleep(POLL);
        };
        let mut complaint = program.lines()?.into_iter().filter_map(|line| match line {
            Line::Err(text) => Some(text),
            Line::Out(_) => None,
        });
        let complaint = complaint.next_back().unwrap_or_default();
        ensure!(
            status.success() || status.code() == Some(CUDA_FAILED),
            "{name} ended with {status} on the bare GPU: {complaint}"
        );
        fared.push(Bare {
            name,
            completed: status.success(),
            complaint,
        });
    }
    Ok(fared)
}
