//! When jobs are released, and what became of them.
//!
//! The release rule is that of a sporadic task: releases are at least a period apart, and none is
//! ever skipped. A job's release is the instant its timer was set for. Where the program gets to
//! it late, because the job before took longer than the period or the host did not wake it, the
//! whole delay counts in that job's response, and the next timer is set a period after the late
//! start, so that one delay is not counted again in every later job. The sum of those shifts is
//! reported as `drift_ms`.

use std::thread;
use std::time::{Duration, Instant};

/// What one job took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Job {
    /// From its release to its completion.
    pub response: Duration,
    /// From its first GPU work being accepted to its completion.
    pub execution: Duration,
    /// Whether the result was what the CPU worked out.
    pub correct: bool,
}

/// The timer of a sporadic task.
pub(crate) struct Releases {
    next: Instant,
    period: Duration,
    drift: Duration,
}

impl Releases {
    /// The first release is at `first`.
    pub(crate) fn new(first: Instant, period: Duration) -> Self {
        Self {
            next: first,
            period,
            drift: Duration::ZERO,
        }
    }

    /// Sleeps until the next release; tells when that was.
    pub(crate) fn wait(&mut self) -> Instant {
        thread::sleep(self.next.saturating_duration_since(Instant::now()));
        self.begin(Instant::now())
    }

    /// The release of the job that begins at `now`.
    fn begin(&mut self, now: Instant) -> Instant {
        let release = self.next;
        self.drift += now.saturating_duration_since(release);
        self.next = now.max(release) + self.period;
        release
    }

    /// How far the releases have moved from a strict period.
    pub(crate) fn drift(&self) -> Duration {
        self.drift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn on_time_releases_are_a_period_apart() {
        let start = Instant::now();
        let mut releases = Releases::new(start, 10 * MS);
        for k in 0..5 {
            assert_eq!(releases.begin(start + k * 10 * MS), start + k * 10 * MS);
        }
        assert_eq!(releases.drift(), Duration::ZERO);
    }

    #[test]
    fn a_delay_counts_once_and_no_release_is_skipped() {
        let start = Instant::now();
        let mut releases = Releases::new(start, 10 * MS);
        releases.begin(start);
        // The first job took 25 ms: the second was due at 10 and keeps that release.
        assert_eq!(releases.begin(start + 25 * MS), start + 10 * MS);
        assert_eq!(releases.begin(start + 35 * MS), start + 35 * MS);
        assert_eq!(releases.drift(), 15 * MS);
    }

    #[test]
    fn waiting_never_returns_before_the_release() {
        let first = Instant::now() + 5 * MS;
        let release = Releases::new(first, 10 * MS).wait();
        assert!(release == first && Instant::now() >= first);
    }
}
