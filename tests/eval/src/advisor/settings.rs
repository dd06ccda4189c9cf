//! Fig. 10: what SwapAdvisor's search finds where schedules or allocations are not searched.

use anyhow::Result;
use rtswap_planner::advisor::{Breeding, Individual, Pools, random_schedule};
use rtswap_planner::machine::{Roofline, Run};

use super::BUDGET;
use super::models::Model;
use super::search::{Effort, Prepared, search};

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Both.
    Both,
    /// Allocations for one random schedule.
    Allocations,
    /// Schedules for one division: a class for each size, and as many objects of it as tensors, cut to the budget.
    Schedules,
}

/// What a search for a model with its largest batch finds in a setting; none where it finds no plan.
pub fn found(model: &Model, setting: Setting, effort: Effort) -> Result<Option<Run>> {
    let [.., batch] = model.batches;
    let prepared = Prepared::new(model.graph(batch, &Roofline::V100)?);
    let problem = prepared.problem(BUDGET);
    let breeding = Breeding {
        schedules: setting != Setting::Allocations,
        allocations: setting != Setting::Schedules,
        ..Breeding::PAPER
    };
    let graph = &prepared.graph;
    let fixed = random_schedule(problem.order, effort.seed);
    let founders = match setting {
        Setting::Both => Vec::new(),
        Setting::Allocations => (0..breeding.population as u64)
            .map(|seed| Individual {
                schedule: fixed.clone(),
                allocation: Pools::any(graph, BUDGET, seed),
            })
            .collect(),
        Setting::Schedules => {
            let classes = (0..graph.sizes().len() as u32).collect();
            let pools = Pools::new(graph, classes, graph.size_counts(), BUDGET);
            (0..breeding.population as u64)
                .map(|seed| Individual {
                    schedule: random_schedule(problem.order, seed),
                    allocation: pools.clone(),
                })
                .collect()
        }
    };
    search(problem, breeding, founders, effort, |_, _| ())
}
