//! The genetic search: what it finds depends on its seed and its steps only, and never gets worse.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use std::thread;

use common::graphs::{largest, random, trace};
use rtswap_planner::advisor::{
    Allocation, Breeding, Brood, Individual, Lead, Pools, Problem, Rng, Scored, Search, Worker,
};
use rtswap_planner::graph::{Graph, Order, Starts};
use rtswap_planner::machine::{Link, run};
use rtswap_planner::plan::Plan;
use rtswap_planner::validator::validate;

const CHUNK: u64 = 4096;

/// A graph with all that a problem borrows.
struct Job {
    graph: Graph,
    order: Order,
    users: Starts,
    budget: u64,
}

impl Job {
    /// 120 operators in a budget that is somewhat larger than the largest one.
    fn new(seed: u64) -> Self {
        let graph = random(&mut Rng::new(seed), 120);
        let (largest, _) = largest(&graph, CHUNK);
        Self {
            order: Order::of(&graph),
            users: Problem::users(&graph),
            budget: largest * 3 / 2,
            graph,
        }
    }

    fn problem(&self) -> Problem<'_> {
        Problem {
            graph: &self.graph,
            order: &self.order,
            users: &self.users,
            budget: self.budget,
            chunk: CHUNK,
            link: Link::PCIE3,
        }
    }

    /// The plan of the best individual of a search.
    fn plan<A: Allocation>(&self, search: &Search<A>) -> Plan {
        let problem = self.problem();
        let (time, best) = search.best().expect("a plan");
        let mut planner = A::planner(&problem);
        let plan = best.allocation.plan(&problem, &mut planner, &best.schedule);
        let plan = plan.expect("it had a plan").clone();
        validate(&self.graph, &plan).expect("plans are right");
        let ran = run(&self.graph, &plan, problem.link).expect("no deadlock");
        assert_eq!(ran.total_ns, *time);
        plan
    }

    /// The search of a seed after so many steps, each on so many threads.
    fn search<A>(&self, breeding: Breeding, seed: u64, steps: usize, threads: usize) -> Search<A>
    where
        A: Allocation + Send + Sync,
    {
        let mut search = Search::new(breeding, seed, Vec::new());
        for _ in 0..steps {
            search.step(|broods| self.raise(breeding, broods, threads));
        }
        search
    }

    /// Raises broods on threads that each have a worker of their own, and gives what came of them
    /// in order.
    fn raise<A>(
        &self,
        breeding: Breeding,
        broods: &[Brood<'_, A>],
        threads: usize,
    ) -> Vec<Scored<A>>
    where
        A: Allocation + Send + Sync,
    {
        thread::scope(|scope| {
            let parts = broods.chunks(broods.len().div_ceil(threads));
            let handles = parts.map(|part| {
                scope.spawn(move || {
                    let mut worker = Worker::new(self.problem(), breeding);
                    let raised = part.iter().flat_map(|brood| worker.raise(brood));
                    raised.collect::<Vec<_>>()
                })
            });
            let handles: Vec<_> = handles.collect();
            let raised = handles
                .into_iter()
                .map(|handle| handle.join().expect("no panic"));
            raised.flatten().collect()
        })
    }
}

/// The same plan, byte for byte, and the same individuals alive.
fn agrees<A: Allocation + Send + Sync>(breeding: Breeding, steps: usize) {
    let job = Job::new(3);
    let of = |threads| {
        let search = job.search::<A>(breeding, 7, steps, threads);
        let alive: Vec<u64> = search.times().collect();
        (format!("{:?}", job.plan(&search)), alive)
    };
    let first = of(1);
    for threads in [1, 2, 5] {
        assert!(of(threads) == first, "on {threads} threads");
    }
    let other = job.search::<A>(breeding, 8, steps, 1);
    assert!(
        other.times().collect::<Vec<_>>() != first.1,
        "another seed finds others"
    );
}

#[test]
fn an_arena_is_searched_alike_on_any_number_of_threads() {
    agrees::<Lead>(Breeding::OURS, 20);
}

#[test]
fn pools_are_searched_alike_on_any_number_of_threads() {
    agrees::<Pools>(Breeding::PAPER, 4);
}

