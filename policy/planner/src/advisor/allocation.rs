//! How a search divides memory: what of an individual is not its schedule.

use super::Infeasible;
use super::arena::{ArenaPlanner, Lead};
use super::pooled::PooledPlanner;
use super::pools::Pools;
use super::rng::Rng;
use super::worker::Problem;
use crate::graph::OpId;
use crate::plan::Plan;

/// What a planner is told beside the schedule, as a search breeds it.
pub trait Allocation: Clone + Send + Sync {
    /// Makes the plans.
    type Planner<'a>: Send;

    /// A planner for a problem.
    fn planner<'a>(problem: &Problem<'a>) -> Self::Planner<'a>;

    /// The plan for a schedule with this allocation.
    fn plan<'p>(
        &self,
        problem: &Problem<'_>,
        planner: &'p mut Self::Planner<'_>,
        schedule: &[OpId],
    ) -> Result<&'p Plan, Infeasible>;

    /// A random allocation.
    fn random(problem: &Problem<'_>, rng: &mut Rng) -> Self;

    /// Two that have something of both.
    fn cross(problem: &Problem<'_>, one: &Self, other: &Self, rng: &mut Rng) -> [Self; 2];

    /// A copy in which each element differs with a chance of `mutation`.
    #[must_use]
    fn mutate(&self, problem: &Problem<'_>, mutation: f64, rng: &mut Rng) -> Self;
}

impl Allocation for Lead {
    type Planner<'a> = ArenaPlanner<'a>;

    fn planner<'a>(problem: &Problem<'a>) -> Self::Planner<'a> {
        ArenaPlanner::new(problem.graph, problem.chunk)
    }

    fn plan<'p>(
        &self,
        problem: &Problem<'_>,
        planner: &'p mut Self::Planner<'_>,
        schedule: &[OpId],
    ) -> Result<&'p Plan, Infeasible> {
        planner.plan(schedule, problem.budget, self)
    }

    /// The same lead in all parts: as long as copying between a 4096th of the budget and half of it takes.
    fn random(problem: &Problem<'_>, rng: &mut Rng) -> Self {
        let whole = problem.budget as f64 / problem.link.alone;
        Self::of((whole * libm::exp2(-1.0 - 11.0 * rng.unit())) as u64)
    }

    fn cross(_: &Problem<'_>, one: &Self, other: &Self, rng: &mut Rng) -> [Self; 2] {
        let at = rng.below(Self::PARTS + 1);
        let (mut first, mut second) = (*one, *other);
        first.0[at..].swap_with_slice(&mut second.0[at..]);
        [first, second]
    }

    fn mutate(&self, _: &Problem<'_>, mutation: f64, rng: &mut Rng) -> Self {
        let mut changed = *self;
        for ns in &mut changed.0 {
            if rng.chance(mutation) {
                // Seldom more than the double or the half; none grows from a millisecond.
                *ns = ((*ns).max(1_000_000) as f64 * libm::exp2(rng.normal() * 0.5)) as u64;
            }
        }
        changed
    }
}

impl Allocation for Pools {
    type Planner<'a> = PooledPlanner<'a>;

    fn planner<'a>(problem: &Problem<'a>) -> Self::Planner<'a> {
        PooledPlanner::new(problem.graph)
    }

    fn plan<'p>(
        &self,
        _: &Problem<'_>,
        planner: &'p mut Self::Planner<'_>,
        schedule: &[OpId],
    ) -> Result<&'p Plan, Infeasible> {
        planner.plan(schedule, self)
    }

    fn random(problem: &Problem<'_>, rng: &mut Rng) -> Self {
        Self::random(problem.graph, problem.budget, rng)
    }

    fn cross(problem: &Problem<'_>, one: &Self, other: &Self, rng: &mut Rng) -> [Self; 2] {
        let at = rng.below(problem.graph.sizes().len() + 1);
        [(one, other), (other, one)]
            .map(|(front, back)| Self::cross(problem.graph, front, back, at, problem.budget))
    }

    fn mutate(&self, problem: &Problem<'_>, mutation: f64, rng: &mut Rng) -> Self {
        self.mutated(problem.graph, problem.budget, mutation, rng)
    }
}
