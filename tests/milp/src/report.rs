//! What is counted and timed, and how it is printed.

use std::time::Duration;

use serde::Serialize;

use crate::compare::{Comparison, Verdict};
use crate::planning::Planning;

/// The instances of one family under one objective.
#[derive(Default, Serialize)]
pub(crate) struct Count {
    family: &'static str,
    /// What is minimised: "time" or "volume".
    objective: &'static str,
    instances: u64,
    feasible: u64,
    unproven: u64,
    infeasible: u64,
    within_tolerance: u64,
    overruled: u64,
    unknown: u64,
    disagreements: u64,
    median_us: f64,
    highs_median_us: f64,
    /// The median over the instances of how many times longer HiGHS took.
    ratio: f64,
    #[serde(skip)]
    times: Times,
}

/// Times of `assign` and of HiGHS in µs, and how many times longer HiGHS took, by instance.
#[derive(Default)]
struct Times {
    ours: Vec<f64>,
    highs: Vec<f64>,
    ratios: Vec<f64>,
}

/// The whole comparison.
#[derive(Serialize)]
pub(crate) struct Report {
    version: u32,
    /// HiGHS's version.
    highs: String,
    seed: u64,
    seconds: f64,
    counts: Vec<Count>,
    /// The instances on which `assign` is wrong.
    pub(crate) disagreements: u64,
    median_us: f64,
    highs_median_us: f64,
    /// The median over all instances of how many times longer HiGHS took.
    pub(crate) ratio: f64,
    planning: Vec<Planning>,
}

impl Count {
    /// Nothing counted yet.
    pub(crate) fn new(family: &'static str, objective: &'static str) -> Self {
        Self {
            family,
            objective,
            ..Self::default()
        }
    }

    /// Counts the outcome of one more instance.
    pub(crate) fn add(&mut self, comparison: &Comparison) {
        let (ours, highs) = (micros(comparison.ours), micros(comparison.highs));
        self.times.ours.push(ours);
        self.times.highs.push(highs);
        self.times.ratios.push(highs / ours);
        match &comparison.verdict {
            Verdict::BothFeasible => {
                self.feasible += 1;
                self.unproven += u64::from(!comparison.proven);
            }
            Verdict::BothInfeasible => self.infeasible += 1,
            Verdict::WithinTolerance => self.within_tolerance += 1,
            Verdict::Overruled => self.overruled += 1,
            Verdict::Unknown => self.unknown += 1,
            Verdict::Disagree(what) => {
                self.disagreements += 1;
                let number = self.instances;
                eprintln!("{} {} {number}: {what}", self.family, self.objective);
            }
        }
        self.instances += 1;
    }
}

impl Times {
    fn medians(&mut self) -> (f64, f64, f64) {
        (
            median(&mut self.ours),
            median(&mut self.highs),
            median(&mut self.ratios),
        )
    }
}

impl Report {
    /// Sums `counts` up. `elapsed` is the wall time of the comparison, HiGHS's version is `highs`.
    pub(crate) fn new(
        highs: String,
        seed: u64,
        elapsed: Duration,
        mut counts: Vec<Count>,
        planning: Vec<Planning>,
    ) -> Self {
        let mut all = Times::default();
        for count in &mut counts {
            let times = &mut count.times;
            (count.median_us, count.highs_median_us, count.ratio) = times.medians();
            all.ours.append(&mut times.ours);
            all.highs.append(&mut times.highs);
            all.ratios.append(&mut times.ratios);
        }
        let (median_us, highs_median_us, ratio) = all.medians();
        Self {
            version: 1,
            highs,
            seed,
            seconds: elapsed.as_secs_f64(),
            disagreements: counts.iter().map(|count| count.disagreements).sum(),
            counts,
            median_us,
            highs_median_us,
            ratio,
            planning,
        }
    }

    /// Prints the report as a table.
    pub(crate) fn print(&self) {
        println!(
            "{:<11} {:<7} {:>9} {:>9} {:>8} {:>10} {:>9} {:>9} {:>7} {:>8} {:>9} {:>11} {:>7}",
            "family",
            "goal",
            "instances",
            "feasible",
            "unproven",
            "infeasible",
            "tolerance",
            "overruled",
            "unknown",
            "disagree",
            "ours µs",
            "HiGHS µs",
            "ratio"
        );
        for count in &self.counts {
            println!(
                "{:<11} {:<7} {:>9} {:>9} {:>8} {:>10} {:>9} {:>9} {:>7} {:>8} {:>9.1} {:>11.1} {:>7.0}",
                count.family,
                count.objective,
                count.instances,
                count.feasible,
                count.unproven,
                count.infeasible,
                count.within_tolerance,
                count.overruled,
                count.unknown,
                count.disagreements,
                count.median_us,
                count.highs_median_us,
                count.ratio
            );
        }
        println!(
            "seed {}, HiGHS {}: {} disagreements in {:.1} s; medians {:.1} µs and {:.1} µs, {:.0} times faster in \
             the median",
            self.seed,
            self.highs,
            self.disagreements,
            self.seconds,
            self.median_us,
            self.highs_median_us,
            self.ratio
        );
        for planning in &self.planning {
            println!(
                "{} tasks, all chunk sizes, base {} ms, {}, {}, {}schedulable: {:.3} ms",
                planning.tasks,
                planning.base_ms,
                planning.test,
                planning.objective,
                if planning.schedulable { "" } else { "not " },
                planning.millis
            );
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
