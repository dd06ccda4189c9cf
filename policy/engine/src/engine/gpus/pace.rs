//! Whether swaps take as long as the cost model says: every promise rests on it.
//!
//! An operation is compared with its bound O(x,δ) if all its chunks were copied and it waited for no memory. Costs are
//! measured with both copy engines loaded, so that most operations are faster than their bound. The time is the
//! agents' word: a false one makes a false note, and nothing else follows from it.

use alloc::format;
use alloc::string::String;

use rtswap_policy::cost::SwapCost;
use rtswap_policy::scheduler::Direction;
use rtswap_policy::units::{Bytes, Nanos};

use crate::sessions::EndedSwap;

/// The operations of each direction that count.
const WINDOW: usize = 10;
/// So many of them beyond [`SLOW`] are no accident of a busy machine.
const MANY: usize = 5;
/// In per cent of the bound.
const SLOW: u32 = 125;
/// A whole window below this, in per cent of the bound: loaded engines do not explain it.
const FAST: u32 = 40;

/// How long the last operations took.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    out: Way,
    in_: Way,
}

/// How long those of one direction took.
#[derive(Debug, Default)]
struct Way {
    /// In per cent of the bound, the first `known` of them.
    last: [u32; WINDOW],
    known: usize,
    /// Where the next one goes.
    next: usize,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    #[default]
    AsSaid,
    Slower,
    Faster,
}

impl Pace {
    /// Compares an operation on a GPU with these costs and swap chunks of `chunk` bytes. True if that changes what
    /// [`Self::notes`] says.
    pub(in crate::engine) fn record(
        &mut self,
        ended: &EndedSwap,
        cost: &SwapCost,
        chunk: Bytes,
    ) -> bool {
        if !ended.is_comparable() {
            return false;
        }
        let (way, cost) = match ended.direction {
            Direction::Out => (&mut self.out, &cost.out),
            Direction::In => (&mut self.in_, &cost.in_),
        };
        way.record(ended.report.took, cost.bound(ended.left, chunk))
    }

    /// For each direction that departs from its costs, a sentence that says so and what to do.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let ways = [(&self.out, "out"), (&self.in_, "in")];
        ways.into_iter().filter_map(|(way, name)| way.note(name))
    }
}

impl Way {
    fn record(&mut self, took: Nanos, bound: Nanos) -> bool {
        let percent = u128::from(took.0) * 100 / u128::from(bound.0.max(1));
        self.last[self.next] = u32::try_from(percent).unwrap_or(u32::MAX);
        self.next = (self.next + 1) % WINDOW;
        self.known = (self.known + 1).min(WINDOW);
        let verdict = self.judge();
        core::mem::replace(&mut self.verdict, verdict) != verdict
    }

    fn known(&self) -> &[u32] {
        &self.last[..self.known]
    }

    fn judge(&self) -> Verdict {
        let known = self.known();
        let slow = known.iter().filter(|percent| **percent > SLOW).count();
        let is_full = known.len() == WINDOW;
        // Once it was said, fewer keep it so.
        let many = match self.verdict {
            Verdict::Slower => MANY / 2,
            Verdict::AsSaid | Verdict::Faster => MANY,
        };
        if slow >= many {
            Verdict::Slower
        } else if is_full && known.iter().all(|percent| *percent < FAST) {
            Verdict::Faster
        } else {
            Verdict::AsSaid
        }
    }

    /// The median of the last ones, in per cent of the bound.
    fn median(&self) -> u32 {
        let mut sorted = self.last;
        let known = &mut sorted[..self.known];
        known.sort_unstable();
        known.get(known.len() / 2).copied().unwrap_or_default()
    }

    fn note(&self, name: &str) -> Option<String> {
        let follows = match self.verdict {
            Verdict::AsSaid => return None,
            Verdict::Slower => "no deadline is sure",
            Verdict::Faster => "more could be promised",
        };
        let times = f64::from(self.median()) / 100.0;
        Some(format!(
            "swaps {name} take {times:.1} times what their cost says, by the median of the last {}: {follows}; \
             measure gpu.swap_cost.{name} of rtswapd.toml",
            self.known
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use rtswap_policy::scheduler::{SwapOutcome, SwapSeq};

    use super::*;
    use crate::input::SwapReport;

    const CHUNK: Bytes = Bytes(2 << 20);

    fn ended(direction: Direction, took: Nanos) -> EndedSwap {
        EndedSwap {
            direction,
            report: SwapReport {
                op: SwapSeq(1),
                outcome: SwapOutcome::Done,
                took,
                moved: Bytes(4 * CHUNK.0),
            },
            left: Bytes(4 * CHUNK.0),
            waits: false,
        }
    }

    /// After operations out that took so many per cent of their bound.
    fn after(percents: impl IntoIterator<Item = u64>) -> (Pace, Vec<bool>) {
        let (mut pace, cost) = (Pace::default(), SwapCost::PAPER);
        let bound = cost.out.bound(Bytes(4 * CHUNK.0), CHUNK);
        let records = percents.into_iter().map(|percent| {
            let took = Nanos(bound.0 * percent / 100 + 1);
            pace.record(&ended(Direction::Out, took), &cost, CHUNK)
        });
        let records = records.collect();
        (pace, records)
    }

    #[test]
    fn a_link_that_became_slower_is_noted_within_ten_swaps() {
        let (pace, changes) = after([90; 25].into_iter().chain([200; 10]));
        let first = changes.iter().position(|changed| *changed).unwrap();
        assert_eq!(first - 25, 4, "the fifth slow one");
        let notes: Vec<_> = pace.notes().map(|note| note.to_string()).collect();
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0].starts_with(
                "swaps out take 2.0 times what their cost says, by the median of the last 10: no"
            ),
            "{notes:?}"
        );
        let (pace, changes) = after([200; 10].into_iter().chain([90; 9]));
        assert_eq!(changes.iter().filter(|changed| **changed).count(), 2);
        assert_eq!(pace.notes().count(), 0);
    }

    #[test]
    fn a_few_late_ones_are_no_departure() {
        let (pace, changes) = after([90, 500, 80, 90, 300, 100, 124, 60, 200, 90].repeat(3));
        assert_eq!(changes, [false; 30]);
        assert_eq!(pace.notes().count(), 0);
    }

    #[test]
    fn costs_far_beyond_the_swaps_are_noted() {
        let (pace, changes) = after([20; 10]);
        assert_eq!(changes.iter().position(|changed| *changed), Some(9));
        let note = pace.notes().next().unwrap();
        assert!(
            note.contains("0.2 times") && note.contains("more could be promised"),
            "{note}"
        );
        let (pace, _) = after([20, 20, 20, 20, 20, 20, 20, 20, 20, 60]);
        assert_eq!(pace.notes().count(), 0);
    }

    #[test]
    fn only_whole_operations_that_waited_for_nobody_count() {
        let (mut pace, cost) = (Pace::default(), SwapCost::PAPER);
        let slow = ended(Direction::In, Nanos(u64::MAX));
        let mut aborted = slow;
        aborted.report.outcome = SwapOutcome::Aborted;
        let mut clean = slow;
        clean.report.moved = CHUNK;
        let waiting = EndedSwap {
            waits: true,
            ..slow
        };
        let nothing = EndedSwap {
            left: Bytes::ZERO,
            ..slow
        };
        for ended in [aborted, clean, waiting, nothing].repeat(10) {
            assert!(!pace.record(&ended, &cost, CHUNK));
        }
        for _ in 0..5 {
            pace.record(&slow, &cost, CHUNK);
        }
        assert_eq!(pace.notes().count(), 1);
    }
}
