//! What came of a run.

use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{JobAccount, JobEnd};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::record::Violation;

/// What came of one task. What was before the start is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskReport {
    /// The task's name in the scenario.
    pub name: String,
    /// Why it was refused, if it was: then there is nothing else.
    pub refused: Option<String>,
    /// Its allocation was refused while it loaded: the program ended.
    pub out_of_memory: bool,
    /// x as it was admitted with; a later plan may have given it another.
    pub volume: Bytes,
    /// When its jobs began to have deadlines, by the run's own clock; the start at the earliest. None
    /// for a best-effort task, and for one that was not ready before the end.
    pub ready: Option<Time>,
    /// Jobs that completed; of a realtime task, with a deadline.
    pub jobs: u64,
    /// Of them, those that completed after their deadline.
    pub misses: u64,
    /// Jobs that were revoked (best-effort). What is left of one is a job of its own.
    pub revoked: u64,
    /// How long its jobs executed between the start and the end of the duration (best-effort).
    pub work: Nanos,
    /// Bursts that executed to their end (best-effort): what their user waits for.
    pub bursts: u64,
    /// The longest time from the request of a burst's first job to the end of its last.
    pub burst_max: Nanos,
    /// The longest time from eligible to completed.
    pub response_max: Nanos,
    /// The sum of all response times; divided by `jobs`, their mean.
    pub response_sum: Nanos,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// When jobs began to be asked for, by the run's own clock.
    pub start: Time,
    /// The end of the duration, or of the last job if that was later.
    pub end: Time,
    /// In the order of the scenario.
    pub tasks: Vec<TaskReport>,
    /// What the scheduler reported as broken, loading included.
    pub violations: Vec<Violation>,
    /// Each job that missed its deadline.
    pub late: Vec<JobAccount>,
}

impl Report {
    /// Jobs that missed their deadline.
    pub fn misses(&self) -> u64 {
        self.tasks.iter().map(|task| task.misses).sum()
    }

    /// Jobs that completed, those with a deadline and those of best-effort.
    pub fn jobs(&self) -> u64 {
        self.tasks.iter().map(|task| task.jobs).sum()
    }

    /// Whether every task that came was admitted.
    pub fn admitted(&self) -> bool {
        self.tasks.iter().all(|task| task.refused.is_none())
    }

    pub(crate) fn task(&mut self, id: TaskId) -> &mut TaskReport {
        &mut self.tasks[id.0 as usize]
    }

    pub(crate) fn add(&mut self, account: JobAccount, realtime: bool) {
        let task = self.task(account.task);
        match account.end {
            // Loading, or demoted: nothing was promised.
            JobEnd::Completed if realtime && account.deadline.is_none() => return,
            JobEnd::Completed => {}
            JobEnd::Revoked => {
                task.revoked += 1;
                return;
            }
            JobEnd::TaskGone => return,
        }
        let response = account.ended - account.eligible;
        task.jobs += 1;
        task.response_sum += response;
        task.response_max = task.response_max.max(response);
        if account.lateness() > Nanos::ZERO {
            task.misses += 1;
            self.late.push(account);
        }
    }
}
