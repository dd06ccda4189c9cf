//! One problem in whole chunks: a box of volumes that must add up to max(w + M, v), w being the overflow
//! while one task runs, v that while none does, and M the largest volume. An optimum has just that sum:
//! every test and objective only gains by a chunk less, (1c) says Σk − max k ≥ w, and Σk ≥ v leaves
//! best-effort its room.

use alloc::vec::Vec;

use super::{Demand, Room};
use crate::admission::{Candidate, Platform, Test};
use crate::units::{Bytes, Nanos};

pub(super) struct Problem<'a> {
    pub(super) platform: &'a Platform,
    pub(super) demands: &'a [Demand],
    /// ⌊mˢ/δ⌋ per task.
    pub(super) swappable: Vec<u64>,
    /// The overflow w: chunks by which all footprints together exceed what they may hold while one of the
    /// tasks runs.
    pub(super) overflow: u64,
    /// The overflow v: chunks by which they exceed what they may hold while none does.
    pub(super) idle_overflow: u64,
}

impl<'a> Problem<'a> {
    pub(super) fn new(platform: &'a Platform, room: Room, demands: &'a [Demand]) -> Self {
        let chunk = platform.chunk;
        let footprint: u64 = demands
            .iter()
            .map(|d| d.memory.footprint.chunks(chunk))
            .fold(0, u64::saturating_add);
        let beyond = |room: Bytes| footprint.saturating_sub(room.round_down(chunk).chunks(chunk));
        let swappable = |d: &Demand| d.memory.swappable.round_down(chunk).chunks(chunk);
        Self {
            platform,
            demands,
            swappable: demands.iter().map(swappable).collect(),
            overflow: beyond(room.running),
            idle_overflow: beyond(room.idle),
        }
    }

    /// The most chunks up to `most` of the task at `place` that keep what it blocks others for,
    /// the bases of other tasks' evictions apart, within `level`.
    pub(super) fn cap(&self, test: Test, place: usize, most: u64, level: Nanos) -> u64 {
        let platform = self.platform;
        let timing = &self.demands[place].timing;
        let (cost, chunk) = (&platform.cost, platform.chunk);
        let run = platform.execution(timing);
        if test == Test::Pipelined {
            let tasks = self.demands.len() as u64;
            let region = |k| platform.overlapped(k, tasks) + run;
            return last(most, |k| region(k) <= level);
        }
        let bases_out = Nanos(cost.out.base.0.saturating_mul(3));
        let out = per(level.saturating_sub(bases_out), cost.out.chunk_time(chunk));
        let fixed = cost.in_.base + run;
        let in_ = per(level.saturating_sub(fixed), cost.in_.chunk_time(chunk));
        most.min(out).min(in_)
    }

    /// `caps`, lowered so that no task blocks for longer than `level`.
    pub(super) fn capped(&self, test: Test, caps: &[u64], level: Nanos) -> Vec<u64> {
        let cap = |(place, &most): (usize, &u64)| self.cap(test, place, most, level);
        caps.iter().enumerate().map(cap).collect()
    }

    /// The largest M for which v alone is needed.
    pub(super) fn level(&self) -> u64 {
        self.idle_overflow.saturating_sub(self.overflow)
    }

    /// All M up to `most` that need the same sum.
    pub(super) fn level_range(&self, most: u64) -> (u64, u64) {
        if most <= self.level() {
            (0, most)
        } else {
            (most, most)
        }
    }

    /// The sum of volumes of which the largest is `most`.
    pub(super) fn sum(&self, most: u64) -> u64 {
        self.overflow.saturating_add(most).max(self.idle_overflow)
    }

    /// The range of M for which the box holds that sum; larger M only add to it.
    pub(super) fn range(&self, caps: &[u64]) -> Option<(u64, u64)> {
        let (mut largest, mut second) = (0, 0);
        for &cap in caps {
            if cap > largest {
                (largest, second) = (cap, largest);
            } else {
                second = second.max(cap);
            }
        }
        // Room minus need rises with M while v alone is needed, then up to the second largest cap, and
        // never again.
        let highest = second.max(largest.min(self.level()));
        let lacks = |most: u64| !self.fits(caps, most);
        if lacks(highest) {
            return None;
        }
        // The least M that fits.
        let least = last(highest, |most| most == 0 || lacks(most - 1));
        Some((least, highest))
    }

    /// Whether volumes of at most `most` each within `caps` can add up to what M = `most` needs.
    pub(super) fn fits(&self, caps: &[u64], most: u64) -> bool {
        let room: u128 = caps.iter().map(|&cap| u128::from(cap.min(most))).sum();
        room >= u128::from(self.sum(most))
    }

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

/// The largest number up to `most` for which `holds`, which holds up to some number and then no
/// more; zero if for none.
pub(super) fn last(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = high - (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// How many of `each` fit in `span`; all of them if one takes no time.
fn per(span: Nanos, each: Nanos) -> u64 {
    span.0.checked_div(each.0).unwrap_or(u64::MAX)
}
