//! How far plans are from the best ones: small random graphs against an exhaustive search.
//!
//! An optimum may divide memory as it likes, choose any residents and begin each copy at any time,
//! and so may no planner: that no plan is faster shows that plans do not cheat, and the gaps are
//! what the planners leave.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::graphs::{largest, operator, tensor, trace};
use common::optimum::Model;
use rtswap_planner::advisor::{
    Allocation, Breeding, Individual, Lead, OnDemand, Pools, Problem, Rng, Search, Worker,
    on_demand,
};
use rtswap_planner::graph::{Graph, Kind, Order, TensorId};
use rtswap_planner::machine::{Link, run};
use rtswap_planner::validator::validate;

/// Bytes of a unit of memory, and nanoseconds of a step: a unit is copied in a step.
const UNIT: u64 = 256;

const LINK: Link = Link {
    alone: 1.0,
    duplex: 1.0,
    latency_ns: 0.0,
};

/// Unoptimised, the search takes many times as long.
const GRAPHS: usize = if cfg!(debug_assertions) { 200 } else { 2_000 };

/// Three to eight operators of up to 3 steps, and up to eight tensors of 1 or 2 units.
fn small(rng: &mut Rng) -> Graph {
    const MOST: usize = 8;
    const GIVEN: [Kind; 3] = [Kind::Parameter, Kind::OptimizerState, Kind::Input];
    let mut tensors = Vec::new();
    let mut add = |rng: &mut Rng, kind| {
        tensors.push(tensor(kind, UNIT * (1 + rng.below(2) as u64)));
        tensors.len() as TensorId - 1
    };
    let mut known: Vec<TensorId> = (0..2 + rng.below(3))
        .map(|_| {
            let kind = GIVEN[rng.below(GIVEN.len())];
            add(rng, kind)
        })
        .collect();
    let mut operators = Vec::new();
    for _ in 0..3 + rng.below(6) {
        let (mut inputs, mut updates) = (Vec::new(), Vec::new());
        for _ in 0..=rng.below(2) {
            let id = known[rng.below(known.len())];
            if !inputs.contains(&id) && !updates.contains(&id) {
                if rng.chance(0.25) {
                    updates.push(id);
                } else {
                    inputs.push(id);
                }
            }
        }
        let mut outputs = Vec::new();
        if known.len() < MOST && rng.chance(0.6) {
            let kind = if rng.chance(0.5) {
                Kind::Activation
            } else {
                Kind::Gradient
            };
            outputs.push(add(rng, kind));
            known.extend(&outputs);
        }
        let steps = rng.below(4) as u64;
        operators.push(operator(&inputs, &updates, &outputs, steps * UNIT));
    }
    Graph::new(tensors, operators).expect("operators read only what is given or made before")
}

/// The steps of the best plan that a short search finds.
fn search<A: Allocation>(
    problem: Problem<'_>,
    breeding: Breeding,
    generations: u32,
    founders: Vec<Individual<A>>,
) -> Option<f64> {
    let mut search = Search::new(breeding, 1, founders);
    let mut worker = Worker::<A>::new(problem, breeding);
    for _ in 0..generations {
        search.step(|broods| {
            broods
                .iter()
                .flat_map(|brood| worker.raise(brood))
                .collect()
        });
    }
    let (time, best) = search.best()?;
    let mut planner = A::planner(&problem);
    let plan = best
        .allocation
        .plan(&problem, &mut planner, &best.schedule)
        .expect("it had a plan");
    validate(problem.graph, plan).expect("plans are right");
    Some(*time as f64 / UNIT as f64)
}

/// How much longer the plans of one planner take than the best ones, as a share.
struct Gaps {
    name: &'static str,
    found: Vec<f64>,
    /// The largest, and the seed of its graph.
    worst: (f64, u64),
    infeasible: usize,
}

