//! When each slot begins, by the times that operators are expected to take.

use alloc::vec::Vec;

use crate::graph::OpId;
use crate::stays::Slot;

/// The expected beginnings of all slots, in nanoseconds since the beginning of the iteration.
#[derive(Clone, Debug)]
pub(super) struct Timeline(Vec<u64>);

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
        Self(begins)
    }

    /// When a slot begins.
    pub(super) fn begin(&self, slot: Slot) -> u64 {
        self.0[slot as usize]
    }

    /// When a slot ends: the last one where it begins.
    pub(super) fn end(&self, slot: Slot) -> u64 {
        let next = self.0.get(slot as usize + 1).or(self.0.last());
        next.copied().unwrap_or_default()
    }

    /// The first slot that begins at `ns` or later.
    pub(super) fn first_from(&self, ns: u64) -> Slot {
        self.0.partition_point(|begin| *begin < ns) as Slot
    }

    /// The last slot that begins at `ns` or earlier.
    pub(super) fn last_until(&self, ns: u64) -> Slot {
        self.0
            .partition_point(|begin| *begin <= ns)
            .saturating_sub(1) as Slot
    }
}
