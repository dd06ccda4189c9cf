//! Best-effort under our policy and under others: programs that do not fit together share one GPU.
//!
//! The *ideal* is a GPU that holds all of them: it does what the programs do alone, or computes without
//! a break where that is more. A program's *share* of it is max-min fair by weight: no program gets more than
//! it does alone, and what it leaves goes to the others.

use std::sync::Arc;
use std::thread;

use rtswap_policy::scheduler::Discipline;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos};
use rtswap_simulator::baseline::{Feedback, FirstCome, Fixed, SuspendAll};
use rtswap_simulator::workload::{Card, MIXES, Mix};
use rtswap_simulator::{
    Burst, Observer, Record, Report, Scenario, SimError, SwapRecord, observe, observe_with, run,
};

/// How long programs share the GPU.
pub const DURATION: Nanos = Nanos(30 * MINUTE.0);
const MINUTE: Nanos = Nanos(60 * SECOND);
const SECOND: u64 = 1_000_000_000;

/// Settings of our longest wait, to compare with policies that let programs wait longer.
pub const WAITS: [Nanos; 3] = [Nanos(30 * SECOND), Nanos(60 * SECOND), Nanos(120 * SECOND)];

/// A policy for best-effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The product's.
    Ours,
    /// A lock for each job.
    FirstCome,
    /// Turns of 30 s, given up after 5 s without work.
    Nvshare,
    /// 100 ms for each job.
    EachJob,
    /// Nixie's feedback queues.
    Feedback,
    /// Turns of 60 s, the former program suspended whole.
    SuspendAll,
}

impl Policy {
    /// All of them, ours first.
    pub const ALL: [Self; 6] = [
        Self::Ours,
        Self::FirstCome,
        Self::Nvshare,
        Self::EachJob,
        Self::Feedback,
        Self::SuspendAll,
    ];

    /// What tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::FirstCome => "lock per job",
            Self::Nvshare => "nvshare 30 s",
            Self::EachJob => "100 ms a job",
            Self::Feedback => "Nixie queues",
            Self::SuspendAll => "suspend 60 s",
        }
    }

    fn discipline(self) -> Option<Arc<dyn Discipline>> {
        match self {
            Self::Ours => None,
            Self::FirstCome => Some(Arc::new(FirstCome)),
            Self::Nvshare => Some(Arc::new(Fixed::NVSHARE)),
            Self::EachJob => Some(Arc::new(Fixed::EACH_JOB)),
            Self::Feedback => Some(Arc::new(Feedback)),
            Self::SuspendAll => Some(Arc::new(SuspendAll::default())),
        }
    }
}

/// What one policy makes of one mix on one card, over all seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The computing that was done over the ideal's.
    pub throughput: f64,
    /// Median and 99th percentile of the response times of bursts that a user waits for, each over what
    /// the burst takes alone; none if no user waits.
    pub slowdown: Option<[f64; 2]>,
    /// The longest time from the request of a job to its grant.
    pub longest_wait: Nanos,
    /// Moved in both directions in a minute.
    pub moved: Bytes,
    /// Jain's index of what each program did over its share; one is fair.
    pub fairness: f64,
}

/// One mix on one card.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The GPU.
    pub card: Card,
    /// The programs.
    pub mix: Mix,
    /// In the order of [`Policy::ALL`].
    pub outcomes: [Outcome; 6],
    /// Ours with each of [`WAITS`] as the longest wait that is configured.
    pub by_wait: [Outcome; 3],
}

impl Outcome {
    /// What a user, or an endless program, waits for: the 99th percentile of slowdowns, or the longest wait in
    /// seconds where no user waits.
    pub fn waiting(&self) -> f64 {
        let [_, tail] = self.slowdown.unwrap_or([0.0, seconds(self.longest_wait)]);
        tail
    }

    /// Whether `other` computes as much and lets nobody wait longer, and is better in one of the two by more
    /// than a hundredth.
    pub fn is_beaten_by(&self, other: &Self) -> bool {
        let (computes, waits) = (
            other.throughput / self.throughput,
            self.waiting() / other.waiting(),
        );
        computes.min(waits) >= 0.99 && computes.max(waits) > 1.01
    }
}

/// A span in seconds.
pub fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

/// All mixes on both cards; the same for the same seeds.
///
/// # Errors
///
/// On what would be bugs of scheduler or simulator.
pub fn compare(duration: Nanos, seeds: &[u64]) -> Result<Vec<Comparison>, SimError> {
    let on = |card| {
        move || {
            let mixes = MIXES.iter();
            let found = mixes.map(|mix| comparison(card, *mix, duration, seeds));
            found.collect::<Result<Vec<_>, _>>()
        }
    };
    thread::scope(|scope| {
        let both = [Card::SMALL, Card::LARGE].map(|card| scope.spawn(on(card)));
        let mut found = Vec::new();
        for card in both {
            found.extend(card.join().expect("a simulation does not panic")?);
        }
        Ok(found)
    })
}

fn comparison(
    card: Card,
    mix: Mix,
    duration: Nanos,
    seeds: &[u64],
) -> Result<Comparison, SimError> {
    let runs = seeds.iter().map(|seed| {
        let scenario = mix.scenario(&card, duration, *seed);
        Ok((ideal(&scenario)?, scenario))
    });
    let mut runs: Vec<_> = runs.collect::<Result<_, SimError>>()?;
    let mut outcomes = Vec::new();
    for policy in Policy::ALL {
        outcomes.push(outcome(&mix, policy, &runs)?);
    }
    let mut by_wait = Vec::new();
    for wait in WAITS {
        for (_, scenario) in &mut runs {
            scenario.config.longest_wait = wait;
        }
        by_wait.push(outcome(&mix, Policy::Ours, &runs)?);
    }
    Ok(Comparison {
        card,
        mix,
        outcomes: outcomes.try_into().expect("one for each policy"),
        by_wait: by_wait.try_into().expect("one for each wait"),
    })
}

