//! The partition of least latency in a budget (SwapNet, section 6.2.2, Eq. (2) to (4)), found exactly.
//!
//! It grows partitions block by block. What a beginning of a partition means for the rest of it is its last block and the
//! two times of [`Clock`]: of two beginnings with the same last block, one that is earlier in both is enough. Most budgets
//! leave room for a partition that hardly stalls, so that the search first allows little stalling, and then more.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::costs::{Block, Costs};
use super::partition::{Clock, Partition};

/// Blocks in memory at once (the paper's m).
const IN_MEMORY: u64 = 2;

/// So many more blocks than the fewest are tried: a small first block is in memory sooner.
pub const MORE_BLOCKS: usize = 2;

/// The share of the model's own time that a first search lets it stall is one to so many.
const FIRST_LIMIT: u64 = 1024;

/// Each search lets the model stall so many times as long as the one before.
const LIMIT_GROWTH: u64 = 4;

/// The partition of least latency whose blocks need at most `budget` bytes. The number of blocks is from the fewest that
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
    let fewest = fewest_blocks(costs, budget, most.min(fewest as usize))?;
    partition_into(costs, budget, fewest..=most.min(fewest + MORE_BLOCKS))
}

/// The same with so many blocks, at least 2; none where no such partition fits.
pub fn partition_into(
    costs: &Costs,
    budget: u64,
    counts: RangeInclusive<usize>,
) -> Option<Partition> {
    let own_ns = costs.whole().execution_ns;
    // No partition takes longer than one that does one thing at a time.
    let layers = (0..costs.layers()).map(|at| costs.block(at, at + 1));
    let each_ns = layers.map(|layer| layer.input_ns + layer.execution_ns + layer.output_ns);
    let longest_ns = each_ns.sum::<u64>() + costs.layers() as u64;
    let mut stall_ns = own_ns / FIRST_LIMIT + 1;
    loop {
        let limit_ns = longest_ns.min(own_ns + stall_ns);
        let found = Search::new(costs, budget, limit_ns).run(&counts);
        if found.is_some() || limit_ns == longest_ns {
            return found;
        }
        stall_ns *= LIMIT_GROWTH;
    }
}

/// The first number of blocks from `first` on with which a partition fits.
fn fewest_blocks(costs: &Costs, budget: u64, first: usize) -> Option<usize> {
    let layers = costs.layers();
    // Of all last blocks that end at a layer, the smallest leaves the most room: where it begins.
    let fits = |to: &usize| costs.block(0, *to).bytes <= budget;
    let mut begins: Vec<Option<usize>> = vec![None; layers + 1];
    for to in (1..=layers).filter(fits) {
        begins[to] = Some(0);
    }
    for count in 2..=layers {
        let mut next = vec![None; layers + 1];
        for (from, begin) in begins.iter().enumerate().take(layers) {
            let Some(begin) = begin else { continue };
            let before = costs.block(*begin, from).bytes;
            let fits = |to: &usize| before + costs.block(from, *to).bytes <= budget;
            for to in (from + 1..=layers).take_while(fits) {
                next[to] = Some(from);
            }
        }
        begins = next;
        if count >= first && begins[layers].is_some() {
            return Some(count);
        }
    }
    None
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
    /// Partitions take less than that, in nanoseconds.
    limit_ns: u64,
    /// The last layer's own time in nanoseconds: behind the last swap-in comes at least that.
    tail_ns: u64,
    /// Every beginning that is kept.
    all: Vec<Beginning>,
    /// The places in [`Self::all`] of the beginnings with the most blocks so far, by the layer behind them.
    ends: Vec<Vec<u32>>,
    best: Option<u32>,
}

impl<'a> Search<'a> {
    fn new(costs: &'a Costs, budget: u64, limit_ns: u64) -> Self {
        let layers = costs.layers();
        Self {
            costs,
            budget,
            limit_ns,
            tail_ns: costs.block(layers - 1, layers).execution_ns,
            all: Vec::new(),
            ends: vec![Vec::new(); layers + 1],
            best: None,
        }
    }

    /// The partition of least latency with so many blocks; of equal ones, that with the fewest blocks.
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
        for to in 1..self.costs.layers() {
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
        // Blocks round their times one by one, up to one nanosecond each.
        let read_ns = (rest.input_ns + self.tail_ns).saturating_sub(layers as u64);
        clock.executed + rest.execution_ns < self.limit_ns && clock.read + read_ns < self.limit_ns
    }

    /// One more block behind each beginning; one that reaches the end of the model if it `is_last`.
    fn grow(&mut self, is_last: bool) {
        let layers = self.costs.layers();
        let ends = core::mem::replace(&mut self.ends, vec![Vec::new(); layers + 1]);
        let mut found = Vec::new();
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