#[test]
fn the_best_never_gets_worse() {
    for seed in 0..5 {
        let job = Job::new(seed);
        let mut search = Search::<Lead>::new(Breeding::OURS, seed, Vec::new());
        let mut times = Vec::new();
        for _ in 0..40 {
            search.step(|broods| job.raise(Breeding::OURS, broods, 1));
            times.push(search.best().expect("a plan").0);
            assert!(search.times().count() <= Breeding::OURS.population);
        }
        assert!(times.is_sorted_by(|one, next| one >= next), "{times:?}");
        assert!(times.first() > times.last(), "{times:?}");
        job.plan(&search);
    }
}

/// A search that only varies what its founders have: the first step raises them, and fills up with
/// random ones.
#[test]
fn founders_are_raised() {
    let job = Job::new(1);
    let founder = |lead| Individual {
        schedule: trace(&job.graph),
        allocation: Lead::of(lead),
    };
    let founders: Vec<Individual<Lead>> = [0, 1 << 14, 1 << 17, 1 << 20].map(founder).into();
    let breeding = Breeding {
        population: founders.len(),
        ..Breeding::OURS
    };
    let mut worker = Worker::new(job.problem(), breeding);
    let mut times = Vec::new();
    for founder in &founders {
        let raised = worker.raise(&Brood::Founder(founder));
        assert_eq!(raised.len(), 1);
        assert_eq!(raised[0].individual, *founder);
        times.push(raised[0].time.expect("a plan"));
    }
    for more in [0, 3] {
        let breeding = Breeding {
            population: founders.len() + more,
            ..breeding
        };
        let mut search = Search::new(breeding, 1, founders.clone());
        let mut random = 0;
        search.step(|broods| {
            random = broods
                .iter()
                .filter(|brood| matches!(brood, Brood::Random { .. }))
                .count();
            assert_eq!(broods.len(), founders.len() + more);
            job.raise(breeding, broods, 2)
        });
        assert_eq!(random, more);
        let (best, _) = search.best().expect("a plan");
        assert!(best <= times.iter().min().expect("founders"));
        for time in &times {
            assert!(search.times().any(|alive| alive == *time));
        }
    }
}

/// Where schedules may not vary, all have the founders'; the same of allocations.
#[test]
fn a_search_varies_only_what_it_may() {
    let job = Job::new(2);
    let founder = Individual {
        schedule: trace(&job.graph),
        allocation: Lead::of(50_000),
    };
    for (schedules, allocations) in [(true, false), (false, true)] {
        let breeding = Breeding {
            population: 1,
            temperature: 1.0,
            schedules,
            allocations,
            ..Breeding::OURS
        };
        let mut search = Search::new(breeding, 1, vec![founder.clone()]);
        let (mut seen_schedules, mut seen_allocations) = (0, 0);
        for _ in 0..20 {
            search.step(|broods| {
                let raised = job.raise(breeding, broods, 1);
                let differ = |is: fn(&Individual<Lead>, &Individual<Lead>) -> bool| {
                    raised
                        .iter()
                        .filter(|scored| is(&scored.individual, &founder))
                        .count()
                };
                seen_schedules += differ(|one, other| one.schedule != other.schedule);
                seen_allocations += differ(|one, other| one.allocation != other.allocation);
                raised
            });
        }
        assert_eq!(seen_schedules > 0, schedules);
        assert_eq!(seen_allocations > 0, allocations);
    }
}

#[test]
fn a_search_without_a_plan_finds_none() {
    let job = Job {
        budget: CHUNK,
        ..Job::new(4)
    };
    let search = job.search::<Lead>(Breeding::OURS, 1, 3, 2);
    assert!(search.best().is_none());
    assert_eq!(search.times().count(), 0);
    let search = job.search::<Pools>(Breeding::PAPER, 1, 3, 2);
    assert!(search.best().is_none());
    let none = Breeding {
        population: 0,
        ..Breeding::OURS
    };
    let mut search = Search::<Lead>::new(none, 1, Vec::new());
    search.step(|broods| {
        assert!(broods.is_empty());
        Vec::new()
    });
    assert!(search.best().is_none());
}
