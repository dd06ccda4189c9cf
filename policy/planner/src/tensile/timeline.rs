//! When each slot begins, by the times that operators are expected to take.

use alloc::vec::Vec;

use crate::graph::OpId;
use crate::stays::Slot;

/// The expected times of all slots, in nanoseconds since the beginning of the iteration.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// When the slot before each has ended.
    ready: Vec<u64>,
    /// When each begins: its operator may wait for a copy before.
    begins: Vec<u64>,
}

impl Timeline {
    /// The timeline of a schedule in which no operator waits. `times` has nanoseconds for each operator.
    pub(super) fn new(schedule: &[OpId], times: &[u64]) -> Self {
        let mut begins = Vec::with_capacity(schedule.len() + 2);
        begins.extend([0, 0]);
        let mut now = 0_u64;
        for op in schedule {
            now = now.saturating_add(times[*op as usize]);
            begins.push(now);
        }
        Self {
            ready: begins.clone(),
            begins,
        }
    }

    /// The operator of a slot waits for `ns` more.
    pub(super) fn delay(&mut self, slot: Slot, ns: u64) {
        let slot = slot as usize;
        let later = self.begins[slot..].iter_mut();
        for at in later.chain(&mut self.ready[slot + 1..]) {
            *at = at.saturating_add(ns);
        }
    }

    /// When a slot begins.
    pub(super) fn begin(&self, slot: Slot) -> u64 {
        self.begins[slot as usize]
    }

    /// When a slot ends: the last one where it begins.
    pub(super) fn end(&self, slot: Slot) -> u64 {
        let next = self.ready.get(slot as usize + 1);
        next.or(self.begins.last()).copied().unwrap_or_default()
    }

    /// The first slot that begins at `ns` or later.
    pub(super) fn first_from(&self, ns: u64) -> Slot {
        self.begins.partition_point(|begin| *begin < ns) as Slot
    }

    /// The last slot before which all others have ended at `ns`.
    pub(super) fn last_until(&self, ns: u64) -> Slot {
        let count = self.ready.partition_point(|ready| *ready <= ns);
        count.saturating_sub(1) as Slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_that_waits_delays_all_behind_it() {
        let mut timeline = Timeline::new(&[0, 1, 2], &[10, 20, 30]);
        timeline.delay(2, 5);
        let slots = [0, 1, 2, 3, 4];
        assert_eq!(slots.map(|slot| timeline.begin(slot)), [0, 0, 15, 35, 65]);
        assert_eq!(slots.map(|slot| timeline.end(slot)), [0, 10, 35, 65, 65]);
        // A copy that begins while slot 2 waits is one that begins behind slot 1.
        let slots = [9, 10, 14, 15, 35].map(|ns| timeline.last_until(ns));
        assert_eq!(slots, [1, 2, 2, 2, 3]);
        assert_eq!([10, 15, 16].map(|ns| timeline.first_from(ns)), [2, 2, 3]);
    }
}
