//! A model in blocks, and how long it takes so.

use alloc::vec::Vec;
use core::ops::Range;

use super::costs::{Block, Costs};

/// A model in blocks that run one after the other, two of them in memory at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The layers behind which the model is cut, counted from 1, in rising order.
    pub points: Vec<u32>,
    /// The number of layers of the model.
    pub layers: u32,
    /// The most bytes of parameters in memory at once: of two blocks in a row.
    pub peak_bytes: u64,
    /// From the beginning of the first swap-in to the end of the last operator, in nanoseconds. A model in one block stays in
    /// memory and swaps nothing.
    pub latency_ns: u64,
}

impl Partition {
    /// The partition of a model at `points`, which rise and are between 1 and the number of layers less 1.
    ///
    /// Blocks are read one after the other, and released beside that: block i+1 is read once block i is there and block i-1
    /// is out. Eq. (4) of the paper gives the same latency where block i-1 is out after block i is there. Where it is out
    /// earlier, that equation lets the read of block i+1 begin before that of block i has ended, which one storage cannot do.
    pub fn at(costs: &Costs, points: Vec<u32>) -> Self {
        let mut partition = Self {
            points,
            layers: costs.layers() as u32,
            peak_bytes: costs.whole().bytes,
            latency_ns: costs.whole().execution_ns,
        };
        if partition.points.is_empty() {
            return partition;
        }
        let pairs = partition.blocks(costs).zip(partition.blocks(costs).skip(1));
        let peak = pairs.map(|(block, next)| block.bytes + next.bytes).max();
        partition.peak_bytes = peak.unwrap_or_default();
        partition.latency_ns = latency_ns(partition.blocks(costs));
        partition
    }

    /// Its blocks, which `costs` has.
    pub fn blocks<'a>(&self, costs: &'a Costs) -> impl Iterator<Item = Block> + use<'a> {
        self.spans()
            .map(|span| *costs.block(span.start as usize, span.end as usize))
    }

    /// The layers of each block, counted from 0.
    pub fn spans(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let mut bounds = Vec::with_capacity(self.points.len() + 2);
        bounds.push(0);
        bounds.extend(&self.points);
        bounds.push(self.layers);
        (1..bounds.len()).map(move |at| bounds[at - 1]..bounds[at])
    }

    /// The number of blocks.
    pub fn count(&self) -> usize {
        self.points.len() + 1
    }
}

/// How long blocks take one after the other, from the beginning of the first swap-in to the end of the last operator, in
/// nanoseconds.
pub fn latency_ns(blocks: impl IntoIterator<Item = Block>) -> u64 {
    let mut clock = Clock::default();
    for block in blocks {
        clock.advance(&block);
    }
    clock.executed
}

/// When the steps of the last block end, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// The last block is in memory and the one before it is out: the next one can be read.
    pub(super) read: u64,
    /// The last block has run.
    pub(super) executed: u64,
    /// The last block is out of memory.
    out: u64,
}

impl Clock {
    /// Appends a block with these delays.
    pub(super) fn advance(&mut self, block: &Block) {
        let read = self.read + block.input_ns;
        let executed = self.executed.max(read) + block.execution_ns;
        *self = Self {
            read: read.max(self.out),
            executed,
            out: executed + block.output_ns,
        };
    }
}
