//! The five approaches of the paper's Fig. 7, all under the same admission test.

use rtswap_policy::admission::{Candidate, Platform, Test};
use rtswap_policy::assign::{Demand, Objective, assign, assign_any_chunk};
use rtswap_policy::cost::SwapCost;
use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};

use super::fragmentation::Catalogue;
use super::workload::{Reading, Work};
use crate::baselines::link::{PAGEABLE, PINNED, SMALLEST_CHUNK};
use crate::baselines::paging::Paging;

/// Who is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Approach {
    /// Swap volumes and δ by the planner, pinned memory.
    RtSwap,
    /// The same with δ = 2 MiB.
    Min,
    /// An allocation per memory object, pinned memory.
    MoVmm,
    /// As RT-Swap, with pageable memory.
    Pageable,
    /// Unified memory: on-demand paging and LRU.
    Base,
}

/// ρ of the test `pipelined` wherever one approach is held against another.
pub const DUPLEX: Ppm = Ppm(800_000);

/// How long Base is played: a dozen jobs of the slowest task.
const PLAYED: Time = Time(60_000_000_000);

/// What MO-VMM swaps in the test, which knows uniform chunks only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectUnit {
    /// Allocations of the mean size of the set's.
    Mean,
    /// Allocations of 2 MiB, as most are.
    Smallest,
}

/// Which of the volumes that Base's jobs were seen to swap goes into the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagedVolume {
    /// The largest of each task.
    Most,
    /// Their mean, which guarantees nothing.
    Mean,
}

/// What the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// How sizes are read.
    pub reading: Reading,
    /// Swapping with pinned memory: RT-Swap, MIN and MO-VMM.
    pub pinned: SwapCost,
    /// Swapping with pageable memory.
    pub pageable: SwapCost,
    /// Paging by Base, a page of 2 MiB counting as a chunk.
    pub paging: SwapCost,
    /// For MO-VMM.
    pub object: ObjectUnit,
    /// For Base.
    pub paged: PagedVolume,
}

/// What all five are judged by.
#[derive(Clone, Debug)]
pub struct Judge {
    test: Test,
    assumptions: Assumptions,
    catalogue: Catalogue,
}

impl Approach {
    /// In the order of the paper's text.
    pub const ALL: [Self; 5] = [
        Self::RtSwap,
        Self::Min,
        Self::MoVmm,
        Self::Pageable,
        Self::Base,
    ];

    /// As the paper writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RtSwap => "RT-Swap",
            Self::Min => "MIN",
            Self::MoVmm => "MO-VMM",
            Self::Pageable => "Pageable",
            Self::Base => "Base",
        }
    }
}

impl Default for Assumptions {
    /// Base pages at the speed of pinned memory in chunks of 2 MiB, which is kind to it: what a
    /// page fault costs is not published.
    fn default() -> Self {
        Self {
            reading: Reading::default(),
            pinned: PINNED,
            pageable: PAGEABLE,
            paging: PINNED,
            object: ObjectUnit::Mean,
            paged: PagedVolume::Most,
        }
    }
}

impl Judge {
    /// `seed` draws the lists of memory objects.
    pub fn new(test: Test, assumptions: Assumptions, seed: u64) -> Self {
        Self {
            test,
            assumptions,
            catalogue: Catalogue::draw(&assumptions.reading, seed),
        }
    }

    /// The reading that sizes are understood by.
    pub const fn reading(&self) -> &Reading {
        &self.assumptions.reading
    }

    /// Whether `approach` guarantees every deadline of `set` on a GPU of `capacity`.
    pub fn admits(&self, approach: Approach, set: &[Work], capacity: Bytes) -> bool {
        let demands: Vec<Demand> = set.iter().map(|w| w.demand(self.reading())).collect();
        // The verdict is the same under both objectives: each finds volumes if there are any.
        let objective = Objective::Time;
        let Assumptions {
            pinned, pageable, ..
        } = self.assumptions;
        let any_chunk = |cost| {
            let platform = platform(cost, SMALLEST_CHUNK);
            assign_any_chunk(self.test, &platform, capacity, &demands, objective).is_ok()
        };
        let at_chunk = |demands: &[Demand], chunk| {
            let platform = platform(pinned, chunk);
            assign(self.test, &platform, capacity, demands, objective).is_ok()
        };
        match approach {
            Approach::RtSwap => any_chunk(pinned),
            Approach::Pageable => any_chunk(pageable),
            Approach::Min => at_chunk(&demands, SMALLEST_CHUNK),
            Approach::MoVmm => {
                let (demands, object) = self.objects(set);
                at_chunk(&demands, object)
            }
            Approach::Base => self.paging_admits(&demands, capacity),
        }
    }

