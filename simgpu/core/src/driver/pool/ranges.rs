//! What of a pool's memory is free, and after which work.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::fence::Fence;

/// A free operation: the stream it was asked on, and its place in that order.
#[derive(Debug, Clone)]
pub(crate) struct Freed {
    pub(crate) stream: u64,
    pub(crate) fence: Arc<Fence>,
}

impl Freed {
    pub(crate) fn is_done(&self) -> bool {
        self.fence.end_ns().is_some()
    }
}

/// A free range.
#[derive(Debug)]
struct Free {
    len: u64,
    /// What it may not be handed out before, except in those streams' order.
    after: Vec<Freed>,
}

/// Slabs of mapped memory, and the free ranges in them by address.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    slabs: BTreeMap<u64, u64>,
    free: BTreeMap<u64, Free>,
}

impl Ranges {
    /// First fit among the ranges that `may_take` agrees to; says what its
    /// memory was last freed by.
    pub(super) fn take(
        &mut self,
        len: u64,
        may_take: impl Fn(&[Freed]) -> bool,
    ) -> Option<(u64, Vec<Freed>)> {
        let fits = |range: &&Free| range.len >= len && may_take(&range.after);
        let (&start, _) = self.free.iter().find(|(_, range)| fits(range))?;
        let Free { len: had, after } = self.free.remove(&start)?;
        if had > len {
            let rest = Free {
                len: had - len,
                after: after.clone(),
            };
            self.free.insert(start + len, rest);
        }
        Some((start, after))
    }

    /// Gives a range back; it joins what is free beside it in its slab.
    pub(super) fn give(&mut self, start: u64, len: u64, freed: Option<Freed>) {
        let (mut start, mut len) = (start, len);
        let mut after: Vec<_> = freed.into_iter().collect();
        let joins = |at: &u64| !self.slabs.contains_key(at);
        if joins(&(start + len))
            && let Some(next) = self.free.remove(&(start + len))
        {
            len += next.len;
            after.extend(next.after);
        }
        let before = self.free.range(..start).next_back();
        let before = before.filter(|(at, range)| *at + range.len == start && joins(&start));
        if let Some(at) = before.map(|(at, _)| *at)
            && let Some(range) = self.free.remove(&at)
        {
            start = at;
            len += range.len;
            after.extend(range.after);
        }
        self.free.insert(start, Free { len, after });
    }

    /// Adds a slab of which all is free.
    pub(super) fn add_slab(&mut self, start: u64, len: u64) {
        self.slabs.insert(start, len);
        let after = Vec::new();
        self.free.insert(start, Free { len, after });
    }

    /// Takes out a slab that nothing uses, not even work that is still to end.
    pub(super) fn remove_idle_slab(&mut self) -> Option<(u64, u64)> {
        let idle = |start: &u64, len: u64| {
            let range = self.free.get(start).filter(|range| range.len == len);
            range.is_some_and(|range| range.after.iter().all(Freed::is_done))
        };
        let found = self.slabs.iter().find(|(start, len)| idle(start, **len));
        let (start, len) = found.map(|(start, len)| (*start, *len))?;
        self.slabs.remove(&start);
        self.free.remove(&start);
        Some((start, len))
    }

    /// Forgets frees that have ended: the program has waited for them.
    pub(super) fn settle(&mut self) {
        for range in self.free.values_mut() {
            range.after.retain(|freed| !freed.is_done());
        }
    }

    /// All slabs: start and length.
    pub(super) fn slabs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.slabs.iter().map(|(start, len)| (*start, *len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLAB: u64 = 64;

    #[test]
    fn freed_memory_keeps_its_stream_until_that_has_ended() {
        let mut ranges = Ranges::default();
        ranges.add_slab(0, SLAB);
        let (start, _) = ranges.take(10, <[Freed]>::is_empty).unwrap();
        let fence = Arc::<Fence>::default();
        let freed = Freed {
            stream: 7,
            fence: fence.clone(),
        };
        ranges.give(start, 10, Some(freed));
        assert!(ranges.take(60, <[Freed]>::is_empty).is_none());
        assert!(ranges.remove_idle_slab().is_none());
        fence.signal(1);
        ranges.settle();
        assert!(ranges.take(SLAB, <[Freed]>::is_empty).is_some());
    }

    proptest! {
        /// No two objects overlap, none crosses a slab, and all freed is one range a slab.
        #[test]
        fn ranges_partition_their_slabs(
            steps in proptest::collection::vec((any::<bool>(), 1..20_u64, any::<prop::sample::Index>()), 1..80)
        ) {
            let mut ranges = Ranges::default();
            ranges.add_slab(0, SLAB);
            // Adjacent on purpose: ranges must not join across the border.
            ranges.add_slab(SLAB, SLAB);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (give, len, index) in steps {
                if give && !held.is_empty() {
                    let (start, len) = held.swap_remove(index.index(held.len()));
                    ranges.give(start, len, None);
                } else if let Some((start, _)) = ranges.take(len, |_| true) {
                    prop_assert_eq!(start / SLAB, (start + len - 1) / SLAB);
                    for (other, size) in &held {
                        prop_assert!(start + len <= *other || other + size <= start);
                    }
                    held.push((start, len));
                }
            }
            for (start, len) in held {
                ranges.give(start, len, None);
            }
            prop_assert!(ranges.remove_idle_slab().is_some());
            prop_assert!(ranges.remove_idle_slab().is_some());
            prop_assert!(ranges.remove_idle_slab().is_none() && ranges.free.is_empty());
        }
    }
}
