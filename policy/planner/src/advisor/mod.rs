//! SwapAdvisor (Huang, Jin and Li, ASPLOS 2020): which tensors of a job swap, and when.
//!
//! The paper's own: [`Pools`] divides the budget into objects of a few sizes, [`PooledPlanner`] makes the plan for one schedule
//! and one division, and [`Search`] breeds better schedules and divisions. Ours: [`ArenaPlanner`] has chunks in place of pools,
//! and the search mends schedules so that what uses the same tensors runs together (`locality`) and what frees memory runs
//! early (`early`). [`on_demand()`] is the baseline of both.

mod allocation;
mod arena;
mod early;
mod fitted;
mod locality;
mod on_demand;
mod pooled;
mod pools;
mod rng;
mod schedule;
mod search;
mod uses;
mod worker;

pub use allocation::Allocation;
pub use arena::{ArenaPlanner, Lead};
pub use on_demand::{OnDemand, on_demand};
pub use pooled::PooledPlanner;
pub use pools::{Class, Pools};
pub use rng::Rng;
pub use search::{Breeding, Search};
pub use worker::{Brood, Individual, Problem, Scored, Worker};

use alloc::vec::Vec;

use crate::graph::{OpId, Order};
use crate::machine::run;
use crate::plan::Plan;

/// An operator finds no memory for all its tensors at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operator {op} finds no memory for all its tensors at once")]
pub struct Infeasible {
    /// The operator that needs too much.
    pub op: OpId,
}

/// Individuals to begin a search with: the graph's own order of operators, with leads from none to a second.
pub fn founders(problem: &Problem<'_>) -> Vec<Individual<Lead>> {
    let operators = problem.graph.operators().len() as OpId;
    let leads_ms = [0, 10, 30, 100, 300, 1000];
    let individual = |ms: u64| Individual {
        schedule: (0..operators).collect(),
        allocation: Lead::of(ms * 1_000_000),
    };
    leads_ms.into_iter().map(individual).collect()
}

/// The fastest plan of the [`founders`]: in the graph's own order of operators, without a search. None if an operator needs more
/// than the budget.
pub fn first(problem: Problem<'_>) -> Option<Plan> {
    let mut planner = Lead::planner(&problem);
    let mut best: Option<(u64, Plan)> = None;
    for founder in founders(&problem) {
        let made = founder
            .allocation
            .plan(&problem, &mut planner, &founder.schedule);
        let Ok(plan) = made else {
            continue;
        };
        let Some(run) = run(problem.graph, plan, problem.link) else {
            continue;
        };
        if best.as_ref().is_none_or(|(time, _)| run.total_ns < *time) {
            best = Some((run.total_ns, plan.clone()));
        }
    }
    best.map(|(_, plan)| plan)
}

/// As [`founders`], for a budget in pools: divisions that suit that order.
pub fn pool_founders(problem: &Problem<'_>) -> Vec<Individual<Pools>> {
    let operators = problem.graph.operators().len() as OpId;
    let individual = |allocation: Pools| Individual {
        schedule: (0..operators).collect(),
        allocation,
    };
    let divisions = fitted::fitted(problem.graph, problem.budget);
    divisions.into_iter().map(individual).collect()
}

/// A schedule that a seed chooses: each time any operator that can run next, all with the same chance.
pub fn random_schedule(order: &Order, seed: u64) -> Vec<OpId> {
    schedule::random(order, &mut Rng::new(seed))
}
