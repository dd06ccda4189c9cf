//! Volumes for `demand` and `pipelined`: a search over M, and for each M over orders of filling.
//!
//! A span L that fails says what its jobs spend swapping at least. What that leaves of L bounds
//! the blocking by those due later, and so their volumes: no volumes that pass lie outside of the
//! box that all failing spans leave. Within the box, volume goes where the failing spans together
//! have the fewest jobs.

use alloc::vec::Vec;

use super::cover::{Effort, cheapest};
use super::price::Price;
use super::problem::Problem;
use super::theorem1::{self, gap};
use super::{Objective, Outcome, Solved};
use crate::admission::{Analysis, Blocking, Test};
use crate::fraction::{ONE, fixed};
use crate::units::Nanos;

/// Orders and boxes tried for one M.
const MOST_TRIES: usize = 24;
/// Orders and boxes tried in all, times tasks.
const MOST_WORK: usize = 1 << 18;
/// Values of M tried before the range is narrowed around the best.
const PROBES: u64 = 8;

pub(super) fn run(
    problem: &Problem<'_>,
    test: Test,
    price: &Price,
    objective: Objective,
) -> Outcome {
    let mut search = Search {
        problem,
        test,
        price,
        caps: problem.swappable.clone(),
        spans: Vec::new(),
        tries: MOST_WORK / problem.demands.len().max(1),
    };
    let range = problem.range(&problem.swappable).ok_or(None)?;
    let first = match objective {
        Objective::Time => price.best_most(problem, &search.caps, range),
        Objective::Volume => range.0,
    };
    if search.overloaded(range) {
        return Err(Some(price.fill(problem, &search.caps, first)));
    }
    let found = search
        .passing(first)
        .map(|(most, volumes)| search.nearest(first, most, volumes));
    let cost = |volumes: &[u64]| match objective {
        Objective::Time => price.of(volumes),
        Objective::Volume => volumes.iter().map(|&k| u128::from(k)).sum(),
    };
    let bound = search.bound(objective);
    let mut failed = None;
    let mut best = match found {
        Ok(volumes) => Some(volumes),
        Err(tried) => {
            failed = Some(tried);
            None
        }
    };
    // What suits another test may pass here, and cost less.
    let possible = problem.range(&search.caps).is_some();
    if possible && best.as_deref().is_none_or(|volumes| cost(volumes) > bound) {
        // By its own price: it steps from bound to bound by what its volumes spend.
        let own = super::swapping(Test::Theorem1, problem.platform, problem.demands);
        let mut others = alloc::vec![theorem1::run(problem, &own, objective)];
        if test == Test::Pipelined && best.is_none() {
            others.push(run(problem, Test::Demand, price, objective));
        }
        for other in others.into_iter().flatten() {
            let better = best
                .as_deref()
                .is_none_or(|volumes| cost(&other.volumes) < cost(volumes));
            if better && test.holds(problem.platform, &problem.candidates(&other.volumes)) {
                best = Some(other.volumes);
            }
        }
    }
    match best {
        Some(volumes) => Ok(Solved {
            gap: gap(cost(&volumes), bound),
            volumes,
        }),
        None => Err(failed),
    }
}

struct Search<'a> {
    problem: &'a Problem<'a>,
    test: Test,
    price: &'a Price,
    /// All volumes that pass lie within.
    caps: Vec<u64>,
    /// Spans that have failed.
    spans: Vec<Nanos>,
    /// How many orders and boxes may still be tried.
    tries: usize,
}

/// What one M has come to.
enum Try {
    Passes(Vec<u64>),
    /// By how much at best, and with which volumes.
    Fails(f64, Vec<u64>),
    /// No volumes with this M can pass.
    Cannot,
}

