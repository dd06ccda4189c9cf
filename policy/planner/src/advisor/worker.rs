//! Raises the individuals of a search: breeds, plans and times them. Each thread has a worker of its own.

use alloc::vec::Vec;

use super::allocation::Allocation;
use super::early::Early;
use super::locality::{Locality, Weights};
use super::rng::Rng;
use super::search::Breeding;
use super::{schedule, uses};
use crate::graph::{Graph, OpId, Order, Starts};
use crate::machine::{self, Link};

/// What is searched for: a plan for this graph in this budget.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The graph of one iteration.
    pub graph: &'a Graph,
    /// The order that its tensors ask for.
    pub order: &'a Order,
    /// The operators that use each tensor: [`Problem::users`].
    pub users: &'a Starts,
    /// GPU memory in bytes.
    pub budget: u64,
    /// The size of the chunks of an arena, in bytes.
    pub chunk: u64,
    /// The link between host and GPU.
    pub link: Link,
}

impl Problem<'_> {
    /// The operators that use each tensor of a graph.
    pub fn users(graph: &Graph) -> Starts {
        uses::users(graph)
    }
}

/// A schedule with an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Individual<A> {
    /// All operators in the order in which they run.
    pub schedule: Vec<OpId>,
    /// How memory is divided.
    pub allocation: A,
}

/// An individual with how long its plan takes, in nanoseconds; none where it has no plan.
#[derive(Clone, Debug)]
pub struct Scored<A> {
    /// A schedule and an allocation.
    pub individual: Individual<A>,
    /// The time of its plan.
    pub time: Option<u64>,
}

/// Individuals to be raised together.
#[derive(Debug)]
pub enum Brood<'s, A> {
    /// One that there is already.
    Founder(&'s Individual<A>),
    /// A random one.
    Random {
        /// The seed of its random numbers.
        seed: u64,
    },
    /// Four children of two.
    Children {
        /// The two parents.
        of: [&'s Individual<A>; 2],
        /// The seed of crossover and mutation.
        seed: u64,
    },
}

/// Raises broods for one problem.
pub struct Worker<'a, A: Allocation> {
    problem: Problem<'a>,
    breeding: Breeding,
    planner: A::Planner<'a>,
    locality: Locality<'a>,
    early: Early<'a>,
}

impl<'a, A: Allocation> Worker<'a, A> {
    /// A worker for a search.
    pub fn new(problem: Problem<'a>, breeding: Breeding) -> Self {
        let Problem {
            graph,
            order,
            users,
            ..
        } = problem;
        Self {
            problem,
            breeding,
            planner: A::planner(&problem),
            locality: Locality::new(graph, order, users),
            early: Early::new(graph, order, users),
        }
    }

    /// Raises a brood. What comes of it depends on the brood only.
    pub fn raise(&mut self, brood: &Brood<'_, A>) -> Vec<Scored<A>> {
        match brood {
            Brood::Founder(founder) => alloc::vec![self.score((*founder).clone())],
            Brood::Random { seed } => {
                let mut rng = Rng::new(*seed);
                let individual = Individual {
                    schedule: schedule::random(self.problem.order, &mut rng),
                    allocation: A::random(&self.problem, &mut rng),
                };
                alloc::vec![self.score(individual)]
            }
            Brood::Children {
                of: [one, other],
                seed,
            } => self.cross(one, other, *seed),
        }
    }

    /// Two schedules and two allocations of two parents make four children, each mutated.
    fn cross(&mut self, one: &Individual<A>, other: &Individual<A>, seed: u64) -> Vec<Scored<A>> {
        let rng = &mut Rng::new(seed);
        let Breeding {
            schedules,
            allocations,
            ..
        } = self.breeding;
        let at = if schedules {
            rng.below(one.schedule.len() + 1)
        } else {
            0
        };
        let schedules = [
            schedule::cross(&one.schedule, &other.schedule, at),
            schedule::cross(&other.schedule, &one.schedule, at),
        ];
        let allocations = if allocations {
            A::cross(&self.problem, &one.allocation, &other.allocation, rng)
        } else {
            [one, other].map(|parent| parent.allocation.clone())
        };
        let pairs = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let raise = |(schedule, allocation): (usize, usize)| {
            let schedule = self.mutate(&schedules[schedule], rng);
            let allocation = self.mutate_allocation(&allocations[allocation], rng);
            self.score(Individual {
                schedule,
                allocation,
            })
        };
        pairs.into_iter().map(raise).collect()
    }

    fn mutate_allocation(&self, allocation: &A, rng: &mut Rng) -> A {
        if !self.breeding.allocations {
            return allocation.clone();
        }
        allocation.mutate(&self.problem, self.breeding.mutation, rng)
    }

    fn mutate(&self, schedule: &[OpId], rng: &mut Rng) -> Vec<OpId> {
        if !self.breeding.schedules {
            return schedule.to_vec();
        }
        if !rng.chance(self.breeding.mends) {
            return schedule::mutate(self.problem.order, schedule, self.chance(rng), rng);
        }
        let places = schedule::places(schedule);
        let mut mended = schedule.to_vec();
        if rng.chance(0.5) {
            let part = 0.25 + 0.75 * rng.unit();
            let weights = Weights {
                load: 1.0,
                make: if rng.chance(0.5) { 1.0 } else { rng.unit() },
                free: if rng.chance(0.5) { 1.0 } else { rng.unit() },
                order: if rng.chance(0.5) {
                    0.0
                } else {
                    libm::exp2(10.0 + 15.0 * rng.unit())
                },
                fresh: if rng.chance(0.5) {
                    0.0
                } else {
                    libm::exp2(5.0 + 20.0 * rng.unit())
                },
            };
            let budget = (self.problem.budget as f64 * part) as u64;
            mended = self.locality.schedule(&places, budget, weights);
        }
        if rng.chance(0.5) {
            let places = schedule::places(&mended);
            mended = self.early.schedule(&mended, &places, 1 + rng.below(12));
        }
        mended
    }

    /// The paper's chance where nothing is mended; else any up to it, the small ones as often as the large.
    fn chance(&self, rng: &mut Rng) -> f64 {
        let Breeding {
            mutation, mends, ..
        } = self.breeding;
        if mends > 0.0 {
            mutation * libm::exp2(-10.0 * rng.unit())
        } else {
            mutation
        }
    }

    fn score(&mut self, individual: Individual<A>) -> Scored<A> {
        let Problem { graph, link, .. } = self.problem;
        let plan =
            individual
                .allocation
                .plan(&self.problem, &mut self.planner, &individual.schedule);
        let run = plan.ok().and_then(|plan| machine::run(graph, plan, link));
        let time = run.map(|run| run.total_ns);
        Scored { individual, time }
    }
}
