//! Processor demand: in every span L from a release to a deadline, the jobs that are released
//! and due in it and what may block them fit. Shared by `Test::Demand` and `Test::Pipelined`,
//! which differ in E and B.
//!
//! The spans are walked downwards: between two relative deadlines blocking does not change, so a
//! span of length L that needs F ≤ L clears all spans from F to L (Zhang and Burns, "Schedulability
//! Analysis for Real-Time Systems with EDF Scheduling", IEEE Trans. Computers 58(9), 2009).

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::blocking::{Blockers, Blocking};
use super::{Analysis, Candidate, Platform, TaskLoad, Test};
use crate::fraction::{ONE, fixed, sum_against_one};
use crate::units::Nanos;

/// Beyond so many spans a set counts as not schedulable: nothing has shown that it is.
const MOST_SPANS: u32 = 1_000_000;

/// How the walk went.
struct Walk {
    /// The span with the largest share of its length taken, if that is more than was asked.
    binding: Option<(Nanos, Blocking)>,
    /// Its share in units of 2⁻⁶⁴, or what was asked.
    share: u128,
    /// All spans were looked at.
    complete: bool,
}

struct Set<'a> {
    candidates: &'a [Candidate],
    loads: Vec<TaskLoad>,
    blockers: Blockers<'a>,
    /// Places by increasing deadline.
    order: Vec<usize>,
}

pub(super) fn analyse(test: Test, platform: &Platform, candidates: &[Candidate]) -> Analysis {
    let set = Set::new(test, platform, candidates);
    let utilization: f64 = set.loads.iter().map(|load| load.utilization).sum();
    let schedulable = holds(test, platform, candidates);
    let walk = set.walk(set.utilization().min(ONE), false);
    let share = (walk.share as f64 / ONE as f64).max(utilization);
    // What was not walked to its end does not pass, whatever was seen of it.
    let demand = if schedulable || share > 1.0 || walk.complete {
        share
    } else {
        f64::INFINITY
    };
    Analysis {
        test,
        schedulable,
        blocking: walk
            .binding
            .map_or_else(|| set.blockers.all(), |(_, blocking)| blocking),
        tasks: set.loads,
        utilization,
        demand,
        bound: 1.0,
        slack: 1.0 - demand,
        binding: walk.binding.map(|(span, _)| span),
    }
}

pub(super) fn holds(test: Test, platform: &Platform, candidates: &[Candidate]) -> bool {
    if candidates.is_empty() {
        return true;
    }
    let set = Set::new(test, platform, candidates);
    let periods = candidates
        .iter()
        .zip(&set.loads)
        .map(|(c, load)| (load.demand.0, c.timing.period.0));
    match sum_against_one(periods) {
        Ordering::Greater => return false,
        // Best-effort gets a turn only if realtime leaves the GPU idle at times.
        Ordering::Equal if platform.drain > Nanos::ZERO => return false,
        Ordering::Equal | Ordering::Less => {}
    }
    let walk = set.walk(ONE, true);
    walk.complete && walk.binding.is_none()
}

impl<'a> Set<'a> {
    fn new(test: Test, platform: &'a Platform, candidates: &'a [Candidate]) -> Self {
        let tasks = candidates.len() as u64;
        let mut order: Vec<_> = (0..candidates.len()).collect();
        order.sort_by_key(|&place| candidates[place].timing.deadline);
        Self {
            candidates,
            loads: candidates
                .iter()
                .map(|c| platform.load(test, tasks, c))
                .collect(),
            blockers: Blockers::new(test, platform, candidates),
            order,
        }
    }

    /// ΣU in units of 2⁻⁶⁴, rounded up.
    fn utilization(&self) -> u128 {
        self.candidates
            .iter()
            .zip(&self.loads)
            .map(|(c, load)| fixed(load.demand.0, c.timing.period.0).saturating_add(1))
            .fold(0, u128::saturating_add)
    }

