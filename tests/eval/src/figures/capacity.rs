//! Fig. 7(b): sets of five tasks on a GPU that has less and less memory.

use rtswap_policy::units::Bytes;

use super::approach::{Approach, Judge};
use super::generate::Growing;

/// "each with 5 tasks".
const TASKS: usize = 5;
/// "from 0% to 70%".
pub const MOST: u64 = 70;

/// What one approach makes of the sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// How many sets are admitted at each reduction, from 0 % on in steps of `step`.
    pub admitted: Vec<u32>,
    /// Of the sets that it admits at 0 %, the mean of the last reduction in percent at which they
    /// are; none if it admits none.
    pub sustained: Option<f64>,
    /// The same over all sets that RT-Swap admits at 0 %; those that this approach does not admit
    /// count as zero.
    pub sustained_of_all: Option<f64>,
}

/// All curves, in the order of [`Approach::ALL`]; `step` in percent.
pub fn curves(judge: &Judge, sets: &[Growing], step: u64) -> [Curve; 5] {
    let full = judge.reading().capacity;
    let reductions: Vec<u64> = (0..=MOST).step_by(step as usize).collect();
    // The last reduction at which each set is admitted.
    let reached = Approach::ALL.map(|approach| -> Vec<Option<u64>> {
        let admits = |set: &Growing, reduction: u64| {
            let capacity = Bytes(full.0 / 100 * (100 - reduction));
            judge.admits(approach, set.of(TASKS), capacity)
        };
        // Less memory never helps, so the first refusal is the end.
        let last = |set| {
            reductions
                .iter()
                .copied()
                .take_while(|it| admits(set, *it))
                .last()
        };
        sets.iter().map(last).collect()
    });
    let [rtswap, ..] = &reached;
    reached.each_ref().map(|reached| {
        let at = |reduction| {
            reached
                .iter()
                .filter(|last| **last >= Some(reduction))
                .count()
        };
        let of_all = rtswap
            .iter()
            .zip(reached)
            .filter(|(best, _)| best.is_some());
        Curve {
            admitted: reductions.iter().map(|it| at(*it) as u32).collect(),
            sustained: mean(reached.iter().copied().flatten()),
            sustained_of_all: mean(of_all.map(|(_, last)| last.unwrap_or(0))),
        }
    })
}

fn mean(values: impl Iterator<Item = u64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u64, 0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use rtswap_policy::admission::Test;

    use super::*;
    use crate::figures::approach::Assumptions;
    use crate::figures::tasks::{draw, row};

    #[test]
    fn curves_begin_where_the_row_of_five_tasks_is_and_only_fall() {
        let judge = Judge::new(Test::Theorem1, Assumptions::default(), 1);
        let sets = draw(11, 12);
        let row = row(&judge, &sets, TASKS);
        let curves = curves(&judge, &sets, 10);
        for (curve, admitted) in curves.iter().zip(row.admitted) {
            assert_eq!(curve.admitted.len(), 8);
            assert_eq!(curve.admitted[0], admitted);
            assert!(curve.admitted.is_sorted_by(|a, b| a >= b));
            // Every set that is still admitted at a reduction adds ten percent to the sum.
            let sum: u32 = curve.admitted[1..].iter().sum();
            let mean = (admitted > 0).then(|| f64::from(10 * sum) / f64::from(admitted));
            assert_eq!(curve.sustained, mean);
        }
    }

    #[test]
    fn the_mean_of_nothing_is_nothing() {
        assert_eq!(mean(std::iter::empty()), None);
        assert_eq!(mean([1, 2].into_iter()), Some(1.5));
    }
}
