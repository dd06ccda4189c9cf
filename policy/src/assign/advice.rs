//! What would make a set fit: how much less of one footprint, how much more of one period, or of
//! all. Each is found by bisection with the test itself, in thousandths.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Demand;
use crate::units::{Bytes, Nanos};

/// Tasks looked at: of a large set not every one.
const MOST_TASKS: usize = 8;
/// Longer by more than this many thousandths, a period is another task.
const MOST_STRETCH: u64 = 100_000;

/// Each alone makes the set fit, and a thousandth less of it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// So much less footprint of this task, all of it swappable memory as far as it has any.
    pub footprint: Option<(usize, Bytes)>,
    /// So much more period of this task, its deadline longer in proportion.
    pub period: Option<(usize, Nanos)>,
    /// All periods and deadlines longer by so many thousandths.
    pub stretch: Option<u64>,
}

/// What would make `demands` fit, which do not; `fits` tells, by `assign` or `assign_any_chunk`.
pub fn advise(demands: &[Demand], fits: impl Fn(&[Demand]) -> bool) -> Advice {
    let with = |place: usize, changed: Demand| {
        let mut demands = demands.to_vec();
        demands[place] = changed;
        fits(&demands)
    };
    let footprint = best(
        first(demands, |d| Reverse(d.memory.footprint)),
        |place, amount| with(place, smaller(&demands[place], amount)),
        |place| demands[place].memory.footprint.0,
        1_000,
    );
    let period = best(
        first(demands, |d| d.timing.deadline),
        |place, amount| with(place, longer(&demands[place], amount)),
        |place| demands[place].timing.period.0,
        MOST_STRETCH,
    );
    let stretch = least(MOST_STRETCH, |thousandths| {
        let all: Vec<_> = demands
            .iter()
            .map(|d| longer(d, part(d.timing.period.0, thousandths)))
            .collect();
        fits(&all)
    });
    Advice {
        footprint: footprint.map(|(place, amount)| (place, Bytes(amount))),
        period: period.map(|(place, amount)| (place, Nanos(amount))),
        stretch,
    }
}

/// The tasks that matter most by `key`.
fn first<K: Ord>(demands: &[Demand], key: impl Fn(&Demand) -> K) -> Vec<usize> {
    let mut places: Vec<_> = (0..demands.len()).collect();
    places.sort_by_key(|&place| key(&demands[place]));
    places.truncate(MOST_TASKS);
    places
}

/// Of `places` the one that needs the least, and how much: a number of thousandths of its `whole`.
fn best(
    places: Vec<usize>,
    fits: impl Fn(usize, u64) -> bool,
    whole: impl Fn(usize) -> u64,
    most: u64,
) -> Option<(usize, u64)> {
    let mut best: Option<(usize, u64)> = None;
    for place in places {
        let whole = whole(place).max(1);
        // Only what is less than the best so far is of use.
        let most = best.map_or(most, |(_, amount)| {
            let below = u128::from(amount - 1) * 1_000 / u128::from(whole);
            u64::try_from(below).unwrap_or(most).min(most)
        });
        if let Some(thousandths) = least(most, |n| fits(place, part(whole, n))) {
            best = Some((place, part(whole, thousandths)));
        }
    }
    best
}

