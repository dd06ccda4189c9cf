//! How several models divide the memory that they have together.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// A model that shares memory with others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The memory that it needs where nothing is swapped, in bytes, at least 1.
    pub bytes: u64,
    /// The least memory in which its blocks run, in bytes, at most [`Self::bytes`].
    pub least: u64,
    /// How long it takes where nothing is swapped, in nanoseconds, at least 1.
    pub latency_ns: u64,
    /// How urgent it is (the paper's u), above 0; 1 is usual.
    pub urgency: f64,
}

impl Demand {
    /// The paper's performance score PS = u · latency / memory.
    fn score(&self) -> f64 {
        self.urgency * self.latency_ns as f64 / self.bytes as f64
    }
}

/// The bytes of `memory` that each model gets after `reserve` bytes are set aside, by Eq. (1) of SwapNet: of n models' memory
/// one n-th is divided by the scores, the rest by the demands.
///
/// No model gets less than its least or more than its demand; what that gives or takes is divided among the others by the
/// same equation. None where the least of all do not fit.
pub fn divide(memory: u64, reserve: u64, demands: &[Demand]) -> Option<Vec<u64>> {
    let available = memory.checked_sub(reserve)?;
    let sum = |of: fn(&Demand) -> u64| demands.iter().map(of).sum::<u64>();
    if sum(|demand| demand.least) > available {
        return None;
    }
    if sum(|demand| demand.bytes) <= available {
        return Some(demands.iter().map(|demand| demand.bytes).collect());
    }
    let mut fixed: Vec<Option<u64>> = vec![None; demands.len()];
    loop {
        let open: Vec<usize> = (0..demands.len())
            .filter(|at| fixed[*at].is_none())
            .collect();
        let left = available - fixed.iter().flatten().sum::<u64>();
        let shares = equation_1(left, demands, &open);
        let wanted =
            |(at, share): &(usize, u64)| (*share).clamp(demands[*at].least, demands[*at].bytes);
        let all = || open.iter().copied().zip(shares.iter().copied());
        let (given, equal) = all().fold((0_u64, 0_u64), |(given, equal), one| {
            (given + wanted(&one), equal + one.1)
        });
        // Where the least of some take more than others give back, those stay at their least: the others get less. Else those that
        // have enough stay at their demands: the others get more.
        let is_settled = |one: &(usize, u64)| match given.cmp(&equal) {
            Ordering::Greater => wanted(one) > one.1,
            Ordering::Less => wanted(one) < one.1,
            Ordering::Equal => true,
        };
        for one in all().filter(is_settled) {
            fixed[one.0] = Some(wanted(&one));
        }
        if fixed.iter().all(Option::is_some) {
            return fixed.into_iter().collect();
        }
    }
}

/// The shares of `memory` bytes for the models in `open`, rounded down.
fn equation_1(memory: u64, demands: &[Demand], open: &[usize]) -> Vec<u64> {
    let each = || open.iter().map(|at| &demands[*at]);
    let bytes: f64 = each().map(|demand| demand.bytes as f64).sum();
    let scores: f64 = each().map(Demand::score).sum();
    let reserved = 1.0 / open.len() as f64;
    let share = |demand: &Demand| {
        let by_demand = demand.bytes as f64 / bytes * (1.0 - reserved);
        let by_score = demand.score() / scores * reserved;
        ((by_demand + by_score) * memory as f64) as u64
    };
    each().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(bytes: u64, least: u64, latency_ns: u64) -> Demand {
        Demand {
            bytes,
            least,
            latency_ns,
            urgency: 1.0,
        }
    }

    #[test]
    fn half_goes_by_demand_and_half_by_score() {
        // Scores 2 and 1, demands 100 and 300.
        let demands = [demand(100, 0, 200), demand(300, 0, 300)];
        let shares = divide(140, 20, &demands);
        assert_eq!(shares, Some(vec![15 + 40, 45 + 20]));
        let urgent = [
            Demand {
                urgency: 4.0,
                ..demands[0]
            },
            demands[1],
        ];
        assert_eq!(divide(90, 0, &urgent), Some(vec![11 + 40, 33 + 5]));
    }

    #[test]
    fn each_gets_its_least_and_no_more_than_its_demand() {
        let demands = [demand(100, 0, 200), demand(300, 90, 300)];
        assert_eq!(divide(120, 0, &demands), Some(vec![30, 90]));
        assert_eq!(divide(89, 0, &demands), None);
        assert_eq!(divide(19, 20, &demands), None);
        assert_eq!(divide(400, 0, &demands), Some(vec![100, 300]));
        // By score alone the first would get more than all that it needs.
        let demands = [demand(10, 0, 1000), demand(300, 0, 300)];
        assert_eq!(divide(100, 0, &demands), Some(vec![10, 90]));
    }

    #[test]
    fn shares_of_any_demands_keep_to_memory() {
        let mut rng = crate::advisor::Rng::new(3);
        for _ in 0..2_000 {
            let demands: Vec<Demand> = (0..=rng.below(6))
                .map(|_| {
                    let bytes = 1 + rng.below(1000) as u64;
                    demand(
                        bytes,
                        rng.below(bytes as usize) as u64,
                        1 + rng.number() % 1000,
                    )
                })
                .collect();
            let memory = rng.below(3000) as u64;
            let least: u64 = demands.iter().map(|demand| demand.least).sum();
            let Some(shares) = divide(memory, 0, &demands) else {
                assert!(memory < least);
                continue;
            };
            let wanted: u64 = demands.iter().map(|demand| demand.bytes).sum();
            let sum = shares.iter().sum::<u64>();
            // Each share is rounded down.
            assert!(sum <= memory && sum + 8 >= wanted.min(memory), "{shares:?}");
            for (share, demand) in shares.iter().zip(&demands) {
                assert!(
                    (demand.least..=demand.bytes).contains(share),
                    "{share} {demand:?}"
                );
            }
        }
    }
}
