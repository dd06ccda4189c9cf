//! Two realtime tasks that do not fit together, under `test = "pipelined"`: while one leaves the GPU,
//! the other comes, and no deadline is missed.
#![allow(missing_docs)]

mod run;

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Verdict, logged_at, until_judged};
use serde_json::Value;

use run::{JOBS, PERIOD_MS, Run, WINDOW, run};

/// A host that was late by so much in two periods may have made a job late.
const STALLED: Duration = Duration::from_millis(PERIOD_MS / 4);
/// A run of which a stalled host made more jobs late than a quarter shows nothing.
const MOST_UNJUDGED: u64 = 2 * JOBS / 4;

impl Run {
    /// No wrong byte, no lost job, and memory moved both ways, however late the host is.
    fn ensure_right(&self) -> Result<()> {
        for (report, task) in self.reports.iter().zip(&self.tasks) {
            ensure!(
                report["checksum_errors"] == 0 && report["jobs"] == JOBS,
                "{self:#?}"
            );
            for moved in ["swap_out_bytes_total", "swap_in_bytes_total"] {
                // At least eight chunks a job.
                ensure!(
                    task[moved].as_u64() >= Some(JOBS * (16 << 20)),
                    "{moved}: {self:#?}"
                );
            }
        }
        Ok(())
    }

    /// The jobs of both tasks that a stalled host kept from being judged.
    ///
    /// # Errors
    /// A job was late, was not counted or broke a bound while the host was not late itself.
    fn unjudged_jobs(&self) -> Result<u64> {
        let mut late = 0;
        for line in &self.warnings {
            if line.contains("deadline missed") || line.contains("violation") {
                let stall = self.stalls.before(logged_at(line)?);
                ensure!(stall >= STALLED, "{stall:?} before {line}: {self:#?}");
                late += 1;
            }
        }
        let sum = |key: &str| {
            self.tasks
                .iter()
                .filter_map(|task| task[key].as_u64())
                .sum::<u64>()
        };
        // Also what was not logged.
        let told = sum("deadline_misses") + sum("violations");
        // Two jobs are one where nobody had a processor to see the pause between them.
        let jobs = self.tasks.iter().filter_map(|task| task["jobs"].as_u64());
        let uncounted: u64 = jobs.map(|jobs| JOBS.saturating_sub(jobs)).sum();
        let worst = self.stalls.worst();
        ensure!(
            told + uncounted == 0 || worst >= STALLED,
            "the host late by {worst:?} at most: {self:#?}"
        );
        Ok(told.max(late) + uncounted)
    }

    /// Whether the copies of this run, pipelined, overlap, which those of `demand` do not.
    fn overlaps(&self, demand: &Self) -> Result<bool> {
        // One after the other meets in one window an exchange; overlapping fills several.
        let seen = self.both_ways >= 2 * JOBS as u32 && self.both_ways > 2 * demand.both_ways;
        ensure!(
            seen || self.stalls.worst() >= STALLED,
            "the copies do not overlap: {} windows, {} under demand",
            self.both_ways,
            demand.both_ways
        );
        Ok(seen)
    }

    /// The tasks' median response times, in ms.
    fn responses(&self) -> Vec<f64> {
        let median = |report: &Value| report["response_ms"]["p50"].as_f64().unwrap_or(f64::NAN);
        self.reports.iter().map(median).collect()
    }
}

#[test]
fn who_leaves_and_who_comes_overlap() -> Result<()> {
    until_judged("pipelined swaps", demand_and_pipelined)
}

fn demand_and_pipelined() -> Result<Verdict> {
    let (demand, pipelined) = (run("demand")?, run("pipelined")?);
    let mut unjudged = Vec::new();
    for (name, run) in [("demand", &demand), ("pipelined", &pipelined)] {
        println!(
            "{name}: median responses {:?} ms, both ways in {} windows of {WINDOW:?}",
            run.responses(),
            run.both_ways
        );
        run.ensure_right()?;
        let jobs = run.unjudged_jobs()?;
        if jobs > 0 {
            let text = format!("{name}: {jobs} of {} jobs", 2 * JOBS);
            let worst = run.stalls.worst();
            // Past the harness, which hides what passes.
            let _ = writeln!(
                std::io::stderr(),
                "UNJUDGED: {text}, host late by {worst:?}"
            );
            unjudged.extend((jobs > MOST_UNJUDGED).then_some(text));
        }
    }
    if !pipelined.overlaps(&demand)? {
        unjudged.push("whether the copies overlap".into());
    }
    Ok(if unjudged.is_empty() {
        Verdict::Judged
    } else {
        Verdict::Unjudged(unjudged.join(", "))
    })
}
