//! The partition of least latency in a budget (SwapNet, section 6.2.2, Eq. (2) to (4)), found exactly.
//!
//! It grows partitions block by block. What a beginning of a partition means for the rest of it is its last block and the
//! times of [`Clock`]: of two beginnings with the same last block, one that is earlier in all of these times is enough.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::costs::{Block, Costs};
use super::partition::{Clock, Partition};

/// Blocks in memory at once (the paper's m).
const IN_MEMORY: u64 = 2;

/// So many more blocks than the fewest are tried: a small first block is in memory sooner.
pub const MORE_BLOCKS: usize = 2;

/// The beginning of a partition.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    /// The layer with which its last block begins.
    from: u32,
    /// The place of the beginning without its last block in [`Search::all`].
    parent: u32,
    clock: Clock,
}

impl Beginning {
    /// Whether nothing that follows `other` ends earlier behind `other` than behind this one.
    fn dominates(&self, other: &Self) -> bool {
        self.clock.executed <= other.clock.executed
            && self.clock.read <= other.clock.read
            && self.clock.before_out <= other.clock.before_out
    }
}

/// The partition of least latency whose blocks need at most `budget` bytes. The number of blocks is from the fewest that
/// fit, at least n = ⌈2·s/b⌉, to two more. None below [`Costs::least_budget`].
pub fn partition(costs: &Costs, budget: u64) -> Option<Partition> {
    if costs.whole().bytes <= budget {
        return Some(Partition::at(costs, Vec::new()));
    }
    if costs.least_budget() > budget {
        return None;
    }
    let fewest = (IN_MEMORY * costs.whole().bytes).div_ceil(budget);
    let mut search = Search::new(costs, budget);
    let fewest = (fewest as usize).min(costs.layers());
    search.run(fewest, costs.layers(), MORE_BLOCKS)
}

/// The same with so many blocks, at least 2; none where no such partition fits.
pub fn partition_into(
    costs: &Costs,
    budget: u64,
    counts: RangeInclusive<usize>,
) -> Option<Partition> {
    let more = counts.end().saturating_sub(*counts.start());
    Search::new(costs, budget).run(*counts.start(), *counts.end(), more)
}

struct Search<'a> {
    costs: &'a Costs,
    budget: u64,
    /// Every beginning that is kept.
    all: Vec<Beginning>,
    /// The places in [`Self::all`] of the beginnings with the most blocks so far, by the layer behind them.
    ends: Vec<Vec<u32>>,
    /// The least latency so far, and its beginning.
    best: Option<(u64, u32)>,
}

impl<'a> Search<'a> {
    fn new(costs: &'a Costs, budget: u64) -> Self {
        Self {
            costs,
            budget,
            all: Vec::new(),
            ends: vec![Vec::new(); costs.layers() + 1],
            best: None,
        }
    }

    /// The best partition with the first number of blocks from `fewest` to `most` with which one fits, or up to `more`
    /// blocks more.
    fn run(&mut self, fewest: usize, most: usize, more: usize) -> Option<Partition> {
        self.begin();
        let mut last = most;
        let mut count = 1;
        while count < last {
            count += 1;
            self.grow(count == last);
            if count < fewest {
                continue;
            }
            let whole = &self.ends[self.costs.layers()];
            let ends = whole
                .iter()
                .map(|at| (self.all[*at as usize].clock.executed, *at));
            let found = ends.min();
            if found.is_some() && self.best.is_none() {
                last = last.min(count + more);
            }
            // Of equal latencies, the one with the fewest blocks.
            let is_better =
                |(latency, _): &(u64, u32)| self.best.is_none_or(|(best, _)| *latency < best);
            self.best = found.filter(is_better).or(self.best);
        }
        let (_, mut at) = self.best?;
        let mut points = Vec::new();
        loop {
            let beginning = self.all[at as usize];
            if beginning.from == 0 {
                break;
            }
            points.push(beginning.from);
            at = beginning.parent;
        }
        points.reverse();
        Some(Partition::at(self.costs, points))
    }

    /// Each first block.
    fn begin(&mut self) {
        for to in 1..self.costs.layers() {
            let block = self.costs.block(0, to);
            if block.bytes > self.budget {
                break;
            }
            let mut clock = Clock::default();
            clock.advance(block.input_ns, block.execution_ns, block.output_ns);
            self.ends[to].push(self.all.len() as u32);
            self.all.push(Beginning {
                from: 0,
                parent: 0,
                clock,
            });
        }
    }

    /// One more block behind each beginning; one that reaches the end of the model if it `is_last`.
    fn grow(&mut self, is_last: bool) {
        let layers = self.costs.layers();
        let ends = core::mem::replace(&mut self.ends, vec![Vec::new(); layers + 1]);
        let mut front = Vec::new();
        for (from, beginnings) in ends.iter().enumerate().take(layers) {
            if beginnings.is_empty() {
                continue;
            }
            let first = if is_last { layers } else { from + 1 };
            for to in first..=layers {
                let block = self.costs.block(from, to);
                if block.bytes > self.budget {
                    break;
                }
                self.extend(beginnings, block, (from, to), &mut front);
                for beginning in front.drain(..) {
                    self.ends[to].push(self.all.len() as u32);
                    self.all.push(beginning);
                }
            }
        }
    }

    /// Puts into `front` the beginnings with `block` as their last one of which none dominates another.
    fn extend(
        &self,
        beginnings: &[u32],
        block: &Block,
        (from, to): (usize, usize),
        front: &mut Vec<Beginning>,
    ) {
        let layers = self.costs.layers();
        let rest_ns = if to == layers {
            0
        } else {
            self.costs.block(to, layers).execution_ns
        };
        for parent in beginnings.iter().copied() {
            let before = &self.all[parent as usize];
            let neighbour = self.costs.block(before.from as usize, from);
            if neighbour.bytes + block.bytes > self.budget {
                continue;
            }
            let mut clock = before.clock;
            clock.advance(block.input_ns, block.execution_ns, block.output_ns);
            if self
                .best
                .is_some_and(|(best, _)| clock.executed + rest_ns >= best)
            {
                continue;
            }
            let beginning = Beginning {
                from: from as u32,
                parent,
                clock,
            };
            if front.iter().any(|other| other.dominates(&beginning)) {
                continue;
            }
            front.retain(|other| !beginning.dominates(other));
            front.push(beginning);
        }
    }
}
