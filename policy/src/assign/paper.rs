//! The generator of the paper's Fig. 7(a), and how many of its sets each test admits.

use alloc::vec::Vec;

use super::*;
use crate::cost::{DirectionCost, SwapCost};
use crate::units::{Nanos, Ppm};

const GIB: f64 = (1_u64 << 30) as f64;

/// Table III: footprint and swappable memory in GB, WCET in ms, of four models in three
/// resolutions.
const MODELS: [[(f64, f64, u64); 3]; 4] = [
    [(1.4, 0.7, 29), (2.4, 1.4, 36), (3.8, 2.7, 48)],
    [(2.3, 1.1, 48), (3.6, 2.6, 51), (6.2, 5.2, 63)],
    [(1.0, 0.4, 31), (1.6, 0.9, 34), (2.7, 1.8, 42)],
    [(1.6, 1.0, 41), (3.2, 2.2, 45), (5.7, 4.5, 63)],
];

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn task(&mut self) -> Demand {
        let (footprint, swappable, wcet) = MODELS[self.below(4) as usize][self.below(3) as usize];
        let period = Nanos(3_000_000_000 + self.below(2_000_000_001));
        Demand {
            timing: Timing {
                period,
                deadline: period,
                wcet: Nanos(wcet * 1_000_000),
            },
            memory: MemoryProfile {
                footprint: Bytes((footprint * GIB) as u64),
                swappable: Bytes((swappable * GIB) as u64),
            },
        }
    }

    /// A hundred sets of four tasks with 23–24 GB, then with one task more each time up to
    /// thirteen.
    fn sets(&mut self) -> Vec<Vec<Demand>> {
        let mut sets: Vec<Vec<Demand>> = Vec::new();
        while sets.len() < 100 {
            let set: Vec<_> = (0..4).map(|_| self.task()).collect();
            let footprint: Bytes = set.iter().map(|d| d.memory.footprint).sum();
            if (23.0..=24.0).contains(&(footprint.0 as f64 / GIB)) {
                sets.push(set);
            }
        }
        let mut all = sets.clone();
        for _ in 5..=13 {
            for set in &mut sets {
                set.push(self.task());
            }
            all.extend(sets.iter().cloned());
        }
        all
    }
}

/// The fit to the paper's Fig. 4.
fn platform(duplex: u32) -> Platform {
    let direction = |gib: f64, per_chunk| DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(per_chunk),
        bytes_per_second: (gib * GIB) as u64,
    };
    Platform {
        cost: SwapCost {
            out: direction(12.08, 73_600),
            in_: direction(11.18, 79_500),
        },
        chunk: Bytes::ZERO,
        drain: Nanos::ZERO,
        dispatch_latency: Nanos::ZERO,
        duplex: Ppm(duplex),
    }
}

const CAPACITY: Bytes = Bytes(24 << 30);

/// On these sets a refusal under `demand` or `pipelined` is one of ΣU > 1 whatever the volumes:
/// with their E no test could admit more.
#[test]
fn the_tests_admit_more_each_and_all_that_can_be() {
    let mut admitted = [0_u32; 4];
    for seed in 1..=3 {
        for set in Random(seed).sets() {
            let tests = [
                (Test::Theorem1, 1_000_000),
                (Test::Demand, 1_000_000),
                (Test::Pipelined, 800_000),
                (Test::Pipelined, 1_000_000),
            ];
            let mut before = false;
            for (count, (test, duplex)) in admitted.iter_mut().zip(tests) {
                let platform = platform(duplex);
                let plan = assign_any_chunk(test, &platform, CAPACITY, &set, Objective::Time);
                assert!(plan.is_ok() || !before, "{test:?} at {duplex}");
                before = plan.is_ok();
                *count += u32::from(before);
                if before || test == Test::Theorem1 {
                    continue;
                }
                for power in 21..=28 {
                    let platform = Platform {
                        chunk: Bytes(1 << power),
                        ..platform
                    };
                    let refusal = assign(test, &platform, CAPACITY, &set, Objective::Time);
                    if let Err(Infeasible::NotSchedulable(tried)) = refusal {
                        assert!(tried.analysis.utilization > 1.0, "{:?}", tried.analysis);
                    }
                }
            }
        }
    }
    let [theorem1, demand, pipelined, full_duplex] = admitted;
    assert!(theorem1 > 1_500, "{admitted:?}");
    assert!(demand * 1_000 >= theorem1 * 1_090, "{admitted:?}");
    assert!(pipelined * 1_000 >= theorem1 * 1_500, "{admitted:?}");
    assert!(full_duplex * 1_000 >= theorem1 * 1_640, "{admitted:?}");
}
