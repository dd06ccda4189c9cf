//! Which task has held the GPU, as far back as a waiting job may ask which one it waited for longest.

use alloc::collections::VecDeque;

use crate::task::TaskId;
use crate::units::{Nanos, Time};

/// The most spans that are kept; the oldest is forgotten first.
const REMEMBERED: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Held {
    task: TaskId,
    since: Time,
    until: Time,
}

impl Held {
    /// How much of it lies after `from`.
    fn after(&self, from: Time) -> Nanos {
        self.until - self.since.max(from)
    }
}

/// Spans in the order of their ends. A span is dropped when a longer one ends after it: a job that
/// waited through a part of the shorter span has waited through more of the longer one.
#[derive(Clone, Debug)]
pub(crate) struct Holders(VecDeque<Held>);

impl Holders {
    pub(crate) fn new() -> Self {
        Self(VecDeque::with_capacity(REMEMBERED))
    }

    /// `task` held the GPU from `since` to `until`, the latest end so far.
    pub(crate) fn note(&mut self, task: TaskId, since: Time, until: Time) {
        let held = Held { task, since, until };
        let span = held.after(Time::ZERO);
        if span == Nanos::ZERO {
            return;
        }
        while self
            .0
            .back()
            .is_some_and(|last| last.after(Time::ZERO) < span)
        {
            self.0.pop_back();
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(held);
    }

    /// The task that held the GPU longest, without a break, after `from`.
    pub(crate) fn longest(&self, from: Time) -> Option<TaskId> {
        let first = self.0.partition_point(|held| held.until <= from);
        let mut longest: Option<&Held> = None;
        for held in self.0.range(first..) {
            if longest.is_none_or(|longest| held.after(from) > longest.after(from)) {
                longest = Some(held);
            }
            // None of the later ones is longer.
            if held.since >= from {
                break;
            }
        }
        longest.map(|held| held.task)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_names_a_longest_holder(
            spans in prop::collection::vec((1_u64..20, 0_u64..5), 1..100),
            overlap in any::<bool>(),
            from in 0_u64..1_000,
        ) {
            let mut holders = Holders::new();
            let mut all = Vec::new();
            let mut end = 0;
            for (id, (length, gap)) in (0..).zip(spans) {
                let since = if overlap { end } else { end + gap };
                end = (since + length).max(end);
                let since = if overlap { since.saturating_sub(3 * gap) } else { since };
                let held = Held { task: TaskId(id), since: Time(since), until: Time(end) };
                all.push(held);
                holders.note(held.task, held.since, held.until);
            }
            let spans = all.iter().map(|held| held.after(Time(from))).max().unwrap();
            let told = holders.longest(Time(from)).map(|id| all[id.0 as usize].after(Time(from)));
            prop_assert_eq!(told.unwrap_or(Nanos::ZERO), spans);
        }
    }
}
