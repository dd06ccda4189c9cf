//! What came of a simulation.

use rtswap_policy::assign::Assignment;
use rtswap_policy::task::TaskId;
use rtswap_simulator::{Report, Responses};
use serde::Serialize;

use crate::cli::SimulateOptions;
use crate::plan::Planned;

/// The JSON of `simulate`, version 1. Times are of jobs that completed, from eligible to completed.
#[derive(Debug, Serialize)]
pub(super) struct Answer<'a> {
    version: u32,
    /// Always: a set that is not has the JSON of `plan`.
    schedulable: bool,
    pub(super) test: &'static str,
    pub(super) chunk_bytes: u64,
    pub(super) duration_ns: u64,
    pub(super) seed: Option<u64>,
    pub(super) jobs: u64,
    pub(super) misses: u64,
    pub(super) tasks: Vec<Task<'a>>,
    /// What the scheduler reported as broken.
    pub(super) violations: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Task<'a> {
    pub(super) name: &'a str,
    pub(super) deadline_ns: u64,
    pub(super) swap_volume_bytes: u64,
    pub(super) jobs: u64,
    pub(super) misses: u64,
    /// Null if no job completed.
    pub(super) response_ns: Option<Response>,
    /// Why the scheduler did not take it.
    pub(super) refused: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct Response {
    min: u64,
    mean: u64,
    pub(super) p50: u64,
    p95: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        planned: &'a Planned,
        plan: &Assignment,
        options: &SimulateOptions,
        report: &'a Report,
        responses: &Responses,
    ) -> Self {
        let declared = planned.set.tasks.iter().zip(&report.tasks);
        let tasks = declared.enumerate().map(|(place, (task, came))| Task {
            name: &task.name,
            deadline_ns: task.timing.deadline.0,
            swap_volume_bytes: plan.volumes[place].0,
            jobs: came.jobs,
            misses: came.misses,
            response_ns: responses
                .summary(TaskId(place as u32))
                .map(|times| Response {
                    min: times.min.0,
                    mean: times.mean.0,
                    p50: times.p50.0,
                    p95: times.p95.0,
                    p99: times.p99.0,
                    max: times.max.0,
                }),
            refused: came.refused.as_deref(),
        });
        let violations = report.violations.iter();
        Self {
            version: 1,
            schedulable: true,
            test: planned.test.name(),
            chunk_bytes: plan.chunk.0,
            duration_ns: u64::try_from(options.duration.as_nanos()).unwrap_or(u64::MAX),
            seed: options.seed,
            jobs: report.jobs(),
            misses: report.misses(),
            tasks: tasks.collect(),
            violations: violations
                .map(|violation| violation.detail.clone())
                .collect(),
        }
    }

    /// Whether all that was promised was kept.
    pub(super) fn kept(&self) -> bool {
        self.misses == 0
            && self.violations.is_empty()
            && self.tasks.iter().all(|task| task.refused.is_none())
    }
}