impl Search<'_> {
    /// Some M that passes, with its volumes; otherwise the volumes that come closest.
    fn passing(&mut self, first: u64) -> Result<(u64, Vec<u64>), Vec<u64>> {
        let (mut closest, mut share) = (first, f64::INFINITY);
        let mut volumes = self
            .price
            .fill(self.problem, &self.problem.swappable, first);
        let mut seen = Vec::new();
        let mut step = None;
        loop {
            let Some((least, most)) = self.problem.range(&self.caps) else {
                return Err(volumes);
            };
            let tries: Vec<u64> = match step {
                None => core::iter::once(first)
                    .chain((0..=PROBES).map(|i| least + (most - least) / PROBES * i))
                    .chain([most])
                    .collect(),
                Some(step) => alloc::vec![closest.saturating_sub(step), closest + step],
            };
            for at in tries {
                if at < least || at > most || seen.contains(&at) {
                    continue;
                }
                seen.push(at);
                match self.attempt(at) {
                    Try::Passes(volumes) => return Ok((at, volumes)),
                    Try::Fails(here, tried) if here < share => {
                        (closest, share, volumes) = (at, here, tried);
                    }
                    Try::Fails(..) | Try::Cannot => {}
                }
            }
            step = match step {
                None => Some(((most - least) / PROBES / 2).max(1)),
                Some(1) => return Err(volumes),
                Some(step) => Some(step / 2),
            };
        }
    }

    /// From `passes` towards `first`, which the objective likes best, as far as M pass.
    fn nearest(&mut self, first: u64, passes: u64, mut volumes: Vec<u64>) -> Vec<u64> {
        let toward = |by: u64| {
            if first < passes {
                passes - by
            } else {
                passes + by
            }
        };
        let (mut good, mut bad) = (0, first.abs_diff(passes));
        while good + 1 < bad {
            let middle = good + (bad - good) / 2;
            if let Try::Passes(found) = self.attempt(toward(middle)) {
                (good, volumes) = (middle, found);
            } else {
                bad = middle;
            }
        }
        volumes
    }

    /// Tries one M.
    fn attempt(&mut self, most: u64) -> Try {
        let problem = self.problem;
        let mut caps = self.caps.clone();
        let mut weights = alloc::vec![0_u128; caps.len()];
        let mut best: Option<(f64, Vec<u64>)> = None;
        let mut volumes = Vec::new();
        let mut reordered = None;
        for _ in 0..MOST_TRIES.min(self.tries) {
            self.tries -= 1;
            if !problem.fits(&caps, most) {
                return Try::Cannot;
            }
            let order = reordered.as_ref().unwrap_or(self.price);
            let before = core::mem::replace(&mut volumes, order.fill(problem, &caps, most));
            if volumes == before {
                break;
            }
            let candidates = problem.candidates(&volumes);
            if self.test.holds(problem.platform, &candidates) {
                return Try::Passes(volumes);
            }
            let analysis = self.test.analyse(problem.platform, &candidates);
            if best
                .as_ref()
                .is_none_or(|(share, _)| analysis.demand < *share)
            {
                best = Some((analysis.demand, volumes.clone()));
            }
            if let Some(span) = analysis.binding {
                if !self.learn(span) {
                    return Try::Cannot;
                }
                let jobs = self.jobs(span);
                let Some(tighter) = self.tightened(&jobs, span, &caps, |price, caps| {
                    Some(price.moving(problem, caps, most))
                }) else {
                    return Try::Cannot;
                };
                if tighter != caps {
                    caps = tighter;
                    volumes.clear();
                    continue;
                }
            }
            for (weight, share) in weights.iter_mut().zip(self.shares(&analysis)) {
                *weight = weight.saturating_add(share);
            }
            // The price decides between equals.
            let rates = weights
                .iter()
                .zip(&self.price.rates)
                .map(|(&weight, rate)| weight.saturating_mul(1 << 32).saturating_add(rate >> 32));
            reordered = Some(Price::new(rates.collect(), Vec::new()));
        }
        match best {
            Some((share, volumes)) => Try::Fails(share, volumes),
            None => Try::Cannot,
        }
    }

    /// Whether ΣU > 1 with any volumes.
    fn overloaded(&self, range: (u64, u64)) -> bool {
        let problem = self.problem;
        let demands = problem.demands.iter();
        let running = demands
            .map(|d| fixed(problem.platform.execution(&d.timing).0, d.timing.period.0))
            .fold(0, u128::saturating_add);
        let pace = problem.platform.pace(self.test);
        let rates = problem
            .demands
            .iter()
            .map(|d| fixed(pace.0, d.timing.period.0));
        let price = Price::new(rates.collect(), Vec::new());
        let most = price.best_most(problem, &self.caps, range);
        running.saturating_add(price.moving(problem, &self.caps, most)) > ONE
    }

    /// Lowers the box by what `span` says of every M. False if too little is left of it.
    fn learn(&mut self, span: Nanos) -> bool {
        if !self.spans.contains(&span) {
            self.spans.push(span);
            let problem = self.problem;
            let jobs = self.jobs(span);
            self.caps = self
                .tightened(&jobs, span, &self.caps, |price, caps| {
                    let range = problem.range(caps)?;
                    let most = price.best_most(problem, caps, range);
                    Some(price.moving(problem, caps, most))
                })
                .unwrap_or_else(|| alloc::vec![0; self.caps.len()]);
        }
        self.problem.range(&self.caps).is_some()
    }

    /// How many jobs of each task are released and due in `span`.
    fn jobs(&self, span: Nanos) -> Vec<u64> {
        let demands = self.problem.demands.iter();
        let jobs = |timing: &crate::task::Timing| match span.0.checked_sub(timing.deadline.0) {
            Some(past) => past / timing.period.0 + 1,
            None => 0,
        };
        demands.map(|d| jobs(&d.timing)).collect()
    }

    /// What of each chunk of a task is taken of the span or share that binds.
    fn shares(&self, analysis: &Analysis) -> Vec<u128> {
        let demands = self.problem.demands;
        match analysis.binding {
            Some(span) => {
                let jobs = self.jobs(span);
                jobs.into_iter().map(|jobs| fixed(jobs, span.0)).collect()
            }
            None => demands
                .iter()
                .map(|d| fixed(1, d.timing.period.0))
                .collect(),
        }
    }

    /// `caps`, lowered to what `span` leaves for the blocking by those due after it, if its jobs
    /// spend no more on chunks than `least`; none if it leaves nothing.
    fn tightened(
        &self,
        jobs: &[u64],
        span: Nanos,
        caps: &[u64],
        least: impl Fn(&Price, &[u64]) -> Option<u128>,
    ) -> Option<Vec<u64>> {
        let problem = self.problem;
        let none = alloc::vec![0; caps.len()];
        let executing: u128 = jobs
            .iter()
            .zip(problem.demands)
            .map(|(&jobs, d)| {
                u128::from(jobs) * u128::from(problem.platform.execution(&d.timing).0)
            })
            .fold(0, u128::saturating_add);
        // A lower bound on E(k) − C that is linear in k.
        let pace = problem.platform.pace(self.test);
        let rates = jobs
            .iter()
            .map(|&jobs| u128::from(jobs) * u128::from(pace.0))
            .collect();
        let moving = least(&Price::new(rates, Vec::new()), caps)?;
        let bases = Blocking::over(self.test, problem.platform, &problem.candidates(&none)).bases;
        let left = u128::from(span.0).checked_sub(
            executing
                .saturating_add(moving)
                .saturating_add(u128::from(bases.0)),
        )?;
        let level = Nanos(u64::try_from(left).unwrap_or(u64::MAX));
        let lowered = caps.iter().enumerate().map(|(place, &cap)| {
            if problem.demands[place].timing.deadline > span {
                problem.cap(self.test, place, cap, level)
            } else {
                cap
            }
        });
        Some(lowered.collect())
    }

    /// What volumes that pass cost at least.
    fn bound(&self, objective: Objective) -> u128 {
        let problem = self.problem;
        let Some(range) = problem.range(&self.caps) else {
            return 0;
        };
        match objective {
            Objective::Time => cheapest(
                problem,
                self.price,
                &self.caps,
                range,
                &Effort::new(u128::MAX),
                |_| false,
            )
            .map_or(0, |found| found.bound),
            Objective::Volume => u128::from(problem.sum(range.0)),
        }
    }
}
