//! Plans of random graphs.

use rtswap_planner::advisor::{ArenaPlanner, Lead, OnDemand, PooledPlanner, Pools, Rng, on_demand};
use rtswap_planner::graph::{Graph, Order};
use rtswap_planner::plan::Plan;

use super::graphs::schedule;

/// What makes a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planner {
    Pooled,
    Arena,
    OnDemand(OnDemand),
}

impl Planner {
    pub(crate) const ALL: [Self; 4] = [
        Self::Pooled,
        Self::Arena,
        Self::OnDemand(OnDemand::Passive),
        Self::OnDemand(OnDemand::Prefetch),
    ];

    /// A plan for a random schedule in a random budget, from an eighth of all tensors to all of
    /// them, with random pools, leads and chunk sizes. None where the planner finds no room for an
    /// operator.
    pub(crate) fn plan(self, graph: &Graph, rng: &mut Rng) -> Option<Plan> {
        let schedule = schedule(&Order::of(graph), rng);
        let budget = Pools::of_all(graph).bytes() * (1 + rng.below(8) as u64) / 8;
        // Any size down to single bytes: the agent's chunks are larger than most tensors of a small
        // model.
        let chunk = 1 << rng.below(17);
        let plan = match self {
            Self::Pooled => {
                let pools = pools(graph, budget, rng);
                PooledPlanner::new(graph).plan(&schedule, &pools).cloned()
            }
            Self::Arena => {
                let lead = Lead([(); Lead::PARTS].map(|()| rng.below(1_000_000) as u64));
                let lead = if rng.chance(0.2) { Lead::of(0) } else { lead };
                let mut planner = ArenaPlanner::new(graph, chunk);
                planner.plan(&schedule, budget, &lead).cloned()
            }
            Self::OnDemand(how) => on_demand(graph, &schedule, budget, chunk, how),
        };
        plan.ok()
    }
}

/// Pools with random classes; half the time an object for each tensor before the budget cuts the
/// counts.
fn pools(graph: &Graph, budget: u64, rng: &mut Rng) -> Pools {
    let sizes = graph.sizes().len();
    let mut class = 0;
    let class_of: Vec<u32> = (0..sizes)
        .map(|at| {
            class += u32::from(at > 0 && rng.chance(0.5));
            class
        })
        .collect();
    let most = graph.tensors().len();
    let is_whole = rng.chance(0.5);
    let counts: Vec<u32> = (0..=class)
        .map(|_| if is_whole { most } else { 1 + rng.below(most) } as u32)
        .collect();
    Pools::new(graph, class_of, &counts, budget)
}
