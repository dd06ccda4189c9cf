//! How many of the sets of Fig. 7(a) each admission test admits.

use alloc::vec::Vec;

use rtswap_policy::admission::{Platform, Test};
use rtswap_policy::assign::{Demand, Objective, assign_any_chunk};
use rtswap_policy::units::{Nanos, Ppm};

use super::generate::Growing;
use super::workload::Reading;
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
    let platform = Platform {
        cost: PINNED,
        chunk: SMALLEST_CHUNK,
        drain: Nanos::ZERO,
        dispatch_latency: Nanos::ZERO,
        duplex: column.duplex,
    };
    let admits = |demands: &[Demand]| {
        let capacity = reading.capacity;
        assign_any_chunk(column.test, &platform, capacity, demands, Objective::Time).is_ok()
    };
    sets.iter()
        .flat_map(|set| Growing::sizes().map(move |tasks| set.of(tasks)))
        .map(|set| set.iter().map(|w| w.demand(reading)).collect::<Vec<_>>())
        .map(|demands| u32::from(admits(&demands)))
        .sum()
}

#[cfg(test)]
mod tests {
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
}
