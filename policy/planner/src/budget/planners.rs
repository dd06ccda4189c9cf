//! Plans that are made at once, without a search.

use alloc::vec::Vec;

use crate::advisor::{Problem, first};
use crate::blocks::{BlockPlanner, Coefficients, Costs, MOST_LAYERS, ModelInfo, plan_in_blocks};
use crate::graph::{Graph, OpId, Order};
use crate::machine::run;
use crate::plan::Plan;
use crate::tensile::{Job, Settings, early, plan};

use super::Machine;

/// Why a planner makes no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlan {
    /// It comes down to so many bytes, and the budget is smaller.
    Needs(u64),
    /// SwapNet's blocks are of parameters that no operator changes, and the graph has none.
    NoBlocks,
}

/// What makes a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// SwapAdvisor's planner, in the graph's own order of operators.
    Advisor,
    /// TENSILE's scheduling in the faster one of two orders of operators.
    Tensile,
    /// SwapNet's blocks: parameters come in while others run.
    Blocks,
}

impl Maker {
    /// All planners, in the order in which a curve tries them.
    pub const ALL: [Self; 3] = [Self::Advisor, Self::Tensile, Self::Blocks];

    /// As options and plan files call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Advisor => "advisor",
            Self::Tensile => "tensile",
            Self::Blocks => "blocks",
        }
    }

    /// A plan in `budget` bytes.
    ///
    /// # Errors
    /// The planner makes none in that budget.
    pub fn plan(self, graph: &Graph, budget: u64, machine: &Machine) -> Result<Plan, NoPlan> {
        match self {
            Self::Advisor => by_advisor(graph, budget, machine),
            Self::Tensile => by_tensile(graph, budget, machine),
            Self::Blocks => by_blocks(graph, budget, machine),
        }
    }
}

fn by_advisor(graph: &Graph, budget: u64, machine: &Machine) -> Result<Plan, NoPlan> {
    let (order, users) = (Order::of(graph), Problem::users(graph));
    let plan = first(Problem {
        graph,
        order: &order,
        users: &users,
        budget,
        chunk: machine.chunk,
        link: machine.link,
    });
    plan.ok_or_else(|| NoPlan::Needs(graph.largest(machine.chunk).bytes))
}

/// In the graph's own order of operators, or with the optimiser as early as it can run, whichever is faster.
fn by_tensile(graph: &Graph, budget: u64, machine: &Machine) -> Result<Plan, NoPlan> {
    let operators = graph.operators().len() as OpId;
    let settings = Settings {
        chunk: machine.chunk,
        link: machine.link,
        is_across: true,
        memory: Some(budget),
    };
    let mut schedules: Vec<Vec<OpId>> = [(0..operators).collect(), early(graph)].into();
    schedules.dedup();
    let decided: Vec<_> = schedules
        .into_iter()
        .flat_map(|schedule| {
            let job = Job {
                graph,
                schedule,
                times: graph.operators().iter().map(|op| op.time_ns).collect(),
                most: 1.0,
            };
            plan(&[job], &settings)
        })
        .collect();
    let plans = decided.iter().filter_map(|stays| stays.plan(budget).ok());
    let timed = plans.filter_map(|plan| Some((run(graph, &plan, machine.link)?.total_ns, plan)));
    let best = timed.min_by_key(|(time, _)| *time);
    best.map(|(_, plan)| plan).ok_or_else(|| {
        let least = decided.iter().map(|stays| stays.peak().1).min();
        NoPlan::Needs(least.unwrap_or_default())
    })
}

fn by_blocks(graph: &Graph, budget: u64, machine: &Machine) -> Result<Plan, NoPlan> {
    let info = ModelInfo::of(graph).coarsened(graph, MOST_LAYERS);
    if info.bytes(graph) == 0 {
        return Err(NoPlan::NoBlocks);
    }
    let device = Coefficients::of_link(machine.link);
    if let Some(mut plan) = plan_in_blocks(graph, budget, &device) {
        plan.budget = budget;
        return Ok(plan);
    }
    let reserve = BlockPlanner::new(graph, &info).reserve_bytes();
    let blocks = Costs::new(graph, &info, &device).least_budget();
    Err(NoPlan::Needs(reserve + blocks))
}
