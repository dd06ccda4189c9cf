//! The chunks that are taken in each slot, and where they are the most.

use alloc::vec;
use alloc::vec::Vec;

use super::Slot;

/// Slots of a block: about the root of what large graphs have, so that a peak is found in few steps.
const BLOCK: usize = 64;

/// The chunks of each slot. Planners ask for the peak after each decision, so the peak of each block of slots is kept.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    chunks: Vec<u64>,
    /// The most chunks of a slot in each block.
    peaks: Vec<u64>,
}

impl Taken {
    /// None yet in any of `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            chunks: vec![0; slots],
            peaks: vec![0; slots.div_ceil(BLOCK)],
        }
    }

    /// The chunks of each slot.
    pub(super) fn chunks(&self) -> &[u64] {
        &self.chunks
    }

    /// Adds chunks to the slots from `from` to the one before `to`, or takes them off; there may be no such slots.
    pub(super) fn change(&mut self, from: Slot, to: Slot, chunks: u64, is_more: bool) {
        let (from, to) = (from as usize, (to as usize).min(self.chunks.len()));
        if from >= to {
            return;
        }
        // What is taken off was added before, so the sum does not wrap in the end.
        let change = if is_more {
            chunks
        } else {
            chunks.wrapping_neg()
        };
        for taken in &mut self.chunks[from..to] {
            *taken = taken.wrapping_add(change);
        }
        let (first, last) = (from / BLOCK, (to - 1) / BLOCK);
        for block in first..=last {
            let begin = block * BLOCK;
            let end = (begin + BLOCK).min(self.chunks.len());
            self.peaks[block] = if from <= begin && end <= to {
                self.peaks[block].wrapping_add(change)
            } else {
                most(&self.chunks[begin..end])
            };
        }
    }

    /// The first slot in which the most chunks are taken, and how many these are.
    pub(super) fn peak(&self) -> (Slot, u64) {
        let most = most(&self.peaks);
        let block = self.peaks.iter().position(|peak| *peak == most);
        let begin = block.unwrap_or_default() * BLOCK;
        let in_block = self.chunks[begin..].iter();
        let slot = in_block.take(BLOCK).position(|chunks| *chunks == most);
        ((begin + slot.unwrap_or_default()) as Slot, most)
    }
}

fn most(chunks: &[u64]) -> u64 {
    chunks.iter().copied().max().unwrap_or_default()
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
