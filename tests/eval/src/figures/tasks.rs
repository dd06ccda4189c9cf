//! Fig. 7(a): how many sets of 4 to 13 tasks each approach admits.

use super::approach::{Approach, Judge};
use super::generate::Growing;
use super::workload::Work;
use rtswap_simulator::Rng;

/// The sets of one number of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Tasks in each set.
    pub tasks: usize,
    /// The mean of Σm − mᴰ in "GB", zero where it would be negative.
    pub overflow: f64,
    /// How many sets each approach admits, in the order of [`Approach::ALL`].
    pub admitted: [u32; 5],
}

/// The sets that a figure draws, from one seed.
pub fn draw(seed: u64, sets: u32) -> Vec<Growing> {
    let mut rng = Rng::new(seed);
    (0..sets).map(|_| Growing::draw(&mut rng)).collect()
}

/// One row: `tasks` of each of `sets`.
pub fn row(judge: &Judge, sets: &[Growing], tasks: usize) -> Row {
    let capacity = judge.reading().capacity;
    let mut admitted = [0; 5];
    let mut overflow = 0.0;
    for set in sets {
        let set = set.of(tasks);
        let footprint = judge.reading().tenths(set.iter().map(Work::tenths).sum());
        overflow += footprint.saturating_sub(capacity).0 as f64;
        for (count, approach) in admitted.iter_mut().zip(Approach::ALL) {
            *count += u32::from(judge.admits(approach, set, capacity));
        }
    }
    Row {
        tasks,
        overflow: overflow / judge.reading().gigabyte.0 as f64 / sets.len().max(1) as f64,
        admitted,
    }
}

/// Sets admitted over all rows, in the order of [`Approach::ALL`].
pub fn totals(rows: &[Row]) -> [u32; 5] {
    let mut totals = [0; 5];
    for row in rows {
        for (total, count) in totals.iter_mut().zip(row.admitted) {
            *total += count;
        }
    }
    totals
}
