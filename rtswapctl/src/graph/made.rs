//! Plans that are made at once: by TENSILE's scheduling, and in SwapNet's blocks.

use rtswap_planner::blocks::{
    BlockPlanner, Coefficients, Costs, MOST_LAYERS, ModelInfo, plan_in_blocks,
};
use rtswap_planner::graph::{Graph, OpId};
use rtswap_planner::machine::run;
use rtswap_planner::plan::Plan;
use rtswap_planner::tensile::{Job, Settings, early, plan};
use rtswap_planner::validator::validate;

use super::{CHUNK, LINK};
use crate::cli::Planner;
use crate::failure::Failure;

/// TENSILE's plan in `budget` bytes: in the graph's own order of operators, or with the optimiser as early as it can run, whichever
/// is faster. [`Failure::PlannerNeeds`] where it cannot come down to that.
pub(super) fn tensile(graph: &Graph, budget: u64) -> Result<Plan, Failure> {
    let operators = graph.operators().len() as OpId;
    let settings = Settings {
        chunk: CHUNK,
        link: LINK,
        is_across: true,
        memory: Some(budget),
    };
    let decided = [(0..operators).collect(), early(graph)].map(|schedule| {
        let job = Job {
            graph,
            schedule,
            times: graph.operators().iter().map(|op| op.time_ns).collect(),
            most: 1.0,
        };
        plan(&[job], &settings)
    });
    let decided = decided.iter().flatten();
    let least = decided.clone().map(|stays| stays.peak().1).min();
    let plans = decided.filter_map(|stays| stays.plan(budget).ok());
    let timed = plans.filter_map(|plan| Some((run(graph, &plan, LINK)?.total_ns, plan)));
    let best = timed.min_by_key(|(time, _)| *time);
    let (_, plan) = best.ok_or(Failure::PlannerNeeds {
        planner: Planner::Tensile.name(),
        budget,
        least: least.unwrap_or_default(),
    })?;
    proven(graph, plan)
}

/// SwapNet's plan in `budget` bytes: parameters come in blocks, all else stays. [`Failure::PlannerNeeds`] where two blocks in
/// a row do not fit, and [`Failure::NoBlocks`] where the graph has no parameters that stay as they are.
pub(super) fn blocks(graph: &Graph, budget: u64) -> Result<Plan, Failure> {
    let info = ModelInfo::of(graph).coarsened(graph, MOST_LAYERS);
    if info.bytes(graph) == 0 {
        return Err(Failure::NoBlocks);
    }
    let device = Coefficients::of_link(LINK);
    if let Some(mut plan) = plan_in_blocks(graph, budget, &device) {
        plan.budget = budget;
        return proven(graph, plan);
    }
    let reserve = BlockPlanner::new(graph, &info).reserve_bytes();
    let least = Costs::new(graph, &info, &device).least_budget();
    Err(Failure::PlannerNeeds {
        planner: Planner::Blocks.name(),
        budget,
        least: reserve + least,
    })
}

fn proven(graph: &Graph, plan: Plan) -> Result<Plan, Failure> {
    validate(graph, &plan).map_err(Failure::BadPlan)?;
    Ok(plan)
}
