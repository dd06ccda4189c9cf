//! Fig. 9: what SwapAdvisor's search finds from generation to generation.

use anyhow::Result;
use rtswap_planner::advisor::{
    Allocation, Breeding, Infeasible, Lead, PooledPlanner, Pools, Problem, Rng, founders,
};
use rtswap_planner::graph::OpId;
use rtswap_planner::machine::Roofline;
use rtswap_planner::plan::Plan;

use super::BUDGET;
use super::models::Model;
use super::search::{Effort, Prepared, search};

/// The times of those alive behind a generation, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The best so far.
    pub best: u64,
    /// Their mean.
    pub mean: u64,
    /// The worst.
    pub worst: u64,
}

/// Which search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SwapAdvisor's (Fig. 9a, 9b).
    Paper,
    /// SwapAdvisor's without its restriction of size classes (Fig. 9c).
    Unrestricted,
    /// Ours from PyTorch's order.
    Ours,
}

/// Each generation of a search for a model with its largest batch; none for those in which nobody has a plan.
pub fn progress(model: &Model, kind: Kind, effort: Effort) -> Result<Vec<Option<Generation>>> {
    let [.., batch] = model.batches;
    let prepared = Prepared::new(model.graph(batch, &Roofline::V100)?);
    let problem = prepared.problem(BUDGET);
    match kind {
        Kind::Paper => watched::<Pools>(problem, Breeding::PAPER, effort),
        Kind::Unrestricted => watched::<Unrestricted>(problem, Breeding::PAPER, effort),
        Kind::Ours => {
            let mut seen = Vec::new();
            let first = founders(&problem);
            search::<Lead>(problem, Breeding::OURS, first, effort, |_, search| {
                seen.push(generation(
                    search.best().map(|(best, _)| *best),
                    search.times(),
                ));
            })?;
            Ok(seen)
        }
    }
}

fn watched<A: Allocation>(
    problem: Problem<'_>,
    breeding: Breeding,
    effort: Effort,
) -> Result<Vec<Option<Generation>>> {
    let mut seen = Vec::new();
    search::<A>(problem, breeding, Vec::new(), effort, |_, search| {
        seen.push(generation(
            search.best().map(|(best, _)| *best),
            search.times(),
        ));
    })?;
    Ok(seen)
}

fn generation(best: Option<u64>, times: impl Iterator<Item = u64>) -> Option<Generation> {
    let times: Vec<u64> = times.collect();
    let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
    Some(Generation {
        best: best?,
        mean: u64::try_from(sum / times.len().max(1) as u128).unwrap_or(u64::MAX),
        worst: times.into_iter().max()?,
    })
}

/// A division whose sizes may be in any class.
#[derive(Clone, Debug)]
struct Unrestricted(Pools);

impl Unrestricted {
    fn new(problem: &Problem<'_>, class_of: Vec<u32>, counts: &[u32]) -> Self {
        Self(Pools::new(problem.graph, class_of, counts, problem.budget))
    }

    fn counts(&self) -> Vec<u32> {
        self.0.classes().iter().map(|class| class.count).collect()
    }
}

impl Allocation for Unrestricted {
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
        planner.plan(schedule, &self.0)
    }

    fn random(problem: &Problem<'_>, rng: &mut Rng) -> Self {
        let sizes = problem.graph.sizes();
        let class_of = sizes
            .iter()
            .map(|_| rng.below(sizes.len()) as u32)
            .collect();
        let share = problem.budget as f64 / sizes.len() as f64;
        let counts: Vec<u32> = sizes
            .iter()
            .map(|size| (rng.unit() * 2.0 * share / *size as f64) as u32)
            .collect();
        Self::new(problem, class_of, &counts)
    }

    fn cross(problem: &Problem<'_>, one: &Self, other: &Self, rng: &mut Rng) -> [Self; 2] {
        let at = rng.below(problem.graph.sizes().len() + 1);
        [(one, other), (other, one)].map(|(front, back)| {
            let joined = |front: &[u32], back: &[u32]| [&front[..at], &back[at..]].concat();
            let class_of = joined(front.0.class_of(), back.0.class_of());
            Self::new(problem, class_of, &joined(&front.counts(), &back.counts()))
        })
    }

    fn mutate(&self, problem: &Problem<'_>, mutation: f64, rng: &mut Rng) -> Self {
        let mut class_of = self.0.class_of().to_vec();
        let mut counts = self.counts();
        for class in &mut class_of {
            if rng.chance(mutation) {
                *class = rng.below(counts.len()) as u32;
            }
        }
        for count in &mut counts {
            if rng.chance(mutation) {
                let before = f64::from(*count);
                *count = (before + rng.normal() * (before * 0.25).max(1.0)).max(0.0) as u32;
            }
        }
        Self::new(problem, class_of, &counts)
    }
}
