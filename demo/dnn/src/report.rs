//! What is told at the end.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::periodic::Job;

/// Bytes of one job's result.
const RESULT_BYTES: u64 = 8;

/// Percentiles of a time over all jobs that count, in ms.
#[derive(Debug, Serialize, PartialEq)]
pub(crate) struct Summary {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Summary {
    fn of(times: impl Iterator<Item = Duration>) -> Self {
        let mut ms: Vec<f64> = times.map(|time| time.as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        Self {
            p50: nearest(&ms, 0.50),
            p99: nearest(&ms, 0.99),
            max: nearest(&ms, 1.0),
        }
    }
}

/// The nearest-rank percentile of sorted values; 0 where there are none.
fn nearest(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The report of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: u32,
    name: String,
    jobs: usize,
    deadline_misses: usize,
    /// Wrong results, those of the warm-up included.
    pub checksum_errors: u64,
    response_ms: Summary,
    execution_ms: Summary,
    drift_ms: f64,
    /// Bytes that the program itself copied from the GPU.
    d2h_bytes: u64,
    /// Bytes that the program itself copied to the GPU: none, its weights are made there.
    h2d_bytes: u64,
}

impl Report {
    /// The report over `jobs` that count after `warmup` that do not (they are only checked).
    pub(crate) fn new(
        name: &str,
        deadline: Duration,
        warmup: &[Job],
        jobs: &[Job],
        drift: Duration,
    ) -> Self {
        let all = || warmup.iter().chain(jobs);
        Self {
            version: 1,
            name: name.into(),
            jobs: jobs.len(),
            deadline_misses: jobs.iter().filter(|job| job.response > deadline).count(),
            checksum_errors: all().filter(|job| !job.correct).count() as u64,
            response_ms: Summary::of(jobs.iter().map(|job| job.response)),
            execution_ms: Summary::of(jobs.iter().map(|job| job.execution)),
            drift_ms: drift.as_secs_f64() * 1e3,
            d2h_bytes: all().count() as u64 * RESULT_BYTES,
            h2d_bytes: 0,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} jobs, {} deadline misses, {} wrong results",
            self.name, self.jobs, self.deadline_misses, self.checksum_errors
        )?;
        for (what, ms) in [
            ("response", &self.response_ms),
            ("execution", &self.execution_ms),
        ] {
            let (p50, p99, max) = (ms.p50, ms.p99, ms.max);
            writeln!(
                f,
                "{what:9}  p50 {p50:.2} ms   p99 {p99:.2} ms   max {max:.2} ms"
            )?;
        }
        write!(f, "drift      {:.2} ms", self.drift_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(ms: u64, correct: bool) -> Job {
        let response = Duration::from_millis(ms);
        Job {
            response,
            execution: response / 2,
            correct,
        }
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let ms = |range: std::ops::RangeInclusive<u64>| range.map(Duration::from_millis);
        assert_eq!(
            Summary::of(ms(1..=100)),
            Summary {
                p50: 50.0,
                p99: 99.0,
                max: 100.0
            }
        );
        assert_eq!(
            Summary::of(ms(7..=7)),
            Summary {
                p50: 7.0,
                p99: 7.0,
                max: 7.0
            }
        );
        let none = Summary {
            p50: 0.0,
            p99: 0.0,
            max: 0.0,
        };
        assert_eq!(Summary::of([].into_iter()), none);
    }

    #[test]
    fn warmup_is_checked_but_not_counted() {
        let jobs = [job(10, true), job(31, true), job(30, false)];
        let deadline = Duration::from_millis(30);
        let report = Report::new("a", deadline, &[job(500, false)], &jobs, Duration::ZERO);
        assert_eq!(
            (report.jobs, report.deadline_misses, report.checksum_errors),
            (3, 1, 2)
        );
        assert_eq!((report.d2h_bytes, report.response_ms.max), (32, 31.0));
        assert_eq!(serde_json::to_value(&report).unwrap()["version"], 1);
    }
}
