//! The link of one job: one copy at a time, whatever its direction.

use alloc::vec::Vec;

/// When the link is busy: spans in nanoseconds, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane(Vec<(u64, u64)>);

impl Lane {
    /// The earliest beginning of a copy of `ns` that lies between `from` and `to`.
    pub(super) fn earliest(&self, from: u64, to: u64, ns: u64) -> Option<u64> {
        let mut at = from;
        let behind = self.0.partition_point(|(_, end)| *end <= from);
        for (begin, end) in &self.0[behind..] {
            if at.checked_add(ns)? <= *begin {
                break;
            }
            at = at.max(*end);
        }
        (at.checked_add(ns)? <= to).then_some(at)
    }

    /// The latest beginning of a copy of `ns` that lies between `from` and `to`.
    pub(super) fn latest(&self, from: u64, to: u64, ns: u64) -> Option<u64> {
        let mut at = to.checked_sub(ns)?;
        let before = self.0.partition_point(|(begin, _)| *begin < to);
        for (begin, end) in self.0[..before].iter().rev() {
            if at >= *end {
                break;
            }
            at = at.min(begin.checked_sub(ns)?);
        }
        (at >= from).then_some(at)
    }

    /// A copy of `ns` is made at `at`, where the link was free.
    pub(super) fn take(&mut self, at: u64, ns: u64) {
        let place = self.0.partition_point(|(begin, _)| *begin < at);
        self.0.insert(place, (at, at + ns));
    }

    /// That copy is not made.
    pub(super) fn give(&mut self, at: u64, ns: u64) {
        if let Ok(place) = self.0.binary_search(&(at, at + ns)) {
            self.0.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_between_those_of_others() {
        let mut lane = Lane::default();
        lane.take(10, 10);
        lane.take(30, 5);
        assert_eq!(lane.earliest(0, 100, 10), Some(0));
        assert_eq!(lane.earliest(1, 100, 10), Some(20));
        assert_eq!(lane.earliest(12, 100, 11), Some(35));
        assert_eq!(lane.earliest(12, 45, 11), None);
        assert_eq!(lane.latest(0, 40, 5), Some(35));
        assert_eq!(lane.latest(0, 39, 5), Some(25));
        assert_eq!(lane.latest(0, 39, 11), None);
        assert_eq!(lane.latest(0, 39, 10), Some(20));
        assert_eq!(lane.latest(21, 39, 10), None);
        lane.give(10, 10);
        assert_eq!(lane.earliest(1, 100, 10), Some(1));
        assert_eq!(lane.latest(0, 5, 6), None);
    }
}
