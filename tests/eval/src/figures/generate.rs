//! The task sets of the paper's Fig. 7, as Section VII-B describes them.

use rtswap_policy::units::Nanos;

use super::workload::{Model, Resolution, Work};
use rtswap_simulator::Rng;

/// T in milliseconds, the ends included.
const PERIODS: (u64, u64) = (3_000, 5_000);
/// "100 DNN task sets … each with 4 tasks and a total footprint of 23-24GB", in tenths.
const FIRST_TASKS: usize = 4;
const FIRST_FOOTPRINT: std::ops::RangeInclusive<u64> = 230..=240;
/// The largest sets of Fig. 7(a).
pub const MOST_TASKS: usize = 13;
/// The tasks of each set of Fig. 7(c).
pub const CONVERTED_TASKS: usize = 10;

/// A set that grows: its first n tasks are the set of n tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growing(Vec<Work>);

impl Growing {
    /// Draws four tasks until their footprint is 23 to 24 GB, and adds any up to 13.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut set = loop {
            let set: Vec<Work> = (0..FIRST_TASKS).map(|_| any(rng)).collect();
            if FIRST_FOOTPRINT.contains(&set.iter().map(Work::tenths).sum()) {
                break set;
            }
        };
        while set.len() < MOST_TASKS {
            set.push(any(rng));
        }
        Self(set)
    }

    /// The set of `tasks`, 4 to 13.
    pub fn of(&self, tasks: usize) -> &[Work] {
        &self.0[..tasks]
    }

    /// The numbers of tasks that there are sets of.
    pub fn sizes() -> std::ops::RangeInclusive<usize> {
        FIRST_TASKS..=MOST_TASKS
    }
}

/// Ten tasks of low resolution, then the same with one more of them, any, in high resolution, and
/// so on until all are: eleven sets.
pub fn converted(rng: &mut Rng) -> Vec<Vec<Work>> {
    let mut set: Vec<Work> = (0..CONVERTED_TASKS)
        .map(|_| Work {
            resolution: Resolution::Low,
            ..any(rng)
        })
        .collect();
    let mut low: Vec<usize> = (0..CONVERTED_TASKS).collect();
    let mut sets = vec![set.clone()];
    while !low.is_empty() {
        let place = low.swap_remove(below(rng, low.len()));
        set[place].resolution = Resolution::High;
        sets.push(set.clone());
    }
    sets
}

/// A task of any model and resolution.
fn any(rng: &mut Rng) -> Work {
    Work {
        model: Model::ALL[below(rng, Model::ALL.len())],
        resolution: Resolution::ALL[below(rng, Resolution::ALL.len())],
        period: Nanos(rng.within(PERIODS.0, PERIODS.1) * 1_000_000),
    }
}

/// A number below `count`.
fn below(rng: &mut Rng, count: usize) -> usize {
    rng.within(0, count as u64 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(seed: u64) -> Vec<Growing> {
        let mut rng = Rng::new(seed);
        (0..50).map(|_| Growing::draw(&mut rng)).collect()
    }

    #[test]
    fn sets_are_within_their_bounds() {
        let mut seen = [[false; 3]; 4];
        for set in sets(1) {
            assert_eq!(set.of(13).len(), 13);
            let first: u64 = set.of(4).iter().map(Work::tenths).sum();
            assert!((230..=240).contains(&first));
            // The smallest task that there is makes it more than the GPU has: the footnote.
            assert!(first + 10 > 240);
            for work in set.of(13) {
                let period = work.period.0 / 1_000_000;
                assert!((3_000..=5_000).contains(&period));
                seen[work.model as usize][work.resolution as usize] = true;
            }
        }
        assert_eq!(seen, [[true; 3]; 4]);
    }

    #[test]
    fn the_same_seed_draws_the_same_sets() {
        assert_eq!(sets(7), sets(7));
        assert_ne!(sets(7), sets(8));
        assert_eq!(converted(&mut Rng::new(7)), converted(&mut Rng::new(7)));
        assert_ne!(converted(&mut Rng::new(7)), converted(&mut Rng::new(8)));
    }

    #[test]
    fn one_task_more_is_converted_each_time() {
        let sets = converted(&mut Rng::new(3));
        assert_eq!(sets.len(), 11);
        for (count, set) in sets.iter().enumerate() {
            let high = set.iter().filter(|w| w.resolution == Resolution::High);
            assert_eq!(high.count(), count);
            assert!(set.iter().all(|w| w.resolution != Resolution::Middle));
            for (before, after) in sets[0].iter().zip(set) {
                assert_eq!((before.model, before.period), (after.model, after.period));
            }
        }
    }
}
