//! Whether swaps take as long as the cost model says: every promise rests on it.
//!
//! An operation is compared with its bound O(x,δ) if all its chunks were copied, it waited for no memory and its process is
//! the only one of its task. The bound is that with the other copy engine loaded, so that most operations are faster. A
//! process that dawdles makes a false note, which the log then ascribes to its task; nothing else follows from it.

use alloc::format;
use alloc::string::String;

use rtswap_policy::scheduler::{Config, Direction};
use rtswap_policy::units::{Nanos, Time};

use crate::config::CostSource;
use crate::sessions::EndedSwap;

/// The operations of each direction that count.
const WINDOW: usize = 10;
/// So many of them beyond the bound are no accident of a busy machine.
const MANY: usize = 5;
/// In per cent of the bound.
const SLOW: u32 = 125;
/// What the host may add to each operation: a chunk of 2 MiB takes less than that.
const SLACK: Nanos = Nanos(2_000_000);

/// How long the last operations took.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    out: Way,
    in_: Way,
}

/// How long those of one direction took.
#[derive(Debug, Default)]
struct Way {
    /// In per cent of the bound, 0 for one that kept it; the first `known` of them.
    last: [u32; WINDOW],
    known: usize,
    /// Where the next one goes.
    next: usize,
    /// The median of those that were slow when it was noticed, in per cent; none while they are as their costs say.
    slow: Option<u32>,
}

impl Pace {
    /// Compares an operation that has just ended with its bound. True if that changes what [`Self::notes`] says.
    pub(in crate::engine) fn record(
        &mut self,
        now: Time,
        ended: &EndedSwap,
        config: &Config,
    ) -> bool {
        if !ended.is_comparable() {
            return false;
        }
        let (way, cost) = match ended.direction {
            Direction::Out => (&mut self.out, &config.swap_cost.out),
            Direction::In => (&mut self.in_, &config.swap_cost.in_),
        };
        // No longer than by our own clock.
        let took = ended.report.took.min(now - ended.since);
        let bound = cost.bound(ended.left, config.chunk).slowed(config.duplex);
        way.record(took, bound)
    }

    /// For each direction that is slower than its costs, a sentence that says so and what to do about costs of this
    /// `source`.
    pub(crate) fn notes(&self, source: CostSource) -> impl Iterator<Item = String> {
        let ways = [(&self.out, "out"), (&self.in_, "in")];
        let notes = ways.into_iter();
        notes.filter_map(move |(way, name)| way.note(name, source))
    }
}

impl Way {
    fn record(&mut self, took: Nanos, bound: Nanos) -> bool {
        let percent = u128::from(took.0) * 100 / u128::from(bound.0.max(1));
        let percent = u32::try_from(percent).unwrap_or(u32::MAX);
        let is_slow = percent > SLOW && took > bound + SLACK;
        self.last[self.next] = if is_slow { percent } else { 0 };
        self.next = (self.next + 1) % WINDOW;
        self.known = (self.known + 1).min(WINDOW);
        self.review()
    }

    fn review(&mut self) -> bool {
        let mut slow = self.last;
        slow.sort_unstable();
        let first = slow.partition_point(|percent| *percent == 0);
        let slow = &slow[first..];
        match self.slow {
            None if slow.len() >= MANY => self.slow = Some(slow[slow.len() / 2]),
            // Once it was said, fewer keep it so.
            Some(_) if slow.len() < MANY / 2 => self.slow = None,
            _ => return false,
        }
        true
    }

