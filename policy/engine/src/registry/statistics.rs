//! What a task's jobs and swaps came to, since its registration or the daemon's start.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{Direction, JobAccount, JobEnd, JobSeq};
use rtswap_policy::units::{Bytes, Nanos};

/// Response times that percentiles are taken of.
const WINDOW: usize = 4096;

/// The sums of one registration.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Jobs that completed, including revoked ones with nothing left to do.
    pub jobs: u64,
    /// The completed jobs that were late.
    pub misses: u64,
    /// The largest lateness.
    pub worst_lateness: Nanos,
    /// The longest response time, from the eligible time to the end.
    pub worst_response: Nanos,
    /// The copies from the GPU.
    pub out: Moved,
    /// The copies to the GPU.
    pub in_: Moved,
    /// How many violations were reported.
    pub violations: u64,
    /// The last revoked job.
    revoked: Option<JobAccount>,
    /// The last response times, oldest first, and the same by size.
    responses: VecDeque<Nanos>,
    sorted: Vec<Nanos>,
}

/// The sum of the copies in one direction, each operation from its request to its acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The bytes that were copied.
    pub bytes: Bytes,
    /// The time that it took.
    pub time: Nanos,
}

impl Statistics {
    /// Counts a job that ended.
    pub fn account(&mut self, job: &JobAccount) {
        match job.end {
            JobEnd::Completed => self.count(job),
            JobEnd::Revoked => self.revoked = Some(*job),
            JobEnd::TaskGone => {}
        }
    }

    /// Counts the revoked job with that number as one that completed.
    pub fn whole(&mut self, job: JobSeq) {
        if let Some(revoked) = self.revoked.take_if(|revoked| revoked.job == job) {
            self.count(&revoked);
        }
    }

    fn count(&mut self, job: &JobAccount) {
        let (response, lateness) = (job.ended - job.eligible, job.lateness());
        self.jobs += 1;
        self.misses += u64::from(lateness > Nanos::ZERO);
        self.worst_lateness = self.worst_lateness.max(lateness);
        self.worst_response = self.worst_response.max(response);
        if self.responses.len() == WINDOW
            && let Some(oldest) = self.responses.pop_front()
        {
            self.sorted.remove(self.place(oldest));
        }
        self.responses.push_back(response);
        self.sorted.insert(self.place(response), response);
    }

    /// Counts a swap operation that ended.
    pub fn copied(&mut self, direction: Direction, bytes: Bytes, took: Nanos) {
        let sum = match direction {
            Direction::Out => &mut self.out,
            Direction::In => &mut self.in_,
        };
        sum.bytes = Bytes(sum.bytes.0.saturating_add(bytes.0));
        sum.time += took;
    }

    /// The median and the 99th percentile (nearest rank) of the last 4,096 response times.
    pub fn percentiles(&self) -> (Nanos, Nanos) {
        let rank = |percent: usize| {
            let rank = (self.sorted.len() * percent)
                .div_ceil(100)
                .saturating_sub(1);
            self.sorted.get(rank).copied().unwrap_or_default()
        };
        (rank(50), rank(99))
    }

    /// Where `response` is, or belongs, among the sorted.
    fn place(&self, response: Nanos) -> usize {
        self.sorted.partition_point(|other| *other < response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtswap_policy::scheduler::JobKind;
    use rtswap_policy::task::TaskId;
    use rtswap_policy::units::Time;

    fn job(response: u64, deadline: u64) -> JobAccount {
        JobAccount {
            task: TaskId(1),
            job: JobSeq(1),
            kind: JobKind::Declared,
            requested: Time(0),
            eligible: Time(100),
            deadline: Some(Time(100 + deadline)),
            granted: Some(Time(100)),
            ended: Time(100 + response),
            end: JobEnd::Completed,
            queue: Nanos::ZERO,
            swap_out: Nanos::ZERO,
            swap_in: Nanos::ZERO,
            execution: Nanos(response),
            blocked_by: None,
        }
    }

    #[test]
    fn percentiles_are_nearest_ranks_of_the_window() {
        let mut statistics = Statistics::default();
        assert_eq!(statistics.percentiles(), (Nanos::ZERO, Nanos::ZERO));
        for response in 1..=200 {
            statistics.account(&job(response, 199));
        }
        assert_eq!(statistics.percentiles(), (Nanos(100), Nanos(198)));
        assert_eq!((statistics.jobs, statistics.misses), (200, 1));
        assert_eq!(statistics.worst_lateness, Nanos(1));
        for _ in 0..WINDOW {
            statistics.account(&job(7, 10));
        }
        assert_eq!(statistics.percentiles(), (Nanos(7), Nanos(7)));
        assert_eq!(statistics.worst_response, Nanos(200), "of all jobs");
    }

    #[test]
    fn a_job_that_did_not_complete_is_none() {
        let mut statistics = Statistics::default();
        statistics.account(&JobAccount {
            end: JobEnd::TaskGone,
            ..job(5, 1)
        });
        assert_eq!((statistics.jobs, statistics.misses), (0, 0));
    }

    #[test]
    fn a_revoked_job_counts_once_it_is_known_to_be_whole() {
        let mut statistics = Statistics::default();
        let revoked = JobAccount {
            end: JobEnd::Revoked,
            ..job(5, 10)
        };
        statistics.account(&revoked);
        statistics.whole(JobSeq(2));
        assert_eq!(statistics.jobs, 0, "another");
        statistics.whole(JobSeq(1));
        statistics.whole(JobSeq(1));
        assert_eq!((statistics.jobs, statistics.misses), (1, 0));
        assert_eq!(statistics.percentiles().0, Nanos(5));
    }
}