impl Gaps {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            found: Vec::new(),
            worst: (0.0, 0),
            infeasible: 0,
        }
    }

    fn add(&mut self, steps: Option<f64>, best: u32, seed: u64) {
        let (name, best) = (self.name, f64::from(best));
        let Some(steps) = steps else {
            self.infeasible += 1;
            return;
        };
        assert!(
            steps >= best,
            "{name}, seed {seed}: {steps} steps, the best {best}"
        );
        let gap = steps / best - 1.0;
        self.found.push(gap);
        if gap > self.worst.0 {
            self.worst = (gap, seed);
        }
    }

    fn mean(&self) -> f64 {
        self.found.iter().sum::<f64>() / self.found.len() as f64
    }

    fn print(&self) {
        let (name, infeasible, (worst, seed)) = (self.name, self.infeasible, self.worst);
        let (plans, mean) = (self.found.len(), self.mean() * 100.0);
        let exact = self.found.iter().filter(|gap| **gap < 1e-9).count();
        let worst = worst * 100.0;
        println!(
            "{name}: mean gap {mean:.2} %, largest {worst:.0} % (seed {seed}); {exact} of {plans} plans are optimal, \
             {infeasible} graphs have none"
        );
    }
}

/// A small graph and a budget that is up to two units larger than its largest operator. None where
/// all tensors fit.
fn case(seed: u64) -> Option<(Graph, u64)> {
    let mut rng = Rng::new(seed);
    let graph = small(&mut rng);
    let (least, _) = largest(&graph, UNIT);
    let budget = least + UNIT * rng.below(3) as u64;
    let all: u64 = graph.tensors().iter().map(|tensor| tensor.bytes).sum();
    (budget < all).then_some((graph, budget))
}

#[test]
fn no_plan_is_faster_than_the_best_one() {
    let names = [
        "arena, searched",
        "pools, searched",
        "on demand, passive",
        "on demand, prefetched",
    ];
    let [mut arena, mut pools, mut passive, mut prefetched] = names.map(Gaps::new);
    let cases = (0..).filter_map(|seed| Some((seed, case(seed)?)));
    for (seed, (graph, budget)) in cases.take(GRAPHS) {
        let model = Model::new(&graph, UNIT, (budget / UNIT) as u8);
        let (best, plan) = model.best_plan(UNIT).expect("each operator fits");
        // What the search finds is a plan, and so the optimum.
        validate(&graph, &plan).expect("the best plan is right");
        let ran = run(&graph, &plan, LINK).expect("no deadlock");
        assert_eq!(ran.total_ns, u64::from(best) * UNIT);
        if best == 0 {
            continue;
        }
        let (order, users) = (Order::of(&graph), Problem::users(&graph));
        let problem = Problem {
            graph: &graph,
            order: &order,
            users: &users,
            budget,
            chunk: UNIT,
            link: LINK,
        };
        let schedule = trace(&graph);
        let founder = |lead| Individual {
            schedule: schedule.clone(),
            allocation: Lead::of(lead * UNIT),
        };
        let founders = [0, 2, 4, 8].map(founder).into();
        let found = search::<Lead>(problem, Breeding::OURS, 10, founders);
        arena.add(found, best, seed);
        let found = search::<Pools>(problem, Breeding::PAPER, 2, Vec::new());
        pools.add(found, best, seed);
        let baselines = [
            (&mut passive, OnDemand::Passive),
            (&mut prefetched, OnDemand::Prefetch),
        ];
        for (gaps, how) in baselines {
            let plan = on_demand(&graph, &schedule, budget, UNIT, how);
            let ran = run(&graph, &plan.expect("each operator fits"), LINK).expect("no deadlock");
            gaps.add(Some(ran.total_ns as f64 / UNIT as f64), best, seed);
        }
    }
    for gaps in [&arena, &pools, &passive, &prefetched] {
        gaps.print();
    }
    assert_eq!(
        arena.infeasible, 0,
        "an arena has room where each operator fits"
    );
    assert!(arena.mean() < 0.05, "{}", arena.mean());
    assert!(pools.mean() < 0.15, "{}", pools.mean());
    assert!(arena.mean() < pools.mean() && prefetched.mean() < passive.mean());
}