    fn note(&self, name: &str, source: CostSource) -> Option<String> {
        let times = f64::from(self.slow?) / 100.0;
        let instead = match source {
            CostSource::Configured => {
                format!("correct gpu.swap_cost.{name} of rtswapd.toml")
            }
            CostSource::Calibrated => "run `rtswapctl calibrate` again".into(),
            CostSource::Assumed => "run `rtswapctl calibrate`".into(),
        };
        Some(format!(
            "swaps {name} take longer than their cost says ({times:.1} times, by the median of {MANY} slow ones when \
             that was noticed): no deadline is sure; {instead}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use rtswap_policy::scheduler::{SwapOutcome, SwapSeq};
    use rtswap_policy::units::Bytes;

    use super::*;
    use crate::Uuid;
    use crate::config::{GpuConfig, SchedulerConfig};
    use crate::input::SwapReport;

    fn config() -> Config {
        GpuConfig::learned(Uuid::of([1; 16])).scheduler(&SchedulerConfig::default())
    }

    fn left() -> Bytes {
        Bytes(4 * config().chunk.0)
    }

    fn ended(direction: Direction, took: Nanos) -> EndedSwap {
        EndedSwap {
            direction,
            report: SwapReport {
                op: SwapSeq(1),
                outcome: SwapOutcome::Done,
                took,
                moved: left(),
            },
            since: Time(0),
            left: left(),
            waits: false,
        }
    }

    /// After operations out that took so many per cent of their bound, and whether each changed the notes.
    fn after(percents: impl IntoIterator<Item = u64>) -> (Pace, Vec<bool>) {
        let (mut pace, config) = (Pace::default(), config());
        let bound = config.swap_cost.out.bound(left(), config.chunk);
        let records = percents.into_iter().map(|percent| {
            let took = Nanos(bound.0 * percent / 100 + 1);
            pace.record(Time::MAX, &ended(Direction::Out, took), &config)
        });
        let records = records.collect();
        (pace, records)
    }

    #[test]
    fn a_link_that_became_slower_is_noted_within_ten_swaps() {
        let (pace, changes) = after([90; 25].into_iter().chain([200; 10]));
        let changed = changes.iter().positions();
        assert_eq!(changed, [29], "the fifth slow one");
        let notes: Vec<_> = pace.notes(CostSource::Calibrated).collect();
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0].starts_with("swaps out take longer than their cost says (2.0 times")
                && notes[0].ends_with("run `rtswapctl calibrate` again"),
            "{notes:?}"
        );
        let configured = pace.notes(CostSource::Configured).next().unwrap();
        assert!(configured.ends_with("gpu.swap_cost.out of rtswapd.toml"));
        let (pace, changes) = after([200; 10].into_iter().chain([90; 9]));
        assert_eq!(changes.iter().positions(), [4, 18]);
        assert_eq!(pace.notes(CostSource::Calibrated).count(), 0);
    }

    trait Positions {
        fn positions(self) -> Vec<usize>;
    }

    impl<'a, I: Iterator<Item = &'a bool>> Positions for I {
        fn positions(self) -> Vec<usize> {
            let changed = self.enumerate().filter(|(_, changed)| **changed);
            changed.map(|(at, _)| at).collect()
        }
    }

    #[test]
    fn a_few_late_ones_are_no_departure() {
        let (pace, changes) = after([90, 500, 80, 90, 300, 100, 124, 60, 200, 90].repeat(3));
        assert_eq!(changes, [false; 30]);
        assert_eq!(pace.notes(CostSource::Calibrated).count(), 0);
    }

    #[test]
    fn what_the_host_adds_to_a_small_swap_is_no_departure() {
        let (mut pace, config) = (Pace::default(), config());
        let chunk = config.swap_cost.out.bound(config.chunk, config.chunk);
        let mut small = ended(Direction::Out, chunk + SLACK);
        (small.left, small.report.moved) = (config.chunk, config.chunk);
        for _ in 0..20 {
            assert!(!pace.record(Time::MAX, &small, &config));
        }
    }

    #[test]
    fn only_whole_operations_that_waited_for_nobody_count() {
        let (mut pace, config) = (Pace::default(), config());
        let slow = ended(Direction::In, Nanos(u64::MAX));
        let mut aborted = slow;
        aborted.report.outcome = SwapOutcome::Aborted;
        let mut clean = slow;
        clean.report.moved = config.chunk;
        let mut nothing = slow;
        (nothing.left, nothing.report.moved) = (Bytes::ZERO, Bytes::ZERO);
        let waiting = EndedSwap {
            waits: true,
            ..slow
        };
        for ended in [aborted, clean, waiting, nothing].repeat(10) {
            assert!(!pace.record(Time::MAX, &ended, &config));
        }
        // By our clock it took no time.
        for _ in 0..10 {
            assert!(!pace.record(Time(1), &slow, &config));
        }
        let noted = (0..5).any(|_| pace.record(Time::MAX, &slow, &config));
        assert!(noted);
        assert_eq!(pace.notes(CostSource::Calibrated).count(), 1);
    }
}
