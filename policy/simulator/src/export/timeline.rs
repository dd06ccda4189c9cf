//! Everything that happened in a run.

use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::Sharing;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::Time;

use crate::record::{Change, Observer, Record, SwapRecord, Violation};
use crate::scenario::Scenario;

/// Gathers a run from its start on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The tasks' names, in the order of the scenario.
    pub names: Vec<String>,
    /// Which jobs may hold the GPU at the same time.
    pub sharing: Sharing,
    /// The start of the run; pictures count from it.
    pub start: Time,
    /// The last instant at which anything happened.
    pub end: Time,
    /// Jobs, in the order of their ends.
    pub jobs: Vec<Record>,
    /// Swap operations, in the order of their ends.
    pub swaps: Vec<SwapRecord>,
    /// Arrivals, departures and readiness of tasks, and changes of the capacity.
    pub changes: Vec<(Time, Change)>,
    /// What the scheduler reported as broken.
    pub violations: Vec<Violation>,
}

impl Timeline {
    /// An empty one for `scenario`.
    pub fn new(scenario: &Scenario) -> Self {
        let names = scenario.tasks.iter().map(|task| task.spec.name.clone());
        Self {
            names: names.collect(),
            sharing: scenario.config.sharing,
            start: Time::ZERO,
            end: Time::ZERO,
            jobs: Vec::new(),
            swaps: Vec::new(),
            changes: Vec::new(),
            violations: Vec::new(),
        }
    }

    pub(super) fn name(&self, task: TaskId) -> &str {
        self.names.get(task.0 as usize).map_or("?", String::as_str)
    }

    /// Whether the execution of `job` belongs on the one row of the compute engine: where jobs
    /// may run beside each other, only those of realtime.
    pub(super) fn computes_alone(&self, job: &Record) -> bool {
        self.sharing == Sharing::Exclusive || job.account.deadline.is_some()
    }
}

impl Observer for Timeline {
    fn start(&mut self, now: Time) {
        self.start = now;
        self.end = now;
    }

    fn job(&mut self, record: &Record) {
        self.end = self.end.max(record.account.ended);
        self.jobs.push(*record);
    }

    fn swap(&mut self, record: &SwapRecord) {
        self.end = self.end.max(record.ended);
        self.swaps.push(*record);
    }

    fn change(&mut self, now: Time, change: Change) {
        self.end = self.end.max(now);
        self.changes.push((now, change));
    }

    fn violation(&mut self, violation: &Violation) {
        self.end = self.end.max(violation.at);
        self.violations.push(violation.clone());
    }
}
