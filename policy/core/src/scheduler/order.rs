//! Keys in ascending order, in room that is reserved before: keeping it allocates nothing.

use alloc::collections::VecDeque;

/// A sorted set. Its ends cost O(1), the rest O(log n) and moving at most half of it.
#[derive(Clone, Debug)]
pub(crate) struct Order<K>(VecDeque<K>);

impl<K: Ord + Copy> Order<K> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Room for `len` keys in all.
    pub(crate) fn reserve(&mut self, len: usize) {
        self.0.reserve(len.saturating_sub(self.0.len()));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn first(&self) -> Option<K> {
        self.0.front().copied()
    }

    pub(crate) fn pop_first(&mut self) -> Option<K> {
        self.0.pop_front()
    }

    pub(crate) fn get(&self, place: usize) -> Option<K> {
        self.0.get(place).copied()
    }

    /// The first one beyond `key`.
    pub(crate) fn after(&self, key: K) -> Option<K> {
        self.get(self.0.partition_point(|other| *other <= key))
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.0.binary_search(&key).is_ok()
    }

    /// Takes in `key` once.
    pub(crate) fn insert(&mut self, key: K) {
        if self.0.back().is_none_or(|last| *last < key) {
            self.0.push_back(key);
        } else if let Err(place) = self.0.binary_search(&key) {
            self.0.insert(place, key);
        }
    }

    pub(crate) fn remove(&mut self, key: K) {
        if let Ok(place) = self.0.binary_search(&key) {
            self.0.remove(place);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = K> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_sorted_set(steps in prop::collection::vec((0_u8..3, 0_u32..30), 0..200)) {
            let mut order = Order::new();
            let mut set = BTreeSet::new();
            for (what, key) in steps {
                match what {
                    0 => { order.insert(key); set.insert(key); }
                    1 => { order.remove(key); set.remove(&key); }
                    _ => prop_assert_eq!(order.pop_first(), set.pop_first()),
                }
                prop_assert_eq!(order.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(order.contains(key), set.contains(&key));
                prop_assert_eq!(order.after(key), set.range(key + 1..).next().copied());
            }
        }
    }
}
