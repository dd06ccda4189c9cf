//! Swap volumes x and chunk size δ subject to (1b), (1c), the room that best-effort is to have and the
//! admission test, without a MILP solver. `theorem1` and `spans` search over the volumes that `problem` allows for a fixed δ, the
//! second for the other two tests; `price` is what volumes cost, `cover` the cheapest in a box. `choices` is for tasks that run in
//! more than one amount of memory.

mod choices;
#[cfg(test)]
mod choices_tests;
mod cover;
mod infeasible;
mod price;
mod problem;
mod spans;
#[cfg(test)]
mod tests;
mod theorem1;

pub use choices::{Choice, Choices, Chosen, assign_choices};
pub use infeasible::Infeasible;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::admission::{Analysis, Platform, Test};
use crate::fraction::fixed;
use crate::task::{MemoryProfile, Timing};
use crate::units::{Bytes, Nanos};
use price::Price;
use problem::Problem;

/// What to minimise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The time spent swapping: least Σ (Oᴼᵘᵗ(x)+Oᴵⁿ(x))/D. Swaps are weighed by deadlines, as the
    /// paper's test weighs them where D < T; with D = T the sum is the swap utilisation.
    #[default]
    Time,
    /// The paper's: least Σx, then the least left side of Eq. (3), then the least δ.
    Volume,
}

/// What the volumes must leave room for. A capacity is one in which best-effort has no room of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The bytes that the tasks may hold while one of them runs: mᴰ of (1c).
    pub running: Bytes,
    /// The bytes that they may hold while none of them runs: Σ(m−x) at most.
    pub idle: Bytes,
}

impl From<Bytes> for Room {
    fn from(capacity: Bytes) -> Self {
        Self {
            running: capacity,
            idle: capacity,
        }
    }
}

/// One task to be given a swap volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// T, D and C.
    pub timing: Timing,
    /// m and mˢ. It counts as ⌈m/δ⌉·δ, and x is a multiple of δ up to ⌊mˢ/δ⌋·δ.
    pub memory: MemoryProfile,
}

/// Volumes with the test of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Chunk size δ in bytes.
    pub chunk: Bytes,
    /// Swap volumes x in bytes, in the order of the demands.
    pub volumes: Vec<Bytes>,
    /// The admission test of these volumes, with its whole reasoning.
    pub analysis: Analysis,
    /// By what share of itself the objective can exceed the least possible for this δ: zero where
    /// these volumes are proven optimal. Of `Objective::Volume` only Σx is meant.
    pub gap: f64,
}

/// Volumes in chunks, with the gap.
struct Solved {
    volumes: Vec<u64>,
    gap: f64,
}

/// If nothing passes: the last or closest that was tried, if the memory can be had at all.
type Outcome = Result<Solved, Option<Vec<u64>>>;

