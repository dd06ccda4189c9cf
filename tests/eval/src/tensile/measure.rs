//! Noisy runs of equal jobs, and the paper's three ratios.
//!
//! The memory saving ratio (MSR) is the part of vanilla's memory peak that a method does without, the extra overhead ratio
//! (EOR) the time that it takes beyond vanilla's over vanilla's, and the cost-benefit ratio (CBR) the first over the second.
//! Vanilla is the same jobs without swaps, in runs with the same noise.

use anyhow::Result;
use rtswap_planner::graph::Graph;
use rtswap_planner::stays::Stays;

use super::CHUNK;
use super::method::{Expected, Kept, Method, Order, Ours};
use super::session::{Done, Launch, Outcome, run};
use super::workloads::{predicted, trace};

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs, each with noise of its own.
    pub runs: u64,
    /// Iterations of each job in a run.
    pub iterations: u32,
}

impl Effort {
    /// What docs/evaluation.md has.
    pub const FULL: Self = Self {
        runs: 20,
        iterations: 20,
    };
}

/// A mean and a standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
}

impl Spread {
    /// Of some values.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            mean,
            deviation: (squares / count).sqrt(),
        }
    }
}

/// What a method came to in all runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The part of the memory that is saved where vanilla frees nothing within an iteration, as the paper counts.
    pub saved: f64,
    /// The same where vanilla frees each tensor behind its last use.
    pub saved_of_freed: f64,
    /// The extra time as a part of vanilla's, the first iteration among it.
    pub extra: Spread,
    /// The same of all iterations but the first.
    pub extra_later: f64,
    /// Passive swaps of a job in an iteration.
    pub passive: f64,
    /// For how long a job waited for them in an iteration, in nanoseconds.
    pub passive_ns: f64,
}

impl Measured {
    /// The cost-benefit ratio; none where the cost is within its deviation.
    pub fn benefit(&self) -> Option<f64> {
        let has_cost = self.extra.mean > self.extra.deviation;
        has_cost.then(|| self.saved / self.extra.mean)
    }

    /// Whether the cost-benefit ratio is larger than another one's.
    pub fn is_better(&self, other: &Self) -> bool {
        let benefit = |of: &Self| of.benefit().unwrap_or(f64::INFINITY);
        benefit(self) > benefit(other)
    }
}

/// The memory that TENSILE needs for each job in PyTorch's order, which is also Capuchin's, in bytes: Capuchin is told to
/// save as much.
pub fn targets(graphs: &[&Graph]) -> Vec<u64> {
    let ours = Ours {
        order: Order::Trace,
        kept: Kept::Swapped,
    };
    let jobs: Vec<Expected<'_>> = graphs
        .iter()
        .map(|graph| Expected {
            graph,
            times: predicted(graph)
                .iter()
                .map(|ns| ns * graphs.len() as u64)
                .collect(),
        })
        .collect();
    let decided = ours.decide(&jobs);
    decided.iter().map(|stays| stays.peak().1).collect()
}

/// Jobs that are launched at the same instant.
pub fn together<'a>(graphs: &[&'a Graph], targets: &[u64], iterations: u32) -> Vec<Launch<'a>> {
    let jobs = graphs.iter().zip(targets);
    jobs.map(|(graph, target)| Launch {
        graph,
        begins_ns: 0,
        iterations,
        predicted: predicted(graph),
        target: *target,
    })
    .collect()
}

/// Measures methods with jobs that are launched at the same instant.
pub fn measure(graphs: &[&Graph], methods: &[Method], effort: Effort) -> Result<Vec<Measured>> {
    let launches = together(graphs, &targets(graphs), effort.iterations);
    let sessions = |method| {
        let seeds = 1..=effort.runs;
        seeds
            .map(|seed| run(&launches, method, true, seed))
            .collect::<Result<Vec<Outcome>>>()
    };
    let vanilla = sessions(Method::Vanilla)?;
    let freed: u64 = graphs
        .iter()
        .map(|graph| Stays::new(graph, trace(graph), CHUNK).peak().1)
        .sum();
    let measured = methods.iter().map(|method| {
        let outcomes = sessions(*method)?;
        Ok(compare(&outcomes, &vanilla, freed))
    });
    measured.collect()
}

fn compare(outcomes: &[Outcome], vanilla: &[Outcome], freed: u64) -> Measured {
    let mean = |values: Vec<f64>| Spread::of(&values).mean;
    let extra = |of: fn(&Done) -> u64| -> Vec<f64> {
        let pairs = outcomes.iter().zip(vanilla);
        let ratio = |(one, other): (&Outcome, &Outcome)| {
            let jobs = one.jobs.iter().zip(&other.jobs);
            let ratios = jobs.map(|(one, other)| of(one) as f64 / of(other) as f64 - 1.0);
            mean(ratios.collect())
        };
        pairs.map(ratio).collect()
    };
    let peaks = outcomes.iter().map(|outcome| outcome.peak as f64);
    let peak = mean(peaks.collect());
    let unfreed = outcomes.first().map_or(0, |outcome| outcome.unfreed);
    let jobs = || outcomes.iter().flat_map(|outcome| &outcome.jobs);
    let passive = jobs().flat_map(|job| job.passive.iter().map(|count| f64::from(*count)));
    let waited = jobs().flat_map(|job| job.passive_ns.iter().map(|ns| *ns as f64));
    Measured {
        saved: 1.0 - peak / unfreed as f64,
        saved_of_freed: 1.0 - peak / freed as f64,
        extra: Spread::of(&extra(|job| job.total_ns)),
        extra_later: mean(extra(|job| job.total_ns - job.first_ns)),
        passive: mean(passive.collect()),
        passive_ns: mean(waited.collect()),
    }
}
