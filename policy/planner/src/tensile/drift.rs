//! Expected times of operators, corrected by those that were measured.

use alloc::vec::Vec;

/// The expected times of one job's operators. An exponentially weighted moving average corrects them; a plan is made anew
/// once they have drifted too far from those that it was made with.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// Nanoseconds of each operator.
    times: Vec<f64>,
    /// Those with which the last plan was made.
    planned: Vec<f64>,
}

impl Estimates {
    /// The weight of what was known before, as TENSILE's authors have it in the code that they published.
    pub const WEIGHT: f64 = 0.9;
    /// The drift from which a new plan is due, over the sum of the planned times; from the same code.
    pub const THRESHOLD: f64 = 0.3;

    /// The first prediction: nanoseconds for each operator.
    pub fn new(predicted: &[u64]) -> Self {
        let times: Vec<f64> = predicted.iter().map(|ns| *ns as f64).collect();
        Self {
            planned: times.clone(),
            times,
        }
    }

    /// Takes in what each operator took in an iteration, in nanoseconds. Whether a new plan is due.
    ///
    /// The drift is the sum of the operators' own, where the authors' code takes that of the sum: errors that cancel
    /// there are found here.
    pub fn record(&mut self, measured: &[u64]) -> bool {
        for (time, ns) in self.times.iter_mut().zip(measured) {
            *time = Self::WEIGHT * *time + (1.0 - Self::WEIGHT) * *ns as f64;
        }
        let each = self.times.iter().zip(&self.planned);
        let drift: f64 = each.map(|(time, planned)| (time - planned).abs()).sum();
        drift > Self::THRESHOLD * self.planned.iter().sum::<f64>()
    }

    /// A plan was made with these times: drift is counted from them on.
    pub fn count_as_planned(&mut self) {
        self.planned.clone_from(&self.times);
    }

    /// The times to plan with, in nanoseconds for each operator.
    pub fn times(&self) -> Vec<u64> {
        // A cast from f64 saturates.
        self.times.iter().map(|ns| (*ns + 0.5) as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_what_is_measured_and_a_new_plan_is_due_in_time() {
        let mut estimates = Estimates::new(&[100, 300]);
        assert!(!estimates.record(&[100, 300]));
        assert_eq!(estimates.times(), [100, 300]);
        // Twice as slow: 440, 476, 508.4, 537.6 in all, of 520 at most.
        assert!(!estimates.record(&[200, 600]));
        assert_eq!(estimates.times(), [110, 330]);
        assert!(!estimates.record(&[200, 600]));
        assert!(!estimates.record(&[200, 600]));
        assert!(estimates.record(&[200, 600]));
        assert!(estimates.record(&[200, 600]), "no plan was made");
        estimates.count_as_planned();
        assert!(!estimates.record(&[200, 600]));
        for _ in 0..100 {
            estimates.record(&[200, 600]);
        }
        assert_eq!(estimates.times(), [200, 600]);
    }

    #[test]
    fn errors_that_cancel_are_found_and_noise_is_not_taken_for_one() {
        let mut estimates = Estimates::new(&[100, 300]);
        // 200 ns each: in the end 100 ns of drift for each, and 120 are allowed for both.
        let due = (0..20).position(|_| estimates.record(&[200, 200]));
        assert_eq!(due, Some(8));
        let mut estimates = Estimates::new(&[100, 300]);
        let noise = [[120, 240], [80, 360]].iter().cycle();
        assert!(noise.take(100).all(|measured| !estimates.record(measured)));
    }
}