/// The share of each task of the ideal, in GPU time.
fn ideal(scenario: &Scenario) -> Result<Vec<f64>, SimError> {
    let mut alone = Vec::new();
    for task in &scenario.tasks {
        let only = Scenario {
            tasks: vec![task.clone()],
            ..scenario.clone()
        };
        let weight = f64::from(task.spec.weight.get());
        alone.push((run(&only)?.tasks[0].work.0 as f64, weight));
    }
    Ok(shares(scenario.duration.0 as f64, &alone))
}

/// The max-min fair shares of `total` for tasks that want so much each, with weights.
fn shares(total: f64, wants: &[(f64, f64)]) -> Vec<f64> {
    let mut order: Vec<_> = (0..wants.len()).collect();
    order.sort_by(|a, b| {
        let full = |place: usize| wants[place].0 / wants[place].1;
        full(*a).total_cmp(&full(*b))
    });
    let (mut left, mut weights) = (total, wants.iter().map(|want| want.1).sum::<f64>());
    let mut shares = vec![0.0; wants.len()];
    for place in order {
        let (want, weight) = wants[place];
        shares[place] = want.min(left * weight / weights);
        left -= shares[place];
        weights -= weight;
    }
    shares
}

/// What is gathered of a run.
#[derive(Default)]
struct Seen {
    /// Whether a user waits for the bursts of each task.
    waited_for: Vec<bool>,
    /// Of these bursts.
    slowdowns: Vec<f64>,
    longest_wait: Nanos,
    moved: Bytes,
}

impl Observer for Seen {
    fn job(&mut self, record: &Record) {
        let account = &record.account;
        let until = account.granted.unwrap_or(account.ended);
        self.longest_wait = self.longest_wait.max(until - account.requested);
    }

    fn burst(&mut self, burst: &Burst) {
        let TaskId(place) = burst.task;
        if burst.complete && self.waited_for[place as usize] {
            let response = (burst.ended - burst.requested).0 as f64;
            self.slowdowns.push(response / burst.alone.0 as f64);
        }
    }

    fn swap(&mut self, record: &SwapRecord) {
        self.moved += record.bytes;
    }
}

fn outcome(mix: &Mix, policy: Policy, runs: &[(Vec<f64>, Scenario)]) -> Result<Outcome, SimError> {
    let programs = mix.programs.iter();
    let mut seen = Seen {
        waited_for: programs.map(|program| !program.is_endless()).collect(),
        ..Seen::default()
    };
    let (mut done, mut ideal, mut fairness, mut time) = (0.0, 0.0, 0.0, 0.0);
    for (shares, scenario) in runs {
        let report: Report = match policy.discipline() {
            None => observe(scenario, &mut seen)?,
            Some(discipline) => observe_with(scenario, discipline, &mut seen)?,
        };
        let works = report.tasks.iter().map(|task| task.work.0 as f64);
        done += works.clone().sum::<f64>();
        ideal += shares.iter().sum::<f64>();
        fairness += jain(works.zip(shares).map(|(work, share)| work / share));
        time += (report.end - report.start).0 as f64;
    }
    seen.slowdowns.sort_by(f64::total_cmp);
    let count = seen.slowdowns.len();
    let rank = |percent: usize| seen.slowdowns[(count * percent).div_ceil(100).max(1) - 1];
    let a_minute = MINUTE.0 as f64 / time;
    Ok(Outcome {
        throughput: done / ideal,
        slowdown: (count > 0).then(|| [rank(50), rank(99)]),
        longest_wait: seen.longest_wait,
        moved: Bytes((seen.moved.0 as f64 * a_minute) as u64),
        fairness: fairness / runs.len() as f64,
    })
}

/// Jain's index.
fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    sum * sum / (count * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_max_min_fair_by_weight() {
        let all = |wants: &[(f64, f64)]| shares(12.0, wants);
        assert_eq!(all(&[(20.0, 1.0), (20.0, 1.0)]), [6.0, 6.0]);
        assert_eq!(all(&[(20.0, 2.0), (20.0, 1.0)]), [8.0, 4.0]);
        assert_eq!(
            all(&[(20.0, 1.0), (2.0, 1.0), (20.0, 1.0)]),
            [5.0, 2.0, 5.0]
        );
        assert_eq!(all(&[(3.0, 1.0), (2.0, 1.0)]), [3.0, 2.0]);
    }

    #[test]
    fn better_in_one_and_not_worse_in_the_other_beats() {
        let outcome = |throughput, tail| Outcome {
            throughput,
            slowdown: Some([1.0, tail]),
            longest_wait: Nanos::ZERO,
            moved: Bytes::ZERO,
            fairness: 1.0,
        };
        let ours = outcome(0.9, 3.0);
        assert!(ours.is_beaten_by(&outcome(0.95, 3.0)));
        assert!(ours.is_beaten_by(&outcome(0.9, 2.0)));
        assert!(!ours.is_beaten_by(&outcome(0.95, 4.0)));
        assert!(!ours.is_beaten_by(&ours));
        let endless = Outcome {
            slowdown: None,
            longest_wait: Nanos(2 * SECOND),
            ..ours
        };
        assert!((endless.waiting() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn jains_index_is_one_if_all_get_the_same() {
        assert!((jain([0.5, 0.5].into_iter()) - 1.0).abs() < 1e-9);
        assert!((jain([1.0, 0.0].into_iter()) - 0.5).abs() < 1e-9);
    }
}
