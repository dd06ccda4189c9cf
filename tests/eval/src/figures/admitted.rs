//! How many of the sets of Fig. 7(a) each admission test admits.

use rtswap_policy::admission::{Platform, Test};
use rtswap_policy::assign::{Assignment, Demand, Infeasible, Objective, assign_any_chunk};
use rtswap_policy::units::Ppm;

use super::approach::platform;
use super::generate::Growing;
use super::workload::{Reading, Work};
use crate::baselines::link::{PINNED, SMALLEST_CHUNK};

/// A test, with ρ where it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Which.
    pub test: Test,
    /// ρ.
    pub duplex: Ppm,
}

/// The tests that are compared, `pipelined` at ρ = 0.8 and 1; the first is the one that the others are held against.
pub const COLUMNS: [Column; 4] = [
    column(Test::Theorem1, 1_000_000),
    column(Test::Demand, 1_000_000),
    column(Test::Pipelined, 800_000),
    column(Test::Pipelined, 1_000_000),
];

const fn column(test: Test, duplex: u32) -> Column {
    Column {
        test,
        duplex: Ppm(duplex),
    }
}

/// How many of `sets` (each with 4 to 13 tasks) the test of `column` admits, without bases and
/// without best-effort.
pub fn count(column: Column, reading: &Reading, sets: &[Growing]) -> u32 {
    sets.iter()
        .flat_map(|set| Growing::sizes().map(move |tasks| set.of(tasks)))
        .map(|set| u32::from(column.plan(reading, &demands(reading, set)).is_ok()))
        .sum()
}

fn demands(reading: &Reading, set: &[Work]) -> Vec<Demand> {
    set.iter().map(|work| work.demand(reading)).collect()
}

impl Column {
    fn platform(self) -> Platform {
        Platform {
            duplex: self.duplex,
            ..platform(PINNED, SMALLEST_CHUNK)
        }
    }

    fn plan(self, reading: &Reading, demands: &[Demand]) -> Result<Assignment, Infeasible> {
        let (platform, capacity) = (self.platform(), reading.capacity);
        assign_any_chunk(self.test, &platform, capacity, demands, Objective::Time)
    }
}

#[cfg(test)]
mod tests {
    use rtswap_policy::assign::assign;
    use rtswap_policy::units::Bytes;

    use super::*;
    use crate::figures::approach::{Approach, Assumptions, Judge};
    use crate::figures::tasks::{draw, row};

    #[test]
    fn the_first_column_is_rtswap_and_the_others_admit_no_less() {
        let reading = Reading::default();
        let sets = draw(11, 10);
        let counts = COLUMNS.map(|column| count(column, &reading, &sets));
        let judge = Judge::new(Test::Theorem1, Assumptions::default(), 1);
        let place = Approach::ALL.iter().position(|a| *a == Approach::RtSwap);
        let rows = Growing::sizes().map(|tasks| row(&judge, &sets, tasks));
        let sum: u32 = rows.map(|row| row.admitted[place.unwrap()]).sum();
        assert_eq!(counts[0], sum);
        assert!(counts.is_sorted(), "{counts:?}");
    }

    /// A refusal under `demand` or `pipelined` is one of ΣU > 1 whatever the volumes: with their E
    /// no test could admit more.
    #[test]
    fn the_tests_admit_all_that_can_be_and_more_each() {
        let reading = Reading::default();
        let mut admitted = [0_u32; COLUMNS.len()];
        for set in (1..=3).flat_map(|seed| draw(seed, 100)) {
            for tasks in Growing::sizes() {
                let demands = demands(&reading, set.of(tasks));
                let mut before = false;
                for (count, column) in admitted.iter_mut().zip(COLUMNS) {
                    let plan = column.plan(&reading, &demands);
                    assert!(plan.is_ok() || !before, "{column:?}");
                    before = plan.is_ok();
                    *count += u32::from(before);
                    if !before && column.test != Test::Theorem1 {
                        overloaded(column, &reading, &demands);
                    }
                }
            }
        }
        let [theorem1, demand, pipelined, full_duplex] = admitted;
        assert!(theorem1 > 1_500, "{admitted:?}");
        assert!(demand * 1_000 >= theorem1 * 1_100, "{admitted:?}");
        assert!(pipelined * 1_000 >= theorem1 * 1_500, "{admitted:?}");
        assert!(full_duplex * 1_000 >= theorem1 * 1_640, "{admitted:?}");
    }

    /// Where the memory can be had, the least ΣU is above 1, for every δ.
    fn overloaded(column: Column, reading: &Reading, demands: &[Demand]) {
        for power in 21..=28 {
            let platform = Platform {
                chunk: Bytes(1 << power),
                ..column.platform()
            };
            let capacity = reading.capacity;
            let plan = assign(column.test, &platform, capacity, demands, Objective::Time);
            if let Err(Infeasible::NotSchedulable(tried)) = plan {
                assert!(tried.analysis.utilization > 1.0, "{:?}", tried.analysis);
            }
        }
    }
}
