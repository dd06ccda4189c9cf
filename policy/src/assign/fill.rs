//! For a fixed largest volume M and blocking bound, the volumes lie in a box and must add up to
//! w + M, w being the overflow in chunks; filling by decreasing deadline is then optimal.

use alloc::vec::Vec;

use super::Demand;
use crate::admission::{Candidate, Platform};
use crate::fraction::fixed;
use crate::units::{Bytes, Nanos};

/// One problem in whole chunks.
pub(super) struct Problem<'a> {
    pub(super) platform: &'a Platform,
    pub(super) demands: &'a [Demand],
    /// ⌊mˢ/δ⌋ per task.
    pub(super) swappable: Vec<u64>,
    /// w: Σk − max k must reach it, which is (1c).
    pub(super) overflow: u64,
    /// Places by decreasing deadline.
    order: Vec<usize>,
    /// One chunk out and in.
    round_trip: Nanos,
}

impl<'a> Problem<'a> {
    pub(super) fn new(platform: &'a Platform, capacity: Bytes, demands: &'a [Demand]) -> Self {
        let chunk = platform.chunk;
        let footprint: u64 = demands
            .iter()
            .map(|d| d.memory.footprint.chunks(chunk))
            .fold(0, u64::saturating_add);
        let mut order: Vec<_> = (0..demands.len()).collect();
        order.sort_by_key(|&place| core::cmp::Reverse(demands[place].timing.deadline));
        let cost = &platform.cost;
        Self {
            platform,
            demands,
            swappable: demands
                .iter()
                .map(|d| d.memory.swappable.round_down(chunk).chunks(chunk))
                .collect(),
            overflow: footprint.saturating_sub(capacity.round_down(chunk).chunks(chunk)),
            order,
            round_trip: cost.out.chunk_time(chunk) + cost.in_.chunk_time(chunk),
        }
    }

    /// The most chunks of each task that keep Oᴼᵘᵗ and Oᴵⁿ+C within `level`.
    pub(super) fn caps(&self, level: Nanos) -> Vec<u64> {
        let Platform { cost, chunk, .. } = self.platform;
        let out = self
            .platform
            .swap_out(1)
            .saturating_sub(cost.out.chunk_time(*chunk));
        let most_out = per(level.saturating_sub(out), cost.out.chunk_time(*chunk));
        self.demands
            .iter()
            .zip(&self.swappable)
            .map(|(demand, &swappable)| {
                let fixed = cost.in_.base + self.platform.execution(&demand.timing);
                let most_in = per(level.saturating_sub(fixed), cost.in_.chunk_time(*chunk));
                swappable.min(most_out).min(most_in)
            })
            .collect()
    }

    /// The range of M for which the box holds w + M chunks; larger M only add to what is needed.
    pub(super) fn range(&self, caps: &[u64]) -> Option<(u64, u64)> {
        let fits = |most: u64| {
            let room: u128 = caps.iter().map(|&cap| u128::from(cap.min(most))).sum();
            room >= u128::from(self.overflow) + u128::from(most)
        };
        // Room minus need rises with M up to the second largest cap, and never again.
        let (mut largest, mut second) = (0, 0);
        for &cap in caps {
            if cap > largest {
                (largest, second) = (cap, largest);
            } else {
                second = second.max(cap);
            }
        }
        if !fits(second) {
            return None;
        }
        let (mut least, mut most) = (0, second);
        while least < most {
            let middle = least + (most - least) / 2;
            if fits(middle) {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        Some((least, second))
    }

    /// Volumes of at most `most` each within `caps` that add up to w + `most`, the longest
    /// deadlines first.
    pub(super) fn fill(&self, caps: &[u64], most: u64) -> Vec<u64> {
        let mut volumes = alloc::vec![0; caps.len()];
        let mut left = self.overflow.saturating_add(most);
        for &place in &self.order {
            let given = caps[place].min(most).min(left);
            volumes[place] = given;
            left -= given;
        }
        volumes
    }

    /// The share of the time spent moving chunks, in units of 2⁻⁶⁴, rounded down; without bases.
    pub(super) fn moving(&self, volumes: &[u64]) -> u128 {
        volumes
            .iter()
            .zip(self.demands)
            .filter(|(chunks, _)| **chunks > 0)
            .map(|(chunks, demand)| {
                let moved = chunks.saturating_mul(self.round_trip.0);
                fixed(moved, demand.timing.deadline.0)
            })
            .fold(0, u128::saturating_add)
    }

    /// The volumes of the least `moving` over all M. It is convex in M: the volumes for a given
    /// (w + M, M) are the solution of a linear program whose right side is linear in M, and its
    /// solutions are whole.
    pub(super) fn least_moving(&self, caps: &[u64]) -> Option<Vec<u64>> {
        let (mut least, mut most) = self.range(caps)?;
        while least < most {
            let middle = least + (most - least) / 2;
            let here = self.moving(&self.fill(caps, middle));
            if self.moving(&self.fill(caps, middle + 1)) < here {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        Some(self.fill(caps, least))
    }

    /// The candidates for a test.
    pub(super) fn candidates(&self, volumes: &[u64]) -> Vec<Candidate> {
        self.demands
            .iter()
            .zip(volumes)
            .map(|(demand, &chunks)| Candidate {
                timing: demand.timing,
                volume: self.bytes(chunks),
            })
            .collect()
    }

    pub(super) fn bytes(&self, chunks: u64) -> Bytes {
        Bytes(chunks.saturating_mul(self.platform.chunk.0))
    }
}

/// How many of `each` fit in `span`; all of them if one takes no time.
fn per(span: Nanos, each: Nanos) -> u64 {
    span.0.checked_div(each.0).unwrap_or(u64::MAX)
}
