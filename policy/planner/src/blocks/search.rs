//! The partition of least latency in a budget (SwapNet, section 6.2.2, Eq. (2) to (4)).
//!
//! It grows partitions block by block. What a beginning of a partition means for the rest of it is its last block and the
//! two times of [`Clock`]: of two beginnings with the same last block, one that is earlier in both is enough. The result is
//! exact unless a search exceeds [`EFFORT`]. Searches with few places for cuts come first, because a good latency lets the
//! next search drop most beginnings.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::costs::{Block, Costs};
use super::feasible::first_that_fits;
use super::partition::{Clock, Partition};

/// Blocks in memory at once (the paper's m).
const IN_MEMORY: u64 = 2;

/// The number of blocks tried beyond the fewest: a small first block is in memory sooner.
pub const MORE_BLOCKS: usize = 2;

/// The first search has about this number of places for cuts.
const FIRST_CUTS: usize = 32;

/// Each search has this many times the places for cuts of the one before.
const MORE_CUTS: usize = 4;

/// The number of beginnings after which a search ends, some 50 ms. The best partition so far is the result.
const EFFORT: usize = 1 << 20;

/// The partition of least latency within `budget` bytes of blocks. The number of blocks is from the fewest that
/// fit, at least n = ⌈2·s/b⌉, to two more. None below [`Costs::least_budget`].
pub fn partition(costs: &Costs, budget: u64) -> Option<Partition> {
    if costs.whole().bytes <= budget {
        return Some(Partition::at(costs, Vec::new()));
    }
    if costs.least_budget() > budget {
        return None;
    }
    let most = costs.layers();
    let fewest = (IN_MEMORY * costs.whole().bytes).div_ceil(budget);
    let first = first_that_fits(costs, budget, most.min(fewest as usize)..=most)?;
    let fewest = first.count();
    Some(improve(
        costs,
        budget,
        &(fewest..=fewest + MORE_BLOCKS),
        first,
    ))
}

/// The partition of least latency within `budget` bytes, with a number of blocks in `counts`, which begin at 2 or more. None
/// where no such partition fits.
pub fn partition_into(
    costs: &Costs,
    budget: u64,
    counts: RangeInclusive<usize>,
) -> Option<Partition> {
    let first = first_that_fits(costs, budget, counts.clone())?;
    Some(improve(costs, budget, &counts, first))
}

/// The partition of least latency with a number of blocks in `counts`; `found` is one of them.
fn improve(
    costs: &Costs,
    budget: u64,
    counts: &RangeInclusive<usize>,
    mut found: Partition,
) -> Partition {
    let layers = costs.layers();
    let mut stride = layers.div_ceil(FIRST_CUTS);
    loop {
        let mut cuts: Vec<usize> = (1..layers).step_by(stride).collect();
        cuts.push(layers);
        let faster = Search::new(costs, budget, &cuts, found.latency_ns).run(counts);
        found = faster.unwrap_or(found);
        if stride == 1 {
            return found;
        }
        stride = stride.div_ceil(MORE_CUTS);
    }
}

/// The beginning of a partition.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    /// The layer with which its last block begins.
    from: u32,
    /// The place of the beginning without its last block in [`Search::all`].
    parent: u32,
    clock: Clock,
}

struct Search<'a> {
    costs: &'a Costs,
    budget: u64,
    /// The layers behind which the model may be cut, and the last layer.
    cuts: &'a [usize],
    /// Partitions take less than that, in nanoseconds.
    limit_ns: u64,
    /// The last layer's own time in nanoseconds: behind the last swap-in comes at least that.
    tail_ns: u64,
    /// Every beginning that is kept.
    all: Vec<Beginning>,
    /// The places in [`Self::all`] of the beginnings with the most blocks so far, by the layer behind them.
    ends: Vec<Vec<u32>>,
    best: Option<u32>,
    /// The number of beginnings that it looked at.
    tried: usize,
}