/// The best volumes for `platform.chunk` on a GPU with `room` under `test`. Exact for Theorem 1;
/// for the other tests the best that was found, with its gap. What Theorem 1's volumes pass is
/// always found.
pub fn assign(
    test: Test,
    platform: &Platform,
    room: impl Into<Room>,
    demands: &[Demand],
    objective: Objective,
) -> Result<Assignment, Infeasible> {
    let room = room.into();
    let platform = &platform.charged();
    let chunk = platform.chunk;
    for (task, demand) in demands.iter().enumerate() {
        let footprint = demand.memory.footprint.round_up(chunk);
        if footprint > room.running {
            return Err(Infeasible::TooLarge {
                task,
                footprint,
                capacity: room.running,
                chunk,
            });
        }
    }
    let problem = Problem::new(platform, room, demands);
    let price = swapping(test, platform, demands);
    let outcome = match test {
        Test::Theorem1 => theorem1::run(&problem, &price, objective),
        Test::Demand | Test::Pipelined => spans::run(&problem, test, &price, objective),
    };
    let tested = |solved: Solved| Assignment {
        chunk,
        analysis: test.analyse(platform, &problem.candidates(&solved.volumes)),
        volumes: solved.volumes.iter().map(|&k| problem.bytes(k)).collect(),
        gap: solved.gap,
    };
    match outcome {
        Ok(solved) => Ok(tested(solved)),
        Err(Some(volumes)) => {
            let closest = Solved { volumes, gap: 0.0 };
            Err(Infeasible::NotSchedulable(Box::new(tested(closest))))
        }
        Err(None) => {
            let chunks = &problem.swappable;
            let sum = chunks.iter().fold(0_u64, |sum, &k| sum.saturating_add(k));
            let most = chunks.iter().copied().max().unwrap_or(0);
            let others = sum - most.min(sum);
            Err(if problem.overflow > others {
                Infeasible::NotSwappable {
                    chunk,
                    overflow: problem.bytes(problem.overflow),
                    swappable: problem.bytes(others),
                }
            } else {
                Infeasible::NotIdle {
                    chunk,
                    overflow: problem.bytes(problem.idle_overflow),
                    swappable: problem.bytes(sum),
                }
            })
        }
    }
}

/// Oᴼᵘᵗ+Oᴵⁿ over D. Under `Pipelined` an eviction's base counts once; there may be as many more as
/// there are other tasks.
fn swapping(test: Test, platform: &Platform, demands: &[Demand]) -> Price {
    let cost = &platform.cost;
    let chunk = cost.out.chunk_time(platform.chunk) + cost.in_.chunk_time(platform.chunk);
    let evictions = if test == Test::Pipelined { 1 } else { 3 };
    let charge = Nanos(cost.out.base.0.saturating_mul(evictions)) + cost.in_.base;
    let each = |span: Nanos| {
        demands
            .iter()
            .map(move |d| fixed(span.0, d.timing.deadline.0))
    };
    Price::new(each(chunk).collect(), each(charge).collect())
}

/// The best of `assign` over δ = 2 MiB·2ᵏ up to 256 MiB; `platform.chunk` is not looked at. If
/// there is none, the δ that comes closest says why: memory binds only if it does at every δ, and
/// then the smallest says so.
pub fn assign_any_chunk(
    test: Test,
    platform: &Platform,
    capacity: Bytes,
    demands: &[Demand],
    objective: Objective,
) -> Result<Assignment, Infeasible> {
    const MIB: u64 = 1 << 20;
    let with = |chunk| {
        let platform = Platform { chunk, ..*platform };
        assign(test, &platform, capacity, demands, objective)
    };
    let key = |plan: &Assignment| match objective {
        Objective::Time => (swap_load(demands, plan), plan.analysis.demand),
        Objective::Volume => {
            let volume: Bytes = plan.volumes.iter().copied().sum();
            (volume.0 as f64, plan.analysis.demand)
        }
    };
    let better = |a: &Assignment, b: &Assignment| {
        let ((a0, a1), (b0, b1)) = (key(a), key(b));
        a0.total_cmp(&b0).then(a1.total_cmp(&b1)).is_lt()
    };
    let mut best = with(Bytes(2 * MIB));
    for power in 2..=8 {
        let next = with(Bytes(MIB << power));
        let replaces = match (&next, &best) {
            (Ok(next), Ok(best)) => better(next, best),
            (Err(next), Err(best)) => next.closer(best),
            (Ok(_), Err(_)) => true,
            (Err(_), Ok(_)) => false,
        };
        if replaces {
            best = next;
        }
    }
    best
}

/// The share of time spent on swapping: Σ (Oᴼᵘᵗ+Oᴵⁿ)/D.
fn swap_load(demands: &[Demand], plan: &Assignment) -> f64 {
    demands
        .iter()
        .zip(&plan.analysis.tasks)
        .map(|(d, load)| (load.swap_out + load.swap_in).0 as f64 / d.timing.deadline.0 as f64)
        .sum()
}
