//! Exact volumes for Theorem 1: a search over the blocking bound for each objective.
//!
//! A lower blocking bound only tightens the box, so the time spent swapping rises as the bound
//! falls. Whatever blocking passes must therefore fit in what the swapping at a higher one
//! leaves: jumping there skips nothing, and the first bound that passes is the highest.

use alloc::vec::Vec;

use super::cover::{Effort, Found, cheapest};
use super::price::Price;
use super::problem::{Problem, last};
use super::{Objective, Outcome, Solved};
use crate::admission::{Blocking, Test};
use crate::fraction::{ONE, fixed};
use crate::units::Nanos;

const TEST: Test = Test::Theorem1;

/// Blocking bounds looked at for the least left side; it is decided long before.
const MOST_LEVELS: u32 = 4_000;

pub(super) fn run(problem: &Problem<'_>, price: &Price, objective: Objective) -> Outcome {
    let search = Search::new(problem, price);
    match objective {
        Objective::Time => search.least_time(),
        Objective::Volume => search.least_volume(),
    }
}

/// Blocking bounds tried at which nothing is proven any more.
const MOST_GUESSES: u32 = 32;

struct Search<'a> {
    problem: &'a Problem<'a>,
    price: &'a Price,
    /// The share of time spent on execution, ΣC/D.
    running: u128,
    /// What blocks without any swapping, and what is added to every blocking.
    floor: Nanos,
    bases: Nanos,
    shortest: u64,
    effort: Effort,
}

/// Volumes of the first blocking bound that passes.
struct Passing {
    found: Found,
    level: Nanos,
}