    /// Beyond the last relative deadline, the longest span that can fail:
    /// (ΣU(T−D) + blocking) / (1−ΣU), or the hyperperiod.
    fn horizon(&self) -> Option<Nanos> {
        let mut ahead = u128::from(self.blockers.none().total.0);
        for (candidate, load) in self.candidates.iter().zip(&self.loads) {
            let timing = &candidate.timing;
            let early = u128::from(timing.period.0.saturating_sub(timing.deadline.0));
            let part = u128::from(load.demand.0).checked_mul(early)?;
            ahead = ahead.checked_add(part.div_ceil(u128::from(timing.period.0.max(1))))?;
        }
        let left = ONE.saturating_sub(self.utilization());
        // In 2⁻³² the numerator cannot overflow, and the quotient is rounded up.
        let idle = left >> 32;
        let by_slack = ahead
            .checked_shl(32)
            .filter(|_| ahead >> 90 == 0 && idle > 0)
            .and_then(|scaled| u64::try_from(scaled.div_ceil(idle)).ok());
        let periods = self.candidates.iter().map(|c| c.timing.period.0);
        let hyperperiod = periods.into_iter().try_fold(1_u64, |all, period| {
            (all / gcd(all, period)).checked_mul(period)
        });
        match (by_slack, hyperperiod) {
            (Some(slack), Some(hyper)) => Some(Nanos(slack.min(hyper))),
            (one, other) => one.or(other).map(Nanos),
        }
    }

    /// Σ (⌊(L−D)/T⌋+1)·E over D ≤ L, and the last deadline before L.
    fn demand(&self, span: u64) -> (u64, u64) {
        let (mut sum, mut before) = (0_u64, 0_u64);
        for &place in &self.order {
            let timing = &self.candidates[place].timing;
            let Some(past) = span.checked_sub(timing.deadline.0) else {
                break;
            };
            let jobs = past / timing.period.0;
            let load = self.loads[place].demand.0;
            sum = sum.saturating_add(load.saturating_mul(jobs + 1));
            let last = timing.deadline.0 + jobs * timing.period.0;
            if last < span {
                before = before.max(last);
            } else if jobs > 0 {
                before = before.max(last - timing.period.0);
            }
        }
        (sum, before)
    }

    /// The last deadline at or before `span`.
    fn last_deadline(&self, span: u64) -> u64 {
        let last = |place: &usize| {
            let timing = &self.candidates[*place].timing;
            let past = span.checked_sub(timing.deadline.0)?;
            Some(span - past % timing.period.0)
        };
        self.order.iter().map_while(last).max().unwrap_or(0)
    }

    /// Walks all spans, the longest first, for those that take more than `share` of their length,
    /// and ends with the first of them or with the worst.
    fn walk(&self, share: u128, first: bool) -> Walk {
        let mut walk = Walk {
            binding: None,
            share,
            complete: true,
        };
        let Some(&last) = self.order.last() else {
            return walk;
        };
        let latest = self.candidates[last].timing.deadline;
        let Some(horizon) = self.horizon() else {
            walk.complete = false;
            return walk;
        };
        let mut blocking = self.blockers.none();
        let mut span = self.last_deadline(horizon.max(latest).0);
        let mut spans = 0;
        // Of the tasks due after the span, `blocking` holds those from `next` on.
        let mut next = self.order.len();
        while span > 0 {
            while next > 0 && self.candidates[self.order[next - 1]].timing.deadline.0 > span {
                next -= 1;
                blocking = self.blockers.with(blocking, self.order[next]);
            }
            let (sum, before) = self.demand(span);
            let taken = sum.saturating_add(blocking.total.0);
            let here = fixed(taken, span);
            if here > walk.share {
                walk.binding = Some((Nanos(span), blocking));
                walk.share = here;
                if first {
                    return walk;
                }
            }
            spans += 1;
            if spans > MOST_SPANS {
                walk.complete = false;
                return walk;
            }
            // Shorter spans down to that of which this is the share need no look, as long as
            // blocking stays what it is.
            let floor = next
                .checked_sub(1)
                .map_or(0, |at| self.candidates[self.order[at]].timing.deadline.0);
            let cleared = u128::from(taken) << 64;
            let cleared = u64::try_from(cleared.div_ceil(walk.share.max(1))).unwrap_or(u64::MAX);
            let cleared = cleared.max(floor);
            span = if cleared < span {
                self.last_deadline(cleared)
            } else {
                before
            };
        }
        walk
    }
}

/// The greatest common divisor.
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
