//! Table 2: one inference of ResNet-152 in little memory.

use anyhow::Result;
use rtswap_planner::advisor::{Breeding, Lead, founders, pool_founders};
use rtswap_planner::machine::{Roofline, Run};

use super::models::inference;
use super::search::{Effort, Prepared, search};

/// One inference with a batch of `batch` in `budget` bytes; none where an operator does not fit.
pub fn time(batch: u32, budget: u64, effort: Effort) -> Result<Option<Run>> {
    let prepared = Prepared::new(inference(batch, &Roofline::V100)?);
    let problem = prepared.problem(budget);
    let pools = search(
        problem,
        Breeding::OURS,
        pool_founders(&problem),
        effort,
        |_, _| (),
    )?;
    let arena = search::<Lead>(
        problem,
        Breeding::OURS,
        founders(&problem),
        effort,
        |_, _| (),
    )?;
    // Most tensors of a small batch are much smaller than a chunk.
    Ok(pools
        .into_iter()
        .chain(arena)
        .min_by_key(|run| run.total_ns))
}

/// One inference with infinite memory, in nanoseconds.
pub fn ideal_ns(batch: u32) -> Result<u64> {
    Ok(inference(batch, &Roofline::V100)?.compute_ns())
}
