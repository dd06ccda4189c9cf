//! The events to come, by time and then by the order in which they were planned.

use alloc::collections::BinaryHeap;
use core::cmp::Ordering;

use rtswap_policy::units::Time;

/// A virtual clock: it jumps to the next thing that happens.
#[derive(Clone, Debug)]
pub(crate) struct Clock<E> {
    pub(crate) now: Time,
    planned: u64,
    to_come: BinaryHeap<Planned<E>>,
}

#[derive(Clone, Debug)]
struct Planned<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Clock<E> {
    pub(crate) const fn new() -> Self {
        Self {
            now: Time::ZERO,
            planned: 0,
            to_come: BinaryHeap::new(),
        }
    }

    pub(crate) fn plan(&mut self, at: Time, event: E) {
        self.planned += 1;
        self.to_come.push(Planned {
            at: at.max(self.now),
            number: self.planned,
            event,
        });
    }

    /// When the next thing happens.
    pub(crate) fn next(&self) -> Option<Time> {
        self.to_come.peek().map(|planned| planned.at)
    }

    /// Jumps to it.
    pub(crate) fn pop(&mut self) -> Option<E> {
        let planned = self.to_come.pop()?;
        self.now = planned.at;
        Some(planned.event)
    }

    /// Jumps to `at`, before which nothing happens.
    pub(crate) fn jump(&mut self, at: Time) {
        debug_assert!(self.next().is_none_or(|next| at <= next));
        self.now = self.now.max(at);
    }
}

impl<E> Ord for Planned<E> {
    /// The largest of the heap is the next to happen.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Planned<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn what_is_planned_for_one_instant_happens_in_the_order_of_planning() {
        let mut clock = Clock::new();
        for (at, event) in [(5, 'b'), (3, 'a'), (5, 'c'), (9, 'e'), (5, 'd')] {
            clock.plan(Time(at), event);
        }
        let mut seen = Vec::new();
        while let Some(event) = clock.pop() {
            seen.push((clock.now.0, event));
            if event == 'd' {
                clock.plan(Time(1), 'x');
            }
        }
        let wanted = [(3, 'a'), (5, 'b'), (5, 'c'), (5, 'd'), (5, 'x'), (9, 'e')];
        assert_eq!(seen, wanted);
    }
}
