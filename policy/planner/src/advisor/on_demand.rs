//! Swapping without a plan: the baseline that SwapAdvisor calls ODSwap (section 6.1), after vDNN and SuperNeurons.

use super::Infeasible;
use super::arena::{ArenaPlanner, Eviction, Lead};
use crate::graph::{Graph, OpId};
use crate::plan::{Plan, Queue};

/// What an on-demand swapper does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDemand {
    /// Each copy from the host begins where an operator misses the tensor, as in a first iteration; what the iteration
    /// before left in GPU memory is there, and copies to the host are made as early as in [`Self::Prefetch`].
    Passive,
    /// Each copy begins as soon as the memory is free that it went to in the first iteration.
    Prefetch,
}

/// What swapping on demand does in an iteration: where memory is short, the tensor goes that was used least recently. It has
/// chunks as [`ArenaPlanner`] does, so that fragmentation costs it nothing.
pub fn on_demand(
    graph: &Graph,
    schedule: &[OpId],
    budget: u64,
    chunk: u64,
    how: OnDemand,
) -> Result<Plan, Infeasible> {
    let mut planner = ArenaPlanner::with_eviction(graph, chunk, Eviction::LeastRecent);
    let mut plan = planner.plan(schedule, budget, &Lead::of(0))?.clone();
    if how == OnDemand::Passive {
        let mut missed = 0;
        for (at, step) in (0..).zip(&plan.compute) {
            let arrived = step.waits.of(Queue::SwapIn).max(missed);
            for swap in &mut plan.swap_in[missed as usize..arrived as usize] {
                let waits = &mut swap.waits.0[Queue::Compute as usize];
                *waits = at.max(*waits);
            }
            missed = arrived;
        }
    }
    Ok(plan)
}
