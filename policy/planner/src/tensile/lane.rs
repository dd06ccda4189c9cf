//! The link of one job: one copy at a time, whatever its direction.

use alloc::vec::Vec;

/// When the link is busy: spans in nanoseconds, in their order, no two of which touch.
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
        if ns == 0 {
            return;
        }
        let place = self.0.partition_point(|(begin, _)| *begin < at);
        // Touching spans become one: a full link has few spans, however many copies it makes.
        let is_behind = place > 0 && self.0[place - 1].1 == at;
        let next = self.0.get(place).copied();
        let next = next.filter(|(begin, _)| *begin == at + ns);
        match (is_behind, next) {
            (true, Some((_, end))) => {
                self.0[place - 1].1 = end;
                self.0.remove(place);
            }
            (true, None) => self.0[place - 1].1 = at + ns,
            (false, Some(_)) => self.0[place].0 = at,
            (false, None) => self.0.insert(place, (at, at + ns)),
        }
    }

    /// That copy is not made.
    pub(super) fn give(&mut self, at: u64, ns: u64) {
        let place = self.0.partition_point(|(_, end)| *end <= at);
        let Some((begin, end)) = self.0.get(place).copied() else {
            return;
        };
        if ns == 0 || begin > at || end < at + ns {
            return;
        }
        match (begin < at, at + ns < end) {
            (false, false) => {
                self.0.remove(place);
            }
            (true, false) => self.0[place].1 = at,
            (false, true) => self.0[place].0 = at + ns,
            (true, true) => {
                self.0[place].1 = at;
                self.0.insert(place + 1, (at + ns, end));
            }
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

    #[test]
    fn copies_that_touch_can_be_taken_back_one_by_one() {
        let mut lane = Lane::default();
        for at in [0, 20, 10] {
            lane.take(at, 10);
        }
        assert_eq!(lane.0, [(0, 30)]);
        lane.take(5, 0);
        lane.give(10, 10);
        assert_eq!(lane.0, [(0, 10), (20, 30)]);
        assert_eq!(lane.earliest(0, 30, 10), Some(10));
        lane.take(10, 10);
        lane.give(0, 10);
        assert_eq!(lane.0, [(10, 30)]);
        lane.give(20, 10);
        assert_eq!(lane.0, [(10, 20)]);
        assert_eq!(lane.latest(0, 40, 25), None);
        assert_eq!(lane.latest(0, 40, 20), Some(20));
        lane.give(10, 10);
        assert_eq!(lane.0, []);
    }
}
