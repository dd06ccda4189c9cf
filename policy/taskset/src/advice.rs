//! What would make a set fit: how much less of one footprint, how much more of one period, or of
//! all. Each is found by bisection with the test itself, in thousandths, and in figures that are
//! short enough to be written whole: what is written is what was tried.

use std::cmp::Reverse;

use rtswap_policy::assign::Demand;
use rtswap_policy::task::Timing;
use rtswap_policy::units::{Bytes, Nanos};

/// Tasks looked at: of a large set not every one.
const MOST_TASKS: usize = 8;
/// Longer by more than this many thousandths, a period is another task.
const MOST_STRETCH: u64 = 100_000;

const MIB: Bytes = Bytes(1 << 20);
const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

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
        |place, amount| with(place, smaller(&demands[place], Bytes(amount))),
        |place, thousandths| less(demands[place].memory.footprint, thousandths).0,
        1_000,
    );
    let period = best(
        first(demands, |d| d.timing.deadline),
        |place, amount| with(place, longer(&demands[place], Nanos(amount))),
        |place, thousandths| more(demands[place].timing.period, thousandths).0,
        MOST_STRETCH,
    );
    let stretch = least(MOST_STRETCH, |thousandths| {
        let all: Vec<_> = demands.iter().map(|d| stretched(d, thousandths)).collect();
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

/// Of `places` the one that needs the least, and how much: what `of` makes of a number of
/// thousandths.
fn best(
    places: Vec<usize>,
    fits: impl Fn(usize, u64) -> bool,
    of: impl Fn(usize, u64) -> u64,
    most: u64,
) -> Option<(usize, u64)> {
    let mut best: Option<(usize, u64)> = None;
    for place in places {
        // Only what is less than the best so far is of use.
        let most = best.map_or(most, |(_, amount)| {
            least(most, |thousandths| of(place, thousandths) >= amount).map_or(most, |n| n - 1)
        });
        if let Some(thousandths) = least(most, |n| fits(place, of(place, n))) {
            best = Some((place, of(place, thousandths)));
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

/// So many thousandths of a footprint: whole MiB from one on, and never more than there is.
fn less(footprint: Bytes, thousandths: u64) -> Bytes {
    match Bytes(part(footprint.0, thousandths)) {
        part if part < MIB => part,
        part => part.round_up(MIB).min(footprint),
    }
}

/// So many thousandths of a period: whole microseconds from a millisecond on.
fn more(period: Nanos, thousandths: u64) -> Nanos {
    match part(period.0, thousandths) {
        part if part < MILLI => Nanos(part),
        part => Nanos(part.checked_next_multiple_of(MICRO).unwrap_or(part)),
    }
}

fn smaller(demand: &Demand, by: Bytes) -> Demand {
    let mut demand = *demand;
    let memory = &mut demand.memory;
    memory.footprint = memory.footprint.saturating_sub(by);
    memory.swappable = memory.swappable.saturating_sub(by);
    demand
}

fn longer(demand: &Demand, by: Nanos) -> Demand {
    let mut demand = *demand;
    let timing = &mut demand.timing;
    timing.deadline = extended(timing, by);
    timing.period += by;
    demand
}

/// The deadline in proportion to a period that is longer `by` so much: whole microseconds from a
/// millisecond more on.
fn extended(timing: &Timing, by: Nanos) -> Nanos {
    if timing.deadline == timing.period {
        return timing.period + by;
    }
    let more =
        u128::from(timing.deadline.0) * u128::from(by.0) / u128::from(timing.period.0.max(1));
    let more = u64::try_from(more).unwrap_or(u64::MAX);
    let exact = timing.deadline + Nanos(more);
    if more < MILLI {
        exact
    } else {
        Nanos(exact.0 - exact.0 % MICRO)
    }
}

/// Period and deadline longer by so many thousandths, rounded down as a file's are.
fn stretched(demand: &Demand, thousandths: u64) -> Demand {
    let mut demand = *demand;
    let longer = |span: Nanos| {
        let span = u128::from(span.0) * u128::from(1_000 + thousandths) / 1_000;
        Nanos(u64::try_from(span).unwrap_or(u64::MAX))
    };
    let timing = &mut demand.timing;
    timing.period = longer(timing.period);
    timing.deadline = longer(timing.deadline);
    demand
}

impl Advice {
    /// The timings of `demands` with the one longer period, or else all of them longer; none where neither makes them fit.
    pub fn timings(&self, demands: &[Demand]) -> Option<Vec<Timing>> {
        let mut demands = demands.to_vec();
        match (self.period, self.stretch) {
            (Some((place, by)), _) => demands[place] = longer(&demands[place], by),
            (None, Some(thousandths)) => {
                for demand in &mut demands {
                    *demand = stretched(demand, thousandths);
                }
            }
            (None, None) => return None,
        }
        Some(demands.iter().map(|demand| demand.timing).collect())
    }

    /// In words that, taken literally, make `demands` fit; names by `name`.
    pub fn describe<'a>(&self, demands: &[Demand], name: impl Fn(usize) -> &'a str) -> String {
        let footprint = self.footprint.map(|(task, bytes)| {
            let swappable = match demands[task].memory.swappable {
                Bytes::ZERO => "",
                swappable if swappable <= bytes => ", none of it swappable",
                _ => ", and as much less of it swappable",
            };
            format!(
                "{} less footprint of {}{swappable}",
                size(bytes),
                name(task)
            )
        });
        let period = self.period.map(|(task, by)| {
            let (timing, name) = (&demands[task].timing, name(task));
            let span = exact_millis(by);
            if timing.deadline == timing.period {
                return format!("{span} ms more period and deadline of {name}");
            }
            let deadline = exact_millis(extended(timing, by));
            format!(
                "{span} ms more period of {name} and its deadline in proportion, to {deadline} ms"
            )
        });
        let stretch = self.stretch.map(|thousandths| {
            format!(
                "all periods and deadlines longer by {}.{} %",
                thousandths / 10,
                thousandths % 10
            )
        });
        let ways: Vec<_> = [footprint, period, stretch].into_iter().flatten().collect();
        if !ways.is_empty() {
            return format!("it would fit with {}", ways.join(", or with "));
        }
        let of = if demands.len() > MOST_TASKS {
            format!("of the {MOST_TASKS} tasks of each kind that were tried")
        } else {
            String::from("of one task")
        };
        format!(
            "no smaller footprint {of} would make it fit, no period up to {} times as long, and no \
             longer periods of all: leave a task out or use a larger GPU",
            MOST_STRETCH / 1_000 + 1
        )
    }
}

/// All of it.
fn size(bytes: Bytes) -> String {
    if bytes.round_down(MIB) == bytes {
        format!("{} MiB", bytes.chunks(MIB))
    } else {
        format!("{} bytes", bytes.0)
    }
}

/// All of a time, in ms.
pub fn exact_millis(span: Nanos) -> String {
    let text = format!("{}.{:06}", span.0 / MILLI, span.0 % MILLI);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rtswap_policy::admission::{Platform, Test};
    use rtswap_policy::assign::{Objective, assign};
    use rtswap_policy::cost::{DirectionCost, SwapCost};
    use rtswap_policy::task::MemoryProfile;
    use rtswap_policy::units::Ppm;

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

    /// Sets of the sizes of real ones, with digits that no rounding leaves alone.
    fn real_sets() -> impl Strategy<Value = Vec<Demand>> {
        let bytes = 1_u64..6 << 30;
        let task = (
            1_000_000_u64..900_000_000,
            40_u64..=140,
            1_u64..40,
            bytes,
            0_u64..=120,
        );
        let task = task.prop_map(|(period, share, wcet, footprint, swappable)| {
            let deadline = period * share.min(100) / 100;
            Demand {
                timing: Timing {
                    period: Nanos(period),
                    deadline: Nanos(deadline),
                    wcet: Nanos((deadline * wcet / 100).max(1)),
                },
                memory: MemoryProfile {
                    footprint: Bytes(footprint),
                    swappable: Bytes(footprint * swappable.min(100) / 100),
                },
            }
        });
        prop::collection::vec(task, 1..6)
    }

    /// `text` up to `unit` in that unit, which has `digits` decimal places.
    fn figure<'a>(text: &'a str, unit: &str, digits: usize) -> (u64, &'a str) {
        let (number, rest) = text.split_once(unit).unwrap();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        assert!(fraction.len() <= digits, "{number}");
        (
            format!("{whole}{fraction:0<digits$}").parse().unwrap(),
            rest,
        )
    }

    /// Does what one way of an advice says, word for word.
    fn obey(way: &str, demands: &mut [Demand]) {
        if let Some(percent) = way.strip_prefix("all periods and deadlines longer by ") {
            let (tenths, _) = figure(percent, " %", 1);
            for Demand { timing, .. } in demands {
                for span in [&mut timing.period, &mut timing.deadline] {
                    let longer = u128::from(span.0) * u128::from(1_000 + tenths) / 1_000;
                    span.0 = longer.try_into().unwrap();
                }
            }
            return;
        }
        if way.contains(" less footprint of ") {
            let (by, rest) = if way.contains(" MiB less") {
                let (mib, rest) = figure(way, " MiB less footprint of ", 0);
                (Bytes(mib << 20), rest)
            } else {
                let (bytes, rest) = figure(way, " bytes less footprint of ", 0);
                (Bytes(bytes), rest)
            };
            let (name, swappable) = rest.split_once(", ").unwrap_or((rest, ""));
            let memory = &mut demands[name.parse::<usize>().unwrap()].memory;
            memory.footprint -= by;
            match swappable {
                "" => assert_eq!(memory.swappable, Bytes::ZERO),
                "none of it swappable" => memory.swappable = Bytes::ZERO,
                "and as much less of it swappable" => memory.swappable -= by,
                other => panic!("{other}"),
            }
            return;
        }
        let (by, rest) = figure(way, " ms more period", 6);
        let (name, deadline) = if let Some(name) = rest.strip_prefix(" and deadline of ") {
            (name, None)
        } else {
            let rest = rest.strip_prefix(" of ").unwrap();
            let (name, to) = rest
                .split_once(" and its deadline in proportion, to ")
                .unwrap();
            (name, Some(figure(to, " ms", 6).0))
        };
        let timing = &mut demands[name.parse::<usize>().unwrap()].timing;
        timing.period += Nanos(by);
        timing.deadline = deadline.map_or(timing.deadline + Nanos(by), Nanos);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn what_is_written_makes_it_fit(
            demands in real_sets(),
            gib in 1_u64..12,
            power in 1_u64..8,
            base in 0_u64..2_000_000,
        ) {
            let mut cost = SwapCost::PAPER;
            cost.out.base = Nanos(base);
            cost.in_.base = Nanos(base);
            let platform = Platform { cost, chunk: Bytes((1 << 20) << power), ..platform() };
            let names = ["0", "1", "2", "3", "4", "5"];
            for test in [Test::Theorem1, Test::Demand, Test::Pipelined] {
                let fits = |demands: &[Demand]| {
                    assign(test, &platform, Bytes(gib << 30), demands, Objective::Time).is_ok()
                };
                if fits(&demands) {
                    continue;
                }
                let advice = advise(&demands, fits);
                let said = advice.describe(&demands, |place| names[place]);
                let Some(ways) = said.strip_prefix("it would fit with ") else {
                    prop_assert_eq!(advice, Advice::default());
                    continue;
                };
                for way in ways.split(", or with ") {
                    let mut demands = demands.clone();
                    obey(way, &mut demands);
                    let timings = demands.iter().map(|d| d.timing);
                    prop_assert!(timings.into_iter().all(|t| t.deadline <= t.period), "{}", way);
                    prop_assert!(fits(&demands), "{}", way);
                }
            }
        }
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
                    prop_assert!(with(place, smaller(task, Bytes(amount))));
                    prop_assert!(!with(place, smaller(task, Bytes(amount - step))));
                }
                if let Some((place, Nanos(amount))) = advice.period {
                    let task = &demands[place];
                    let rounding = if amount < MILLI { 0 } else { MICRO };
                    let step = task.timing.period.0 / 1_000 + rounding;
                    prop_assert!(with(place, longer(task, Nanos(amount))));
                    prop_assert!(!with(place, longer(task, Nanos(amount - step))));
                }
                if let Some(timings) = advice.timings(&demands) {
                    let mut longer = demands.clone();
                    for (demand, timing) in longer.iter_mut().zip(timings) {
                        demand.timing = timing;
                    }
                    prop_assert!(fits(&longer));
                }
                if let Some(thousandths) = advice.stretch {
                    let all = |thousandths| -> Vec<_> {
                        demands.iter().map(|d| stretched(d, thousandths)).collect()
                    };
                    prop_assert!(fits(&all(thousandths)));
                    prop_assert!(!fits(&all(thousandths - 1)));
                }
                let said = advice.describe(&demands, |_| "it");
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
            advice.describe(&demands, |_| "large"),
            "it would fit with 10000 bytes less footprint of large, and as much less of it swappable"
        );
    }

    #[test]
    fn what_was_not_tried_is_not_claimed() {
        let timing = Timing {
            period: Nanos(1),
            deadline: Nanos(1),
            wcet: Nanos(1),
        };
        let memory = MemoryProfile::default();
        let demands = [Demand { timing, memory }; MOST_TASKS + 1];
        let said = |demands| Advice::default().describe(demands, |_| "it");
        let begin = "no smaller footprint of one task would make it fit, no period up to 101 times";
        assert!(said(&demands[1..]).starts_with(begin));
        let begin = "no smaller footprint of the 8 tasks of each kind that were tried would";
        assert!(said(&demands).starts_with(begin));
    }
}
