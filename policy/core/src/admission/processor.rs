//! Processor demand: in every span L from a release to a deadline, the jobs that are released
//! and due in it and what may block them fit. Shared by `Test::Demand` and `Test::Pipelined`,
//! which differ in E and B.
//!
//! The spans are walked downwards: where the demand of a span L, with the blocking at a shorter
//! span, fits in that one too, all spans in between are cleared (Zhang and Burns, "Schedulability
//! Analysis for Real-Time Systems with EDF Scheduling", IEEE Trans. Computers 58(9), 2009; there
//! without blocking).

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::blocking::{Blockers, Blocking};
use super::{Analysis, Candidate, Platform, TaskLoad, Test, theorem1};
use crate::fraction::{ONE, fixed, sum_against_one};
use crate::units::Nanos;

/// Spans times tasks. Beyond so many a set counts as not schedulable: nothing has shown that it
/// is. It takes ΣU within about a millionth of one, or periods that differ a millionfold.
pub(super) const MOST_WORK: u64 = 1 << 24;

/// Where ΣU binds unless a span takes so much more of its length, in units of 2⁻⁶⁴.
const NOTABLE: u128 = ONE >> 7;

/// One task, in the order of deadlines.
struct Item {
    deadline: u64,
    period: u64,
    demand: u64,
    place: usize,
}

/// How a walk went.
struct Walk {
    /// The span that takes the largest share of its length, if that is more than was asked.
    binding: Option<(Nanos, Blocking)>,
    /// Its share in units of 2⁻⁶⁴, or what was asked.
    share: u128,
    /// All spans were looked at.
    complete: bool,
}

struct Set<'a> {
    loads: Vec<TaskLoad>,
    blockers: Blockers<'a>,
    /// By increasing deadline.
    items: Vec<Item>,
}

pub(super) fn analyse(test: Test, platform: &Platform, candidates: &[Candidate]) -> Analysis {
    let set = Set::new(test, platform, candidates);
    let utilization: f64 = set.loads.iter().map(|load| load.utilization).sum();
    let verdict = set.verdict(test, platform, candidates);
    // Where the loads alone are too much there is no span to look for.
    let walk = set.possible(platform).then(|| {
        let seed = set.some_share().saturating_sub(1);
        let notable = set.utilization().saturating_add(NOTABLE);
        if verdict == Some(true) {
            return set.walk(seed.max(notable.min(ONE)), false);
        }
        let worst = set.walk(seed.max(ONE), false);
        if worst.binding.is_some() {
            worst
        } else {
            set.walk(ONE, true)
        }
    });
    let binding = walk.as_ref().and_then(|walk| walk.binding);
    let share = walk.map_or(0, |walk| {
        if walk.binding.is_some() {
            walk.share
        } else {
            0
        }
    });
    let demand = (share as f64 / ONE as f64).max(utilization);
    Analysis {
        test,
        schedulable: verdict == Some(true),
        complete: verdict.is_some(),
        blocking: binding.map_or_else(|| set.blockers.all(), |(_, blocking)| blocking),
        tasks: set.loads,
        utilization,
        demand,
        bound: 1.0,
        slack: 1.0 - demand,
        binding: binding.map(|(span, _)| span),
    }
}

pub(super) fn holds(test: Test, platform: &Platform, candidates: &[Candidate]) -> bool {
    Set::new(test, platform, candidates).verdict(test, platform, candidates) == Some(true)
}

/// The verdict of the walk alone.
#[cfg(test)]
pub(super) fn walked(test: Test, platform: &Platform, candidates: &[Candidate]) -> Option<bool> {
    Set::new(test, platform, candidates).walked(platform)
}

impl<'a> Set<'a> {
    fn new(test: Test, platform: &'a Platform, candidates: &'a [Candidate]) -> Self {
        let tasks = candidates.len() as u64;
        let load = |candidate| platform.load(test, tasks, candidate);
        let loads: Vec<_> = candidates.iter().map(load).collect();
        let mut items: Vec<_> = candidates
            .iter()
            .zip(&loads)
            .enumerate()
            .map(|(place, (candidate, load))| Item {
                deadline: candidate.timing.deadline.0,
                period: candidate.timing.period.0,
                demand: load.demand.0,
                place,
            })
            .collect();
        items.sort_unstable_by_key(|item| (item.deadline, item.place));
        Self {
            loads,
            blockers: Blockers::new(test, platform, candidates),
            items,
        }
    }

    /// Whether all deadlines are met; none if the walk was ended before that was known.
    fn verdict(&self, test: Test, platform: &Platform, candidates: &[Candidate]) -> Option<bool> {
        // What Theorem 1 accepts, this does: mostly that is quickest to see.
        if test == Test::Demand && theorem1::holds(platform, candidates) {
            return Some(true);
        }
        self.walked(platform)
    }

    fn walked(&self, platform: &Platform) -> Option<bool> {
        if !self.possible(platform) {
            return Some(false);
        }
        let walk = self.walk(ONE, true);
        match walk.binding {
            Some(_) => Some(false),
            None => walk.complete.then_some(true),
        }
    }

    /// Whether the loads leave room at all: ΣU ≤ 1, and no time beyond what can be counted.
    fn possible(&self, platform: &Platform) -> bool {
        let counted = |item: &Item| item.demand < u64::MAX && item.deadline > 0 && item.period > 0;
        let utilizations = self.items.iter().map(|item| (item.demand, item.period));
        self.items.iter().all(counted)
            && match sum_against_one(utilizations) {
                Ordering::Less => true,
                // Best-effort gets a turn only if realtime leaves the GPU idle at times.
                Ordering::Equal => platform.drain == Nanos::ZERO,
                Ordering::Greater => false,
            }
    }

