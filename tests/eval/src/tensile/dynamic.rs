//! Jobs that come and go, and first predictions that are wrong.

use anyhow::Result;
use rtswap_planner::advisor::Rng;
use rtswap_planner::graph::Graph;

use super::measure::{Spread, targets};
use super::method::Method;
use super::session::{Launch, Outcome, run};
use super::workloads::{WORKLOADS, Workload, predicted};

/// The deviation of the logarithm of predicted over true times of operators: with it the coefficient of determination R² of
/// predictions for VGG is about 0.57 in the median; the paper has 0.582 for its learned ones, on average over kinds of operators.
pub const ERROR: f64 = 0.55;

/// The jobs that come and go: VGG is alone at first, then beside two others, and alone again at last.
pub const VISITS: [Visit; 3] = [
    visit(WORKLOADS[0], 0, 100),
    visit(WORKLOADS[3], 500, 40),
    visit(WORKLOADS[1], 1_000, 30),
];

const fn visit(workload: Workload, begins_ms: u64, iterations: u32) -> Visit {
    Visit {
        workload,
        begins_ms,
        iterations,
    }
}

/// How good the first prediction of operators' times is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The deviation of the logarithm of the error of an operator.
    pub error: f64,
    /// All times are predicted so many times as long.
    pub factor: f64,
}

impl Prediction {
    /// The roofline, which the machine has as well.
    pub const RIGHT: Self = Self {
        error: 0.0,
        factor: 1.0,
    };

    /// The prediction for each operator of a graph, in nanoseconds.
    pub fn of(self, graph: &Graph, seed: u64) -> Vec<u64> {
        let mut rng = Rng::new(seed);
        let wrong = |ns: u64| {
            let error = (self.error * rng.normal()).exp() * self.factor;
            // A cast from f64 saturates.
            (ns as f64 * error + 0.5) as u64
        };
        predicted(graph).into_iter().map(wrong).collect()
    }
}

/// The coefficient of determination of predicted times.
pub fn r_squared(predicted: &[u64], actual: &[u64]) -> f64 {
    let mean = actual.iter().map(|ns| *ns as f64).sum::<f64>() / actual.len() as f64;
    let residual: f64 = predicted
        .iter()
        .zip(actual)
        .map(|(one, other)| (*one as f64 - *other as f64).powi(2))
        .sum();
    let total: f64 = actual.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum();
    1.0 - residual / total
}

/// A job that is launched while others run.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    /// What it trains.
    pub workload: Workload,
    /// When it is launched, in milliseconds.
    pub begins_ms: u64,
    /// How many iterations it stays.
    pub iterations: u32,
}

/// What came of jobs that come and go, or of wrong predictions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// The extra time until the last job has ended, as a part of vanilla's.
    pub extra: Spread,
    /// The extra time of iterations: the first five of each job, and the last five.
    pub ends: [f64; 2],
    /// The part of vanilla's memory peak that is saved, where it frees nothing within an iteration.
    pub saved: f64,
    /// Passive swaps of a job in an iteration.
    pub passive: f64,
    /// Times that plans were made for all jobs because operators took other times than expected.
    pub drifts: f64,
}

/// Runs jobs that come and go with a method.
pub fn course(
    visits: &[Visit],
    method: Method,
    prediction: Prediction,
    runs: u64,
) -> Result<Course> {
    let graphs = visits.iter().map(|visit| visit.workload.graph());
    let graphs = graphs.collect::<Result<Vec<Graph>>>()?;
    let targets = targets(&graphs.iter().collect::<Vec<_>>());
    let mut pairs = Vec::new();
    for seed in 1..=runs {
        let jobs = visits.iter().zip(&graphs).zip(&targets);
        let launches: Vec<Launch<'_>> = (0..)
            .zip(jobs)
            .map(|(at, ((visit, graph), target))| Launch {
                graph,
                begins_ns: visit.begins_ms * 1_000_000,
                iterations: visit.iterations,
                predicted: prediction.of(graph, seed << 8 | at),
                target: *target,
            })
            .collect();
        let outcome = run(&launches, method, false, seed)?;
        pairs.push((outcome, run(&launches, Method::Vanilla, false, seed)?));
    }
    Ok(summary(&pairs))
}

fn summary(pairs: &[(Outcome, Outcome)]) -> Course {
    const FEW: usize = 5;
    let mean = |values: Vec<f64>| Spread::of(&values).mean;
    let extra = |sum: fn(&[u64]) -> u64| -> Vec<f64> {
        let ratio = |(one, other): &(Outcome, Outcome)| {
            let jobs = one.jobs.iter().zip(&other.jobs);
            let ratios = jobs
                .map(|(one, other)| sum(&one.each_ns) as f64 / sum(&other.each_ns) as f64 - 1.0);
            mean(ratios.collect())
        };
        pairs.iter().map(ratio).collect()
    };
    let totals: Vec<f64> = pairs
        .iter()
        .map(|(one, other)| one.ended_ns as f64 / other.ended_ns as f64 - 1.0)
        .collect();
    let first = extra(|each| each[..FEW.min(each.len())].iter().sum());
    let last = extra(|each| each[each.len().saturating_sub(FEW)..].iter().sum());
    let of = |value: fn(&Outcome) -> f64| mean(pairs.iter().map(|(one, _)| value(one)).collect());
    let counts = pairs.iter().flat_map(|(one, _)| &one.jobs);
    let counts = counts.flat_map(|job| job.passive.iter().map(|count| f64::from(*count)));
    Course {
        extra: Spread::of(&totals),
        ends: [mean(first), mean(last)],
        saved: of(|outcome| 1.0 - outcome.peak as f64 / outcome.unfreed as f64),
        passive: mean(counts.collect()),
        drifts: of(|outcome| f64::from(outcome.drifts)),
    }
}
