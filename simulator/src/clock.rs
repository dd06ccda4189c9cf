//! The events to come, by time and then by the order in which they were planned.

use alloc::collections::BTreeMap;

use rtswap_policy::units::Time;

/// A virtual clock: it jumps to the next thing that happens.
#[derive(Clone, Debug)]
pub(crate) struct Clock<E> {
    pub(crate) now: Time,
    planned: u64,
    to_come: BTreeMap<(Time, u64), E>,
}

impl<E> Clock<E> {
    pub(crate) const fn new() -> Self {
        Self {
            now: Time::ZERO,
            planned: 0,
            to_come: BTreeMap::new(),
        }
    }

    pub(crate) fn plan(&mut self, at: Time, event: E) {
        self.planned += 1;
        self.to_come.insert((at.max(self.now), self.planned), event);
    }

    /// When the next thing happens.
    pub(crate) fn next(&self) -> Option<Time> {
        self.to_come.first_key_value().map(|((at, _), _)| *at)
    }

    /// Jumps to it.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let ((at, _), event) = self.to_come.pop_first()?;
        self.now = at;
        Some(event)
    }
}