    /// ΣU in units of 2⁻⁶⁴, rounded up.
    fn utilization(&self) -> u128 {
        self.items
            .iter()
            .map(|item| fixed(item.demand, item.period).saturating_add(1))
            .fold(0, u128::saturating_add)
    }

    /// A share that some span takes at least: of the relative deadlines, with the first job of
    /// each task alone.
    fn some_share(&self) -> u128 {
        let mut first: u64 = self
            .items
            .iter()
            .fold(0, |sum, item| sum.saturating_add(item.demand));
        let (mut blocking, mut most) = (self.blockers.none(), 0);
        let mut from = self.items.len();
        for (at, item) in self.items.iter().enumerate().rev() {
            let after = self.items.get(at + 1);
            if after.is_none_or(|after| after.deadline > item.deadline) {
                self.block_beyond(item.deadline, &mut from, &mut blocking);
                most = most.max(fixed(first.saturating_add(blocking.total.0), item.deadline));
            }
            first -= item.demand.min(first);
        }
        most
    }

    /// Beyond the last relative deadline, the longest span that can take more than `share`:
    /// (ΣU(T−D) + blocking) / (share−ΣU), or the hyperperiod.
    fn horizon(&self, share: u128) -> Option<u64> {
        let mut ahead = u128::from(self.blockers.none().total.0);
        for item in &self.items {
            let early = u128::from(item.period.saturating_sub(item.deadline));
            let part = u128::from(item.demand).checked_mul(early)?;
            ahead = ahead.checked_add(part.div_ceil(u128::from(item.period)))?;
        }
        if ahead == 0 {
            return Some(0);
        }
        // In 2⁻³² the numerator cannot overflow, and the quotient is rounded up.
        let idle = share.saturating_sub(self.utilization()) >> 32;
        let by_slack = (ahead >> 90 == 0 && idle > 0)
            .then(|| (ahead << 32).div_ceil(idle))
            .and_then(|span| u64::try_from(span).ok());
        let mut periods = self.items.iter().map(|item| item.period);
        let hyperperiod = periods.try_fold(1_u64, |all, period| {
            (all / gcd(all, period)).checked_mul(period)
        });
        match (by_slack, hyperperiod) {
            (Some(slack), Some(hyper)) => Some(slack.min(hyper)),
            (one, other) => one.or(other),
        }
    }

    /// Σ (⌊(L−D)/T⌋+1)·E over D ≤ L.
    fn demand(&self, span: u64) -> u64 {
        let due = self.items.iter().take_while(|item| item.deadline <= span);
        due.map(|item| {
            let jobs = (span - item.deadline) / item.period + 1;
            item.demand.saturating_mul(jobs)
        })
        .fold(0, u64::saturating_add)
    }

    /// The last deadline at or before `span`, zero if there is none.
    fn last_deadline(&self, span: u64) -> u64 {
        let due = self.items.iter().take_while(|item| item.deadline <= span);
        due.map(|item| span - (span - item.deadline) % item.period)
            .max()
            .unwrap_or(0)
    }

    /// Walks all spans, the longest first, for those that take more than `share` of their length,
    /// and ends with the first of them or with the worst.
    fn walk(&self, share: u128, first: bool) -> Walk {
        let mut walk = Walk {
            binding: None,
            share,
            complete: true,
        };
        let Some(latest) = self.items.last().map(|item| item.deadline) else {
            return walk;
        };
        let Some(horizon) = self.horizon(share) else {
            walk.complete = false;
            return walk;
        };
        let mut blocking = self.blockers.none();
        // `blocking` holds the tasks from here on: those due after the span.
        let mut from = self.items.len();
        let mut span = self.last_deadline(horizon.max(latest));
        let mut work = 0_u64;
        while span > 0 {
            self.block_beyond(span, &mut from, &mut blocking);
            let demand = self.demand(span);
            let taken = demand.saturating_add(blocking.total.0);
            let here = match taken {
                u64::MAX => u128::MAX,
                counted => fixed(counted, span),
            };
            if here > walk.share {
                walk.binding = Some((Nanos(span), blocking));
                walk.share = here;
                if first || here == u128::MAX {
                    return walk;
                }
            }
            // Down to the span that takes the share with the blocking there. From one relative
            // deadline down to the next, blocking stays what it is.
            let mut cleared = span;
            loop {
                let floor = from.checked_sub(1).map_or(0, |at| self.items[at].deadline);
                let least = length(demand.saturating_add(blocking.total.0), walk.share);
                cleared = cleared.min(least.max(floor));
                if cleared > floor || floor == 0 || least > floor {
                    break;
                }
                self.block_beyond(floor - 1, &mut from, &mut blocking);
            }
            span = self.last_deadline(cleared.saturating_sub(1));
            work += self.items.len() as u64;
            if span > 0 && work >= MOST_WORK {
                walk.complete = false;
                return walk;
            }
        }
        walk
    }

    /// Lets those block that are due after `span`.
    fn block_beyond(&self, span: u64, from: &mut usize, blocking: &mut Blocking) {
        while *from > 0 && self.items[*from - 1].deadline > span {
            *from -= 1;
            *blocking = self.blockers.with(*blocking, self.items[*from].place);
        }
    }
}

/// The shortest span of which `taken` is no more than `share`, which is not zero.
fn length(taken: u64, share: u128) -> u64 {
    if share == ONE {
        return taken;
    }
    let least = (u128::from(taken) << 64).div_ceil(share.max(1));
    u64::try_from(least).unwrap_or(u64::MAX)
}

/// The greatest common divisor; not both are zero.
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
