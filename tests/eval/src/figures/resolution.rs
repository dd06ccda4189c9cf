//! Fig. 7(c): sets of ten tasks of which more and more are in high resolution.

use super::approach::{Approach, Judge};
use super::generate::{CONVERTED_TASKS, converted};
use super::workload::Work;
use rtswap_simulator::Rng;

/// What one approach makes of the sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// How many sets are admitted with 0, 1 … 10 tasks in high resolution.
    pub admitted: Vec<u32>,
    /// The mean, over all sets, of the share of tasks that can be in high resolution, in percent.
    pub enabled: f64,
}

/// The sets of the figure: each a series of eleven.
pub fn draw(seed: u64, sets: u32) -> Vec<Vec<Vec<Work>>> {
    let mut rng = Rng::new(seed);
    (0..sets).map(|_| converted(&mut rng)).collect()
}

/// All curves, in the order of [`Approach::ALL`].
pub fn curves(judge: &Judge, series: &[Vec<Vec<Work>>]) -> [Curve; 5] {
    let capacity = judge.reading().capacity;
    let curve = |approach| {
        let mut admitted = vec![0; CONVERTED_TASKS + 1];
        let mut enabled = 0_u32;
        for sets in series {
            // The most that is admitted with all before it.
            let admits = |set: &&Vec<Work>| judge.admits(approach, set, capacity);
            let count = sets.iter().take_while(admits).count();
            admitted[..count].iter_mut().for_each(|sets| *sets += 1);
            enabled += count.saturating_sub(1) as u32;
        }
        let most = (CONVERTED_TASKS * series.len()).max(1);
        Curve {
            admitted,
            enabled: 100.0 * f64::from(enabled) / most as f64,
        }
    };
    Approach::ALL.map(curve)
}

#[cfg(test)]
mod tests {
    use rtswap_policy::admission::Test;

    use super::*;
    use crate::figures::approach::Assumptions;

    #[test]
    fn what_is_enabled_is_what_the_curve_holds() {
        let judge = Judge::new(Test::Theorem1, Assumptions::default(), 1);
        for curve in curves(&judge, &draw(11, 10)) {
            assert_eq!(curve.admitted.len(), 11);
            assert!(curve.admitted.is_sorted_by(|a, b| a >= b));
            // Each set of n > 0 tasks in high resolution adds one task of the hundred.
            let sum: u32 = curve.admitted[1..].iter().sum();
            assert!((curve.enabled - f64::from(sum)).abs() < 1e-9);
        }
    }
}