impl<'a> Search<'a> {
    fn new(costs: &'a Costs, budget: u64, cuts: &'a [usize], limit_ns: u64) -> Self {
        let layers = costs.layers();
        Self {
            costs,
            budget,
            cuts,
            limit_ns,
            tail_ns: costs.block(layers - 1, layers).execution_ns,
            all: Vec::new(),
            ends: vec![Vec::new(); layers + 1],
            best: None,
            tried: 0,
        }
    }

    /// The partition of least latency below the limit; of several, one with the fewest blocks.
    fn run(&mut self, counts: &RangeInclusive<usize>) -> Option<Partition> {
        self.begin();
        for count in 2..=*counts.end() {
            self.grow(count == *counts.end());
            if !counts.contains(&count) {
                continue;
            }
            for at in &self.ends[self.costs.layers()] {
                let latency_ns = self.all[*at as usize].clock.executed;
                if latency_ns < self.limit_ns {
                    self.limit_ns = latency_ns;
                    self.best = Some(*at);
                }
            }
        }
        let mut points = Vec::new();
        let mut last = self.all[self.best? as usize];
        while last.from > 0 {
            points.push(last.from);
            last = self.all[last.parent as usize];
        }
        points.reverse();
        Some(Partition::at(self.costs, points))
    }

    /// Each first block.
    fn begin(&mut self) {
        for to in self.cuts[..self.cuts.len() - 1].iter().copied() {
            let block = self.costs.block(0, to);
            if block.bytes > self.budget {
                break;
            }
            let mut clock = Clock::default();
            clock.advance(block);
            if self.can_finish(clock, to) {
                self.keep(to, 0, 0, clock);
            }
        }
    }

    fn keep(&mut self, to: usize, from: usize, parent: u32, clock: Clock) {
        self.ends[to].push(self.all.len() as u32);
        let from = from as u32;
        self.all.push(Beginning {
            from,
            parent,
            clock,
        });
    }

    /// Whether a beginning that ends in front of layer `to` may be that of a partition within the limit.
    fn can_finish(&self, clock: Clock, to: usize) -> bool {
        let layers = self.costs.layers();
        if to == layers {
            return clock.executed < self.limit_ns;
        }
        let rest = self.costs.block(to, layers);
        clock.executed + rest.execution_ns < self.limit_ns
            && clock.read + rest.input_ns + self.tail_ns < self.limit_ns
    }

    /// One more block behind each beginning; one that reaches the end of the model if it `is_last`.
    fn grow(&mut self, is_last: bool) {
        let layers = self.costs.layers();
        let ends = core::mem::replace(&mut self.ends, vec![Vec::new(); layers + 1]);
        let mut found = Vec::new();
        let cuts = self.cuts;
        for (at, from) in cuts.iter().copied().enumerate() {
            let beginnings = &ends[from];
            if beginnings.is_empty() {
                continue;
            }
            let first = if is_last { cuts.len() - 1 } else { at + 1 };
            for to in cuts[first.max(at + 1)..].iter().copied() {
                let block = self.costs.block(from, to);
                if block.bytes > self.budget {
                    break;
                }
                self.tried += beginnings.len();
                if self.tried > EFFORT {
                    return;
                }
                self.extend(beginnings, block, (from, to), &mut found);
                // Only those that are read earlier than each that has run earlier.
                found
                    .sort_unstable_by_key(|(_, clock): &(u32, Clock)| (clock.executed, clock.read));
                let mut earliest = u64::MAX;
                for (parent, clock) in found.drain(..) {
                    if clock.read < earliest {
                        earliest = clock.read;
                        self.keep(to, from, parent, clock);
                    }
                }
            }
        }
    }

    /// Puts into `found` the beginnings that `block` makes behind those of `beginnings` that leave room for it.
    fn extend(
        &self,
        beginnings: &[u32],
        block: &Block,
        (from, to): (usize, usize),
        found: &mut Vec<(u32, Clock)>,
    ) {
        for parent in beginnings.iter().copied() {
            let before = &self.all[parent as usize];
            let neighbour = self.costs.block(before.from as usize, from);
            if neighbour.bytes + block.bytes > self.budget {
                continue;
            }
            let mut clock = before.clock;
            clock.advance(block);
            if self.can_finish(clock, to) {
                found.push((parent, clock));
            }
        }
    }
}
