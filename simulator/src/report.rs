//! What came of a run.

use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{JobAccount, JobEnd, ViolationKind};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos};

/// What came of one task. Loading is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskReport {
    /// Its name.
    pub name: String,
    /// Why it was refused, if it was: then there is nothing else.
    pub refused: Option<String>,
    /// x as it was admitted with.
    pub volume: Bytes,
    /// Jobs that completed.
    pub jobs: u64,
    /// Of them, those that completed after their deadline.
    pub misses: u64,
    /// Jobs that were revoked (best-effort).
    pub revoked: u64,
    /// The longest time from eligible to completed.
    pub response_max: Nanos,
    /// Their sum.
    pub response_sum: Nanos,
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of the scenario.
    pub tasks: Vec<TaskReport>,
    /// What the scheduler reported as broken.
    pub violations: Vec<(TaskId, ViolationKind, String)>,
    /// Each job that missed its deadline.
    pub late: Vec<JobAccount>,
}

impl Report {
    /// Jobs that missed their deadline.
    pub fn misses(&self) -> u64 {
        self.tasks.iter().map(|task| task.misses).sum()
    }

    /// Whether every task was admitted.
    pub fn admitted(&self) -> bool {
        self.tasks.iter().all(|task| task.refused.is_none())
    }

    pub(crate) fn add(&mut self, account: JobAccount) {
        let task = &mut self.tasks[account.task.0 as usize];
        match account.end {
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
