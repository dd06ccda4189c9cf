//! The chunks that are taken in each slot, and where they are the most.

use alloc::vec;
use alloc::vec::Vec;

use super::Slot;

/// Slots of a block: about the root of what large graphs have, so that a peak is found in few steps.
const BLOCK: usize = 64;

/// The chunks of each slot. Planners ask for the peak after each decision, so that of each block of slots is kept, and what is
/// taken in all slots of a block is counted once.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// The chunks of each slot beside those of its whole block: less than none where some of the block's were taken off.
    rests: Vec<i64>,
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// The chunks that were taken in all slots at once.
    shared: i64,
    /// The most chunks of a slot.
    peak: i64,
}

impl Taken {
    /// None yet in any of `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            rests: vec![0; slots],
            blocks: vec![Block::default(); slots.div_ceil(BLOCK)],
        }
    }

    /// The chunks of each slot.
    pub(super) fn chunks(&self) -> Vec<u64> {
        let blocks = self.rests.chunks(BLOCK).zip(&self.blocks);
        let slots = blocks.flat_map(|(rests, block)| rests.iter().map(|rest| rest + block.shared));
        slots.map(i64::cast_unsigned).collect()
    }

    /// Adds chunks to the slots from `from` to the one before `to`, or takes them off; there may be no such slots.
    pub(super) fn change(&mut self, from: Slot, to: Slot, chunks: u64, is_more: bool) {
        let (from, to) = (from as usize, (to as usize).min(self.rests.len()));
        if from >= to {
            return;
        }
        let chunks = chunks.cast_signed();
        let change = if is_more { chunks } else { -chunks };
        for number in from / BLOCK..=(to - 1) / BLOCK {
            let begin = number * BLOCK;
            let end = (begin + BLOCK).min(self.rests.len());
            let block = &mut self.blocks[number];
            if from <= begin && end <= to {
                block.shared += change;
                block.peak += change;
                continue;
            }
            for rest in &mut self.rests[from.max(begin)..to.min(end)] {
                *rest += change;
            }
            block.peak = block.shared + most(&self.rests[begin..end]);
        }
    }

    /// The first slot in which the most chunks are taken, and how many these are.
    pub(super) fn peak(&self) -> (Slot, u64) {
        let peaks = self.blocks.iter().map(|block| block.peak);
        let Some((number, peak)) = peaks.enumerate().rev().max_by_key(|(_, peak)| *peak) else {
            return (0, 0);
        };
        let begin = number * BLOCK;
        let rest = peak - self.blocks[number].shared;
        let slot = self.rests[begin..].iter().position(|of| *of == rest);
        (
            (begin + slot.unwrap_or_default()) as Slot,
            peak.cast_unsigned(),
        )
    }
}

fn most(rests: &[i64]) -> i64 {
    rests.iter().copied().max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advisor::Rng;

    #[test]
    fn the_peak_is_that_of_all_slots_after_any_changes() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let slots = 1 + rng.below(300);
            let mut taken = Taken::new(slots);
            let mut ranges: Vec<(Slot, Slot, u64)> = Vec::new();
            for _ in 0..100 {
                if rng.below(3) == 0 && !ranges.is_empty() {
                    let (from, to, chunks) = ranges.swap_remove(rng.below(ranges.len()));
                    taken.change(from, to, chunks, false);
                } else {
                    let [from, to] = [0; 2].map(|_| rng.below(slots + 1) as Slot);
                    let chunks = rng.below(4) as u64;
                    ranges.push((from, to, chunks));
                    taken.change(from, to, chunks, true);
                }
                let at = |slot: Slot| -> u64 {
                    let over = ranges
                        .iter()
                        .filter(|(from, to, _)| (*from..*to).contains(&slot));
                    over.map(|(.., chunks)| chunks).sum()
                };
                let expected: Vec<u64> = (0..slots as Slot).map(at).collect();
                assert_eq!(taken.chunks(), expected);
                let (slot, most) = taken.peak();
                assert_eq!(Some(&most), expected.iter().max());
                let first = expected.iter().position(|chunks| *chunks == most);
                assert_eq!(first, Some(slot as usize), "seed {seed}");
            }
        }
    }
}
