//! Swap volumes x and chunk size δ subject to (1b), (1c) and the admission test, without a MILP
//! solver. `search` has one search per objective for a fixed δ, `fill` what they share.

mod fill;
mod search;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::admission::{Analysis, Platform, Test};
use crate::task::{MemoryProfile, Timing};
use crate::units::Bytes;

/// What to minimise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The time spent swapping: least Σ (Oᴼᵘᵗ(x)+Oᴵⁿ(x))/D.
    #[default]
    Time,
    /// The paper's: least Σx, then the least left side of Eq. (3), then the least δ.
    Volume,
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
    /// δ.
    pub chunk: Bytes,
    /// x, in the order of the demands.
    pub volumes: Vec<Bytes>,
    /// The test.
    pub analysis: Analysis,
}

/// Why there are none.
#[derive(Clone, Debug, PartialEq)]
pub enum Infeasible {
    /// One task alone needs more than there is.
    TooLarge {
        /// Its place.
        task: usize,
        /// ⌈m/δ⌉·δ.
        footprint: Bytes,
        /// mᴰ.
        capacity: Bytes,
    },
    /// However much leaves, one task and what cannot be swapped of the others do not fit.
    NotSwappable {
        /// Σm − mᴰ, in whole chunks.
        overflow: Bytes,
        /// The most that can be out while any one task is in: Σmˢ − max mˢ, in whole chunks.
        swappable: Bytes,
    },
    /// The memory could be had, the time cannot. The last that was
    /// tried, with the analysis that it fails.
    NotSchedulable(Box<Assignment>),
}

/// The best volumes for `platform.chunk` on a GPU of `capacity` under `test`. Exact for Theorem 1
/// where the cost per operation is zero; otherwise the volumes are as sound, but sets that only
/// pass when a task with a long deadline is left out of swapping may be refused.
pub fn assign(
    test: Test,
    platform: &Platform,
    capacity: Bytes,
    demands: &[Demand],
    objective: Objective,
) -> Result<Assignment, Infeasible> {
    let chunk = platform.chunk;
    for (task, demand) in demands.iter().enumerate() {
        let footprint = demand.memory.footprint.round_up(chunk);
        if footprint > capacity {
            return Err(Infeasible::TooLarge {
                task,
                footprint,
                capacity,
            });
        }
    }
    search::run(test, platform, capacity, demands, objective)
}

/// The best of `assign` over δ = 2 MiB·2ᵏ up to 256 MiB; `platform.chunk` is not looked at. If
/// there is none, the reason is that of 64 MiB, near which swapping is fastest.
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
    (1..=8)
        .filter_map(|power| with(Bytes(MIB << power)).ok())
        .min_by(|a, b| {
            let key = |plan: &Assignment| match objective {
                Objective::Time => (swap_load(demands, plan), plan.analysis.demand),
                Objective::Volume => {
                    let volume: Bytes = plan.volumes.iter().copied().sum();
                    (volume.0 as f64, plan.analysis.demand)
                }
            };
            let ((a0, a1), (b0, b1)) = (key(a), key(b));
            a0.total_cmp(&b0).then(a1.total_cmp(&b1))
        })
        .map_or_else(|| with(Bytes(64 * MIB)), Ok)
}

/// Σ (Oᴼᵘᵗ+Oᴵⁿ)/D.
fn swap_load(demands: &[Demand], plan: &Assignment) -> f64 {
    demands
        .iter()
        .zip(&plan.analysis.tasks)
        .map(|(d, load)| (load.swap_out + load.swap_in).0 as f64 / d.timing.deadline.0 as f64)
        .sum()
}

impl Infeasible {
    /// In words and numbers, what binds and what would help; names by `name`.
    pub fn describe<'a>(&self, demands: &[Demand], name: impl Fn(usize) -> &'a str) -> String {
        match self {
            Self::TooLarge {
                task,
                footprint,
                capacity,
            } => format!(
                "{} needs {footprint} at once and {capacity} can be handed out: it does not fit \
                 on this GPU even alone",
                name(*task)
            ),
            Self::NotSwappable {
                overflow,
                swappable,
            } => format!(
                "{overflow} must be out while any one task is in, but only {swappable} of the \
                 others can leave: {} more must be swappable, or the footprints that much smaller",
                overflow.saturating_sub(*swappable)
            ),
            Self::NotSchedulable(tried) => {
                let analysis = &tried.analysis;
                let shortest = demands.iter().map(|d| d.timing.deadline).min();
                let heaviest = (0..analysis.tasks.len()).max_by(|a, b| {
                    share(demands, analysis, *a).total_cmp(&share(demands, analysis, *b))
                });
                let mut text = format!(
                    "the test fails: {:.4} of {:.4}, over by {:.4}; blocking {}",
                    analysis.demand,
                    analysis.bound,
                    -analysis.slack,
                    analysis.blocking.describe(&name),
                );
                if let Some(shortest) = shortest {
                    let _ = write!(text, " against a shortest deadline of {shortest}");
                }
                if let Some(task) = heaviest {
                    let load = &analysis.tasks[task];
                    let _ = write!(
                        text,
                        "; the largest share is {:.4} of {}: {} out, {} in, {} execution in {}. \
                         A longer period there, or a smaller footprint, would help",
                        share(demands, analysis, task),
                        name(task),
                        load.swap_out,
                        load.swap_in,
                        load.demand.saturating_sub(load.swap_out + load.swap_in),
                        demands[task].timing.deadline,
                    );
                }
                text
            }
        }
    }
}

fn share(demands: &[Demand], analysis: &Analysis, task: usize) -> f64 {
    analysis.tasks[task].demand.0 as f64 / demands[task].timing.deadline.0 as f64
}
