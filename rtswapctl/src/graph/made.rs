//! Plans that are made at once: by TENSILE's scheduling, and in SwapNet's blocks.

use rtswap_planner::budget::{Machine, Maker, NoPlan};
use rtswap_planner::graph::Graph;
use rtswap_planner::plan::Plan;
use rtswap_planner::validator::validate;

use super::{CHUNK, LINK};
use crate::failure::Failure;

/// A plan in `budget` bytes, proven to compute the graph. [`Failure::PlannerNeeds`] where the planner cannot come down to that,
/// and [`Failure::NoBlocks`] where the graph has no parameters that stay as they are.
pub(super) fn at_once(maker: Maker, graph: &Graph, budget: u64) -> Result<Plan, Failure> {
    let machine = Machine {
        chunk: CHUNK,
        link: LINK,
    };
    let plan = maker
        .plan(graph, budget, &machine)
        .map_err(|none| match none {
            NoPlan::NoBlocks => Failure::NoBlocks,
            NoPlan::Needs(least) => Failure::PlannerNeeds {
                planner: maker.name(),
                budget,
                least,
            },
        })?;
    validate(graph, &plan).map_err(Failure::BadPlan)?;
    Ok(plan)
}