/// The least number up to `most` that is found to fit, one less not fitting.
fn least(most: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    if most == 0 || !fits(most) {
        return None;
    }
    let (mut low, mut high) = (0, most);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// So many thousandths, rounded up.
fn part(whole: u64, thousandths: u64) -> u64 {
    let part = (u128::from(whole) * u128::from(thousandths)).div_ceil(1_000);
    u64::try_from(part).unwrap_or(u64::MAX)
}

fn smaller(demand: &Demand, by: u64) -> Demand {
    let mut demand = *demand;
    let memory = &mut demand.memory;
    memory.footprint = memory.footprint.saturating_sub(Bytes(by));
    memory.swappable = memory.swappable.saturating_sub(Bytes(by));
    demand
}

fn longer(demand: &Demand, by: u64) -> Demand {
    let mut demand = *demand;
    let timing = &mut demand.timing;
    let deadline =
        u128::from(timing.deadline.0) * u128::from(by) / u128::from(timing.period.0.max(1));
    timing.deadline += Nanos(u64::try_from(deadline).unwrap_or(u64::MAX));
    timing.period += Nanos(by);
    demand
}

impl Advice {
    /// In words; names by `name`.
    pub fn describe<'a>(&self, name: impl Fn(usize) -> &'a str) -> String {
        let footprint = self
            .footprint
            .map(|(task, bytes)| format!("{bytes} less footprint of {}", name(task)));
        let period = self
            .period
            .map(|(task, span)| format!("{span} more period of {}", name(task)));
        let stretch = self
            .stretch
            .map(|thousandths| format!("all periods longer by {:.1} %", thousandths as f64 / 10.0));
        let ways: Vec<_> = [footprint, period, stretch].into_iter().flatten().collect();
        if ways.is_empty() {
            return String::from(
                "no smaller footprint or longer period of one task would make it fit, nor longer \
                 periods of all: leave a task out or use a larger GPU",
            );
        }
        format!("it would fit with {}", ways.join(", or with "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Platform, Test};
    use crate::assign::{Objective, assign};
    use crate::cost::{DirectionCost, SwapCost};
    use crate::task::{MemoryProfile, Timing};
    use crate::units::Ppm;
    use proptest::prelude::*;

    fn platform() -> Platform {
        let cost = DirectionCost {
            base: Nanos::ZERO,
            per_chunk: Nanos(1_000),
            bytes_per_second: 1_000_000_000,
        };
        Platform {
            cost: SwapCost {
                out: cost,
                in_: cost,
            },
            chunk: Bytes(1_000),
            drain: Nanos::ZERO,
            dispatch_latency: Nanos::ZERO,
            duplex: Ppm(800_000),
        }
    }

    fn sets() -> impl Strategy<Value = Vec<Demand>> {
        let task = (1_u64..60, 30_u64..=100, 0_u64..50, 1_u64..40, 0_u64..20);
        let task = task.prop_map(|(period, share, wcet, footprint, pinned)| {
            let period = period * 10_000;
            let deadline = period * share / 100;
            Demand {
                timing: Timing {
                    period: Nanos(period),
                    deadline: Nanos(deadline),
                    wcet: Nanos((deadline * wcet / 100).max(1)),
                },
                memory: MemoryProfile {
                    footprint: Bytes(footprint * 1_000),
                    swappable: Bytes(footprint.saturating_sub(pinned) * 1_000),
                },
            }
        });
        prop::collection::vec(task, 1..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn advice_taken_makes_it_fit_and_a_little_less_does_not(demands in sets()) {
            for test in [Test::Theorem1, Test::Demand, Test::Pipelined] {
                let fits = |demands: &[Demand]| {
                    assign(test, &platform(), Bytes(40_000), demands, Objective::Time).is_ok()
                };
                if fits(&demands) {
                    continue;
                }
                let advice = advise(&demands, fits);
                let with = |place: usize, changed| {
                    let mut demands = demands.clone();
                    demands[place] = changed;
                    fits(&demands)
                };
                if let Some((place, Bytes(amount))) = advice.footprint {
                    let task = &demands[place];
                    let step = task.memory.footprint.0 / 1_000;
                    prop_assert!(with(place, smaller(task, amount)));
                    prop_assert!(!with(place, smaller(task, amount - step)));
                }
                if let Some((place, Nanos(amount))) = advice.period {
                    let task = &demands[place];
                    let step = task.timing.period.0 / 1_000;
                    prop_assert!(with(place, longer(task, amount)));
                    prop_assert!(!with(place, longer(task, amount - step)));
                }
                if let Some(thousandths) = advice.stretch {
                    let all = |thousandths| -> Vec<_> {
                        let by = |d: &Demand| part(d.timing.period.0, thousandths);
                        demands.iter().map(|d| longer(d, by(d))).collect()
                    };
                    prop_assert!(fits(&all(thousandths)));
                    prop_assert!(!fits(&all(thousandths - 1)));
                }
                let said = advice.describe(|_| "it");
                prop_assert_eq!(advice == Advice::default(), said.starts_with("no smaller"));
            }
        }
    }

    #[test]
    fn a_task_larger_than_the_gpu_needs_that_much_less() {
        let timing = Timing {
            period: Nanos(1_000_000),
            deadline: Nanos(1_000_000),
            wcet: Nanos(10),
        };
        let memory = MemoryProfile {
            footprint: Bytes(50_000),
            swappable: Bytes(30_000),
        };
        let demands = [Demand { timing, memory }];
        let advice = advise(&demands, |demands| {
            assign(
                Test::Demand,
                &platform(),
                Bytes(40_000),
                demands,
                Objective::Time,
            )
            .is_ok()
        });
        assert_eq!(advice.footprint, Some((0, Bytes(10_000))));
        assert_eq!((advice.period, advice.stretch), (None, None));
        assert_eq!(
            advice.describe(|_| "large"),
            "it would fit with 10000 B less footprint of large"
        );
    }
}
