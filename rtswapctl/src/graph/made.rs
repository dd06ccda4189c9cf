//! Plans that are made at once: by TENSILE's scheduling, and in SwapNet's blocks.

use rtswap_planner::blocks::{BlockPlanner, Coefficients, Costs, Execution, ModelInfo, partition};
use rtswap_planner::graph::{Graph, Kind, OpId};
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
    let changes = |id: &u32| graph.operators().iter().any(|op| op.updates.contains(id));
    let ids = 0..graph.tensors().len() as u32;
    let mut parameters = ids.filter(|id| graph.tensor(*id).kind == Kind::Parameter);
    if parameters.all(|id| changes(&id)) {
        return Err(Failure::NoBlocks);
    }
    let device = Coefficients {
        read_ns_per_byte: 1.0 / LINK.alone,
        assembly_ns_per_reference: LINK.latency_ns,
        execution: Execution::Recorded,
        reset_ns_per_reference: 0.0,
        collection_ns: 0.0,
    };
    let info = ModelInfo::of(graph).coarsened(graph, MOST_LAYERS);
    let planner = BlockPlanner::new(graph, &info);
    let costs = Costs::new(graph, &info, &device);
    let reserve = planner.reserve_bytes();
    let found = budget
        .checked_sub(reserve)
        .and_then(|blocks| partition(&costs, blocks));
    let found = found.ok_or_else(|| Failure::PlannerNeeds {
        planner: Planner::Blocks.name(),
        budget,
        least: reserve + costs.least_budget(),
    })?;
    let mut plan = planner.plan(&found);
    plan.budget = budget;
    proven(graph, plan)
}

/// More layers than these take the search for blocks longer than they are worth.
const MOST_LAYERS: usize = 250;

fn proven(graph: &Graph, plan: Plan) -> Result<Plan, Failure> {
    validate(graph, &plan).map_err(Failure::BadPlan)?;
    Ok(plan)
}