    /// The demands with what an allocation per object takes, and the unit in which MO-VMM swaps.
    fn objects(&self, set: &[Work]) -> (Vec<Demand>, Bytes) {
        let (mut taken, mut count) = (Bytes::ZERO, 0);
        let demands = set
            .iter()
            .map(|work| {
                let plain = work.demand(self.reading());
                let objects = self.catalogue.objects(work.model, work.resolution);
                let swappable = objects.per_object();
                taken += swappable;
                count += objects.count() as u64;
                let rest = plain.memory.footprint - plain.memory.swappable;
                Demand {
                    memory: MemoryProfile {
                        footprint: rest + swappable,
                        swappable,
                    },
                    ..plain
                }
            })
            .collect();
        let unit = match self.assumptions.object {
            ObjectUnit::Mean => Bytes(taken.0 / count.max(1)),
            ObjectUnit::Smallest => SMALLEST_CHUNK,
        };
        (demands, unit)
    }

    /// Base has no bound: what its jobs were seen to swap is put into the test. A page fault evicts
    /// before it fills, so nothing of it is pipelined.
    fn paging_admits(&self, demands: &[Demand], capacity: Bytes) -> bool {
        let test = match self.test {
            Test::Pipelined => Test::Demand,
            other => other,
        };
        let cost = self.assumptions.paging;
        let Some(mut paging) = Paging::new(demands, capacity, SMALLEST_CHUNK, cost) else {
            return false;
        };
        let platform = platform(cost, SMALLEST_CHUNK);
        let mut candidates: Vec<Candidate> = demands
            .iter()
            .map(|demand| Candidate {
                timing: demand.timing,
                volume: Bytes::ZERO,
            })
            .collect();
        if !test.holds(&platform, &candidates) {
            return false;
        }
        // Jobs of each task, and what they moved.
        let mut seen = vec![(0_u64, Bytes::ZERO); demands.len()];
        while paging.now() < PLAYED
            && let Some(job) = paging.step()
        {
            let (jobs, moved) = &mut seen[job.task];
            *jobs += 1;
            *moved += job.moved_in;
            let volume = &mut candidates[job.task].volume;
            if self.assumptions.paged == PagedVolume::Most && job.moved_in > *volume {
                *volume = job.moved_in;
                // More can only make it worse, so the first failure is the end.
                if !test.holds(&platform, &candidates) {
                    return false;
                }
            }
        }
        if self.assumptions.paged == PagedVolume::Mean {
            for (candidate, (jobs, moved)) in candidates.iter_mut().zip(seen) {
                candidate.volume = Bytes(moved.0 / jobs.max(1)).round_up(SMALLEST_CHUNK);
            }
        }
        test.holds(&platform, &candidates)
    }
}

/// Without bases, and without best-effort beside it.
pub(super) fn platform(cost: SwapCost, chunk: Bytes) -> Platform {
    Platform {
        cost,
        chunk,
        drain: Nanos::ZERO,
        dispatch_latency: Nanos::ZERO,
        duplex: DUPLEX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::tasks::draw;

    fn judge() -> Judge {
        Judge::new(Test::Theorem1, Assumptions::default(), 1)
    }

    #[test]
    fn what_fits_is_admitted_by_all_that_pack_and_nothing_fits_a_tenth() {
        let judge = judge();
        for set in &draw(5, 10) {
            let full = judge.reading().capacity;
            for approach in [
                Approach::RtSwap,
                Approach::Min,
                Approach::Pageable,
                Approach::Base,
            ] {
                assert!(
                    judge.admits(approach, set.of(4), full),
                    "{}",
                    approach.name()
                );
            }
            for approach in Approach::ALL {
                assert!(!judge.admits(approach, set.of(13), Bytes(full.0 / 10)));
            }
        }
    }

    #[test]
    fn rtswap_admits_whatever_its_variations_admit() {
        let judge = judge();
        let full = judge.reading().capacity;
        for set in &draw(6, 10) {
            for tasks in 4..=13 {
                let best = judge.admits(Approach::RtSwap, set.of(tasks), full);
                for approach in [Approach::Min, Approach::Pageable] {
                    assert!(best || !judge.admits(approach, set.of(tasks), full));
                }
            }
        }
    }

    #[test]
    fn a_slower_link_admits_less() {
        let slow = Assumptions {
            pinned: PAGEABLE,
            ..Assumptions::default()
        };
        let slow = Judge::new(Test::Theorem1, slow, 1);
        let full = slow.reading().capacity;
        let sets = draw(7, 20);
        let count = |judge: &Judge, approach| {
            let admitted = sets
                .iter()
                .filter(|set| judge.admits(approach, set.of(6), full));
            admitted.count()
        };
        let (fast, judged) = (judge(), Approach::RtSwap);
        assert_eq!(count(&slow, judged), count(&fast, Approach::Pageable));
        assert!(count(&slow, judged) < count(&fast, judged));
    }

    #[test]
    fn paging_gains_nothing_from_pipelining() {
        let under = |test| Judge::new(test, Assumptions::default(), 1);
        let (demand, pipelined) = (under(Test::Demand), under(Test::Pipelined));
        let full = demand.reading().capacity;
        let mut gained = 0;
        for set in &draw(8, 10) {
            for tasks in 4..=6 {
                let admits = |judge: &Judge, who| judge.admits(who, set.of(tasks), full);
                let base = Approach::Base;
                assert_eq!(admits(&demand, base), admits(&pipelined, base));
                let object = Approach::MoVmm;
                gained += u32::from(admits(&pipelined, object) && !admits(&demand, object));
            }
        }
        assert!(gained > 0);
    }
}
