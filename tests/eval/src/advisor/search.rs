//! Runs searches on threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use rtswap_planner::advisor::{
    Allocation, Breeding, Brood, Individual, OnDemand, Problem, Scored, Search, Worker, on_demand,
};
use rtswap_planner::graph::{Graph, OpId, Order, Starts};
use rtswap_planner::machine::{Link, Run, run};
use rtswap_planner::plan::Plan;
use rtswap_planner::validator::validate;

use super::CHUNK;

/// A graph with what a search has to know of it.
pub struct Prepared {
    /// The graph.
    pub graph: Graph,
    order: Order,
    users: Starts,
}

impl Prepared {
    /// Prepares a graph.
    pub fn new(graph: Graph) -> Self {
        let (order, users) = (Order::of(&graph), Problem::users(&graph));
        Self {
            graph,
            order,
            users,
        }
    }

    /// The search for a plan in so many bytes.
    pub fn problem(&self, budget: u64) -> Problem<'_> {
        Problem {
            graph: &self.graph,
            order: &self.order,
            users: &self.users,
            budget,
            chunk: CHUNK,
            link: Link::PCIE3,
        }
    }

    /// All operators in the order in which PyTorch ran them.
    pub fn trace(&self) -> Vec<OpId> {
        (0..self.graph.operators().len() as OpId).collect()
    }
}

/// How long to search, and on how many threads.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Generations of a population, the founders included, at least 1.
    pub generations: u32,
    /// Threads: they change how long it takes, and nothing else.
    pub threads: usize,
    /// Decides all random numbers.
    pub seed: u64,
}

/// What a search found: the run of the best plan, which was proven; none if it found no plan.
pub fn search<A: Allocation>(
    problem: Problem<'_>,
    breeding: Breeding,
    founders: Vec<Individual<A>>,
    effort: Effort,
    mut watch: impl FnMut(u32, &Search<A>),
) -> Result<Option<Run>> {
    let mut search = Search::new(breeding, effort.seed, founders);
    let worker = || Worker::new(problem, breeding);
    let mut workers: Vec<Worker<'_, A>> = (0..effort.threads.max(1)).map(|_| worker()).collect();
    for generation in 1..=effort.generations.max(1) {
        search.step(|broods| raise(&mut workers, broods));
        watch(generation, &search);
    }
    let Some((time, best)) = search.best() else {
        return Ok(None);
    };
    let mut planner = A::planner(&problem);
    let plan = best
        .allocation
        .plan(&problem, &mut planner, &best.schedule)?;
    let run = proven(&problem, plan)?;
    ensure!(
        run.total_ns == *time,
        "the best plan takes another time now"
    );
    Ok(Some(run))
}

/// Hands the broods out to the workers; what comes of them is in the order of the broods.
fn raise<A: Allocation>(workers: &mut [Worker<'_, A>], broods: &[Brood<'_, A>]) -> Vec<Scored<A>> {
    let next = AtomicUsize::new(0);
    let work = |worker: &mut Worker<'_, A>| -> Vec<(usize, Vec<Scored<A>>)> {
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < broods.len());
        std::iter::from_fn(take)
            .map(|at| (at, worker.raise(&broods[at])))
            .collect()
    };
    let mut raised = thread::scope(|scope| {
        let threads = workers
            .iter_mut()
            .map(|worker| scope.spawn(|| work(worker)));
        let threads: Vec<_> = threads.collect();
        let done = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a worker panicked"));
        done.collect::<Vec<_>>()
    });
    raised.sort_unstable_by_key(|(at, _)| *at);
    raised.into_iter().flat_map(|(_, scored)| scored).collect()
}

/// The run of swapping on demand with prefetch (ODSwap), its plan proven.
pub fn on_demand_run(problem: Problem<'_>, schedule: &[OpId]) -> Result<Run> {
    let Problem {
        graph,
        budget,
        chunk,
        ..
    } = problem;
    let plan = on_demand(graph, schedule, budget, chunk, OnDemand::Prefetch)?;
    proven(&problem, &plan)
}

fn proven(problem: &Problem<'_>, plan: &Plan) -> Result<Run> {
    validate(problem.graph, plan)?;
    run(problem.graph, plan, problem.link).context("the plan waits for itself")
}
