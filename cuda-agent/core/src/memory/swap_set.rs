//! Which chunks may leave: slot i of the backing store belongs to one chunk as long as it lives.
//! Pure.

use super::ChunkId;

/// The slots in the order in which they are swapped out; swapping in goes backwards.
#[derive(Debug, Default)]
pub struct SwapSet {
    /// Each slot's chunk.
    slots: Vec<Option<ChunkId>>,
}

impl SwapSet {
    /// Slots, taken or not.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Adds slots until there are `len`.
    pub fn grow(&mut self, len: usize) {
        if len > self.slots.len() {
            self.slots.resize(len, None);
        }
    }

    /// Cuts off the slots from `len` on, and returns the chunks that had one of them.
    pub fn shrink(&mut self, len: usize) -> Vec<ChunkId> {
        let cut = self.slots.drain(len.min(self.slots.len())..);
        cut.flatten().collect()
    }

    /// Forgets all slots: the backing store is gone.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// Gives the lowest free slot to `chunk`, which has none.
    pub fn assign(&mut self, chunk: ChunkId) -> Option<usize> {
        let slot = self.slots.iter().position(Option::is_none)?;
        self.slots[slot] = Some(chunk);
        Some(slot)
    }

    /// Takes the slot of a chunk that is freed.
    pub fn release(&mut self, slot: usize) {
        self.slots[slot] = None;
    }

    /// Slots and their chunks, in the order of swapping out.
    pub fn taken(&self) -> impl DoubleEndedIterator<Item = (usize, ChunkId)> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(slot, chunk)| Some((slot, (*chunk)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_slot_goes_to_the_next_chunk() {
        let mut set = SwapSet::default();
        let [a, b, c] = [10, 20, 30].map(ChunkId);
        assert_eq!(set.assign(a), None, "no backing store, no slot");
        set.grow(2);
        assert_eq!(
            (set.assign(a), set.assign(b), set.assign(c)),
            (Some(0), Some(1), None)
        );
        set.release(0);
        assert_eq!(set.assign(c), Some(0));
        assert_eq!(set.taken().rev().collect::<Vec<_>>(), [(1, b), (0, c)]);
        set.grow(1);
        assert_eq!(set.slots(), 2, "to grow cuts nothing off");
    }

    #[test]
    fn slots_are_cut_off_with_their_chunks() {
        let mut set = SwapSet::default();
        set.grow(3);
        let [a, b] = [10, 20].map(ChunkId);
        set.assign(a);
        set.assign(b);
        assert_eq!(set.shrink(1), [b]);
        assert_eq!((set.slots(), set.shrink(5)), (1, vec![]));
    }
}
