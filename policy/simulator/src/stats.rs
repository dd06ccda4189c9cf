//! Response times, exact: every one is kept.

use alloc::vec::Vec;

use rtswap_policy::scheduler::JobEnd;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::Nanos;

use crate::record::{Observer, Record};

/// Gathers the response times of jobs that completed, from eligible to completed. Of a realtime
/// task only jobs with a deadline count, as in the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Responses {
    tasks: Vec<OfTask>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfTask {
    promised: Vec<Nanos>,
    others: Vec<Nanos>,
    misses: u64,
}

/// The response times of one task. A percentile is the least time within which that share of the
/// jobs had completed (nearest rank).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many jobs completed.
    pub count: u64,
    /// Of them, those after their deadline.
    pub misses: u64,
    /// The shortest response time.
    pub min: Nanos,
    /// The mean, rounded down to a nanosecond.
    pub mean: Nanos,
    /// The median: half of the jobs had completed within it.
    pub p50: Nanos,
    /// The 95th percentile.
    pub p95: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
    /// The longest response time.
    pub max: Nanos,
}

impl Responses {
    /// Of the task at this place in the scenario; none if no job of it completed.
    pub fn summary(&self, task: TaskId) -> Option<Summary> {
        let of = self.tasks.get(task.0 as usize)?;
        let mut times = if of.promised.is_empty() {
            of.others.clone()
        } else {
            of.promised.clone()
        };
        times.sort_unstable();
        let (min, max) = (*times.first()?, *times.last()?);
        let sum: u128 = times.iter().map(|time| u128::from(time.0)).sum();
        let count = times.len() as u64;
        let rank = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        Some(Summary {
            count,
            misses: of.misses,
            min,
            mean: Nanos(u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX)),
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
            max,
        })
    }
}

impl Observer for Responses {
    fn job(&mut self, record: &Record) {
        let account = &record.account;
        if account.end != JobEnd::Completed {
            return;
        }
        let place = account.task.0 as usize;
        if self.tasks.len() <= place {
            self.tasks.resize_with(place + 1, OfTask::default);
        }
        let task = &mut self.tasks[place];
        let response = account.ended - account.eligible;
        match account.deadline {
            Some(_) => task.promised.push(response),
            None => task.others.push(response),
        }
        task.misses += u64::from(account.lateness() > Nanos::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtswap_policy::scheduler::{JobAccount, JobKind, JobSeq};
    use rtswap_policy::units::Time;

    fn record(task: u32, response: u64, deadline: Option<u64>) -> Record {
        let start = Time(1_000);
        Record {
            account: JobAccount {
                task: TaskId(task),
                job: JobSeq(1),
                kind: JobKind::Declared,
                requested: start,
                eligible: start,
                deadline: deadline.map(|span| start + Nanos(span)),
                granted: Some(start),
                ended: start + Nanos(response),
                end: JobEnd::Completed,
                queue: Nanos::ZERO,
                swap_out: Nanos::ZERO,
                swap_in: Nanos::ZERO,
                execution: Nanos(response),
                blocked_by: None,
            },
            out: crate::record::Moved::default(),
            in_: crate::record::Moved::default(),
        }
    }

    #[test]
    fn percentiles_are_times_that_were_seen() {
        let mut responses = Responses::default();
        for response in (1..=200).rev() {
            responses.job(&record(1, response, Some(198)));
        }
        assert_eq!(responses.summary(TaskId(0)), None);
        assert_eq!(responses.summary(TaskId(2)), None);
        let summary = responses.summary(TaskId(1)).unwrap();
        let wanted = Summary {
            count: 200,
            misses: 2,
            min: Nanos(1),
            mean: Nanos(100),
            p50: Nanos(100),
            p95: Nanos(190),
            p99: Nanos(198),
            max: Nanos(200),
        };
        assert_eq!(summary, wanted);
        let mut one = Responses::default();
        one.job(&record(0, 7, None));
        let summary = one.summary(TaskId(0)).unwrap();
        assert_eq!((summary.p50, summary.p99), (Nanos(7), Nanos(7)));
    }

    #[test]
    fn loading_does_not_count_beside_jobs_with_deadlines() {
        let mut responses = Responses::default();
        responses.job(&record(0, 900, None));
        responses.job(&record(0, 3, Some(5)));
        let summary = responses.summary(TaskId(0)).unwrap();
        assert_eq!((summary.count, summary.max), (1, Nanos(3)));
    }
}
