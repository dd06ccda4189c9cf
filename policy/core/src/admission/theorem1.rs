//! The paper's Theorem 1, Eq. (2) and (3): B/min T + Σ E_i/T_i ≤ 1. Exact for D = T; for D < T
//! the same by density, with D in the place of T.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{Analysis, Blocking, Candidate, Platform, Test};
use crate::fraction::sum_against_one;
use crate::units::Nanos;

const TEST: Test = Test::Theorem1;

pub(super) fn analyse(platform: &Platform, candidates: &[Candidate]) -> Analysis {
    let blocking = Blocking::over(TEST, platform, candidates);
    let loads = candidates.iter().map(|c| platform.load(TEST, 0, c));
    let tasks: Vec<_> = loads.collect();
    let demand = left_side(platform, candidates);
    let bound = 1.0;
    Analysis {
        test: TEST,
        schedulable: holds(platform, candidates),
        complete: true,
        blocking,
        utilization: tasks.iter().map(|load| load.utilization).sum(),
        tasks,
        demand,
        bound,
        slack: bound - demand,
        binding: None,
    }
}

/// The verdict alone, without allocating.
pub(super) fn holds(platform: &Platform, candidates: &[Candidate]) -> bool {
    let Some(shortest) = shortest(candidates) else {
        return true;
    };
    let blocking = Blocking::over(TEST, platform, candidates).total;
    let demands = candidates
        .iter()
        .map(|c| (platform.load(TEST, 0, c).demand.0, c.timing.deadline.0));
    // Best-effort gets a turn only if realtime leaves the GPU idle at times.
    let periods = candidates
        .iter()
        .map(|c| (platform.load(TEST, 0, c).demand.0, c.timing.period.0));
    (platform.drain == Nanos::ZERO || sum_against_one(periods) == Ordering::Less)
        && sum_against_one(demands.chain([(blocking.0, shortest.0)])) != Ordering::Greater
}

/// The left side as a number, for people.
fn left_side(platform: &Platform, candidates: &[Candidate]) -> f64 {
    let blocking = Blocking::over(TEST, platform, candidates).total;
    let demands = candidates
        .iter()
        .map(|c| platform.load(TEST, 0, c).demand.0 as f64 / c.timing.deadline.0 as f64);
    shortest(candidates).map_or(0.0, |d| blocking.0 as f64 / d.0 as f64) + demands.sum::<f64>()
}

fn shortest(candidates: &[Candidate]) -> Option<Nanos> {
    candidates.iter().map(|c| c.timing.deadline).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::BlockingTerm;
    use crate::cost::{DirectionCost, SwapCost};
    use crate::task::Timing;
    use crate::units::{Bytes, Ppm};

    /// δ = 1 byte, and one nanosecond a chunk in each direction.
    fn platform(base: u64, drain: u64) -> Platform {
        let cost = DirectionCost {
            base: Nanos(base),
            per_chunk: Nanos::ZERO,
            bytes_per_second: 1_000_000_000,
        };
        Platform {
            cost: SwapCost {
                out: cost,
                in_: cost,
            },
            chunk: Bytes(1),
            drain: Nanos(drain),
            dispatch_latency: Nanos::ZERO,
            duplex: Ppm::ONE,
        }
    }

    fn task(period: u64, deadline: u64, wcet: u64, volume: u64) -> Candidate {
        let timing = Timing {
            period: Nanos(period),
            deadline: Nanos(deadline),
            wcet: Nanos(wcet),
        };
        Candidate {
            timing,
            volume: Bytes(volume),
        }
    }

    #[test]
    fn the_equation_is_met_with_equality() {
        let set = [task(40, 40, 2, 4), task(40, 40, 6, 2), task(40, 40, 10, 0)];
        let analysis = analyse(&platform(0, 0), &set);
        // B = C1 + C2 = 16, ΣE = 30: 46/40.
        assert_eq!(analysis.blocking.term, BlockingTerm::TwoRuns(1, 2));
        assert_eq!(analysis.blocking.total, Nanos(16));
        assert!(!analysis.schedulable);
        let set = set.map(|c| task(46, 46, c.timing.wcet.0, c.volume.0));
        let analysis = analyse(&platform(0, 0), &set);
        assert!(analysis.schedulable);
        assert!(analysis.slack.abs() < 1e-12);
        assert!((analysis.demand - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_deadline_before_the_period_counts_by_density() {
        let set = [task(100, 10, 2, 0), task(100, 10, 4, 0)];
        // B = 6: 6/10 + 2/10 + 4/10 > 1.
        assert!(!analyse(&platform(0, 0), &set).schedulable);
        let set = [task(100, 12, 2, 0), task(100, 12, 4, 0)];
        assert!(analyse(&platform(0, 0), &set).schedulable);
    }

    #[test]
    fn bases_are_charged_three_times_out_once_in_and_once_each_in_the_blocking() {
        let set = [task(1_000, 1_000, 10, 2), task(1_000, 1_000, 5, 0)];
        let analysis = analyse(&platform(50, 0), &set);
        assert_eq!(analysis.tasks[0].swap_out, Nanos(152));
        assert_eq!(analysis.tasks[0].swap_in, Nanos(52));
        assert_eq!(analysis.tasks[1].demand, Nanos(5));
        assert_eq!(analysis.blocking.bases, Nanos(50));
        assert_eq!(analysis.blocking.total, Nanos(202));
        assert_eq!(analysis.blocking.term, BlockingTerm::SwapOut(0));
    }

    #[test]
    fn a_full_processor_leaves_no_room_for_best_effort() {
        let set = [task(10, 10, 1, 0)];
        assert!(analyse(&platform(0, 5), &set).schedulable);
        // ΣU = 1 could only pass with no blocking at all, and a drain blocks.
        let full = [task(10, 10, 10, 0)];
        assert!(!analyse(&platform(0, 5), &full).schedulable);
        let refuted = [task(10, 10, 9, 0)];
        assert!(!analyse(&platform(0, 5), &refuted).schedulable);
    }

    #[test]
    fn no_tasks_are_schedulable() {
        assert!(analyse(&platform(0, 0), &[]).schedulable);
    }
}