/// The search found no volumes that pass the test.
struct Failing {
    /// The last that were tried, or none if the memory cannot be had at all.
    tried: Option<Vec<u64>>,
    /// No others pass either.
    proven: bool,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem<'a>, price: &'a Price) -> Self {
        let none = alloc::vec![0; problem.demands.len()];
        let still = Blocking::over(TEST, problem.platform, &problem.candidates(&none));
        let run = |d: &super::Demand| {
            let execution = problem.platform.execution(&d.timing);
            fixed(execution.0, d.timing.deadline.0)
        };
        let deadlines = problem.demands.iter().map(|d| d.timing.deadline.0);
        let shortest = deadlines.min().unwrap_or(0);
        let runs = problem.demands.iter().map(run);
        let running = runs.fold(0, u128::saturating_add);
        let least = running.saturating_add(fixed(still.total.0, shortest));
        Self {
            problem,
            price,
            running,
            floor: still.total.saturating_sub(still.bases),
            bases: still.bases,
            shortest,
            effort: Effort::new(ONE.saturating_sub(least)),
        }
    }

    fn passes(&self, volumes: &[u64]) -> bool {
        TEST.holds(self.problem.platform, &self.problem.candidates(volumes))
    }

    fn least_time(&self) -> Outcome {
        let problem = self.problem;
        let passing = self.descend(|caps| {
            let range = problem.range(caps)?;
            cheapest(problem, self.price, caps, range, &self.effort, |_| false)
        });
        let passing = passing.map_err(|failing| failing.tried)?;
        let gap = gap(self.price.of(&passing.found.volumes), passing.found.bound);
        Ok(Solved {
            volumes: passing.found.volumes,
            gap,
        })
    }

    /// Least Σk, then the least left side of Eq. (3).
    fn least_volume(&self) -> Outcome {
        let problem = self.problem;
        let (least, most) = problem.range(&problem.swappable).ok_or(None)?;
        let (first, end) = self.possible((least, most));
        // Up to the level all M need the same sum, and the last one allows what the others do.
        let first = first.max(problem.level().min(end));
        let sum = |most: u64| u128::from(problem.sum(most));
        let at = |largest: u64| {
            self.descend(|caps: &[u64]| {
                let range = problem.level_range(largest);
                let enough = |volumes: &[u64]| self.passes(volumes);
                cheapest(problem, self.price, caps, range, &self.effort, enough)
            })
        };
        let mut tried = None;
        for largest in first..=end {
            match at(largest) {
                Ok(passing) => {
                    return Ok(Solved {
                        volumes: self.least_left_side(largest, passing),
                        gap: 0.0,
                    });
                }
                Err(failing) => {
                    tried = failing.tried.or(tried);
                    if failing.proven {
                        continue;
                    }
                }
            }
            // From here on nothing can be proven: from the M that swaps for the least time down.
            let Solved { mut volumes, .. } = self.least_time()?;
            let mut good = volumes.iter().copied().max().unwrap_or(0);
            let mut bad = largest;
            while bad + 1 < good {
                let middle = bad + (good - bad) / 2;
                if let Ok(passing) = at(middle) {
                    (good, volumes) = (middle, passing.found.volumes);
                } else {
                    bad = middle;
                }
            }
            let gap = gap(sum(good), sum(largest));
            return Ok(Solved { volumes, gap });
        }
        let all = self.price.fill(problem, &problem.swappable, first);
        Err(tried.or(Some(all)))
    }

    /// The M that can pass at all: what they spend moving chunks and what M chunks block lies
    /// below one in a range, both being convex in M. If none can, the range is empty.
    fn possible(&self, (least, most): (u64, u64)) -> (u64, u64) {
        let problem = self.problem;
        let fastest = problem
            .demands
            .iter()
            .map(|d| problem.platform.execution(&d.timing));
        let fastest = fastest.min().unwrap_or_default();
        let price = self.price.spread(&problem.swappable);
        let side = |largest: u64| {
            let moving = price.moving(problem, &problem.swappable, largest);
            let blocking = match largest {
                0 => self.floor,
                k => (problem.platform.swap_out(k))
                    .max(problem.platform.swap_in(k) + fastest)
                    .max(self.floor),
            };
            self.left(moving, blocking)
        };
        // Each M is below the next from the least on.
        let (mut low, mut high) = (least, most);
        while low < high {
            let middle = low + (high - low) / 2;
            if side(middle + 1) < side(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if side(low) > ONE {
            return (low + 1, low);
        }
        // From the least one down and up, to where one is exceeded.
        let first = low - last(low - least, |back| side(low - back) <= ONE);
        (first, low + last(most - low, |on| side(low + on) <= ONE))
    }

    /// The left side of Eq. (3), rounded down.
    fn left(&self, swapping: u128, blocking: Nanos) -> u128 {
        self.running
            .saturating_add(swapping)
            .saturating_add(fixed((blocking + self.bases).0, self.shortest))
    }

    /// From the highest blocking bound downwards, the first volumes of `best` that pass.
    fn descend(&self, best: impl Fn(&[u64]) -> Option<Found>) -> Result<Passing, Failing> {
        let problem = self.problem;
        let (mut level, mut tried) = (self.highest(), None);
        // What was not searched to its end at a higher bound may be better, and pass.
        let (mut doubtful, mut guesses) = (None, 0);
        loop {
            let caps = problem.capped(TEST, &problem.swappable, level);
            let proven = doubtful.is_none();
            let Some(mut found) = best(&caps) else {
                return Err(Failing { tried, proven });
            };
            if self.passes(&found.volumes) {
                found.bound = doubtful.unwrap_or(found.bound);
                return Ok(Passing { found, level });
            }
            let cost = self.price.of(&found.volumes);
            let ended = found.bound >= cost || found.bound > self.effort.limit;
            if !ended {
                doubtful = doubtful.or(Some(found.bound));
                guesses += 1;
            }
            tried = Some(found.volumes);
            let left = ONE.saturating_sub(self.running.saturating_add(cost));
            if level <= self.floor
                || left == 0
                || found.bound > self.effort.limit
                || guesses == MOST_GUESSES
            {
                let proven = doubtful.is_none();
                return Err(Failing { tried, proven });
            }
            let room = (left.min(ONE - 1) * u128::from(self.shortest)) >> 64;
            // The room was rounded down by less than a nanosecond.
            let next = Nanos(u64::try_from(room).unwrap_or(u64::MAX)) + Nanos(1);
            level = next
                .saturating_sub(self.bases)
                .min(level.saturating_sub(Nanos(1)));
        }
    }

    /// The bound at which nothing is tightened.
    fn highest(&self) -> Nanos {
        let platform = self.problem.platform;
        self.problem
            .demands
            .iter()
            .zip(&self.problem.swappable)
            .map(|(demand, &chunks)| {
                let region = platform.swap_in(chunks) + platform.execution(&demand.timing);
                region.max(platform.swap_out(chunks))
            })
            .fold(self.floor, Nanos::max)
    }

    /// Of all volumes with the sum of this largest one, those with the least left side: a lower blocking
    /// bound can be worth more than the longer deadlines that it gives up. Intervals of bounds
    /// are halved; the swapping at the upper end with the blocking at the lower is the least
    /// that one can hold.
    fn least_left_side(&self, largest: u64, passing: Passing) -> Vec<u64> {
        let problem = self.problem;
        let blocking = |volumes: &[u64]| {
            let over = Blocking::over(TEST, problem.platform, &problem.candidates(volumes));
            over.total.saturating_sub(over.bases)
        };
        let left = |volumes: &[u64]| self.left(self.price.of(volumes), blocking(volumes));
        let mut best = (left(&passing.found.volumes), passing.found.volumes);
        // Bounds not looked at, with what the volumes at a bound above them spend swapping.
        let mut open = alloc::vec![(self.floor, passing.level, passing.found.bound)];
        let mut levels = 0;
        while let Some((low, high, above)) = open.pop() {
            let may = self.left(above, low);
            if low > high || may >= best.0 || levels == MOST_LEVELS {
                continue;
            }
            // What passed first need not be the cheapest at its bound: look there, then halve.
            let level = match levels {
                0 => high,
                _ => Nanos(low.0 + (high.0 - low.0) / 2),
            };
            levels += 1;
            let caps = problem.capped(TEST, &problem.swappable, level);
            if let Some(found) = cheapest(
                problem,
                self.price,
                &caps,
                problem.level_range(largest),
                &self.effort,
                |_| false,
            ) {
                let here = blocking(&found.volumes);
                let side = left(&found.volumes);
                // Below what these volumes block for, another bound's may be better.
                open.push((low, here.min(level).saturating_sub(Nanos(1)), found.bound));
                if side < best.0 && self.passes(&found.volumes) {
                    best = (side, found.volumes);
                }
            }
            open.push((level + Nanos(1), high, above));
        }
        best.1
    }
}

/// By how much of itself `cost` exceeds `bound`.
pub(super) fn gap(cost: u128, bound: u128) -> f64 {
    if cost <= bound {
        return 0.0;
    }
    (cost - bound) as f64 / cost as f64
}
