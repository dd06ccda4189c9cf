//! The genetic search of SwapAdvisor's section 5: schedules and divisions that cross, mutate and survive.

use alloc::vec;
use alloc::vec::Vec;

use super::pools::Pools;
use super::ready::Ready;
use super::rng::Rng;
use crate::graph::{Graph, OpId, Order};

/// A schedule with a division of the budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Individual {
    /// All operators in the order in which they run.
    pub schedule: Vec<OpId>,
    /// The division.
    pub pools: Pools,
}

/// How a search goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breeding {
    /// How many survive each step; the paper has 144.
    pub population: usize,
    /// The chance of each element to mutate; the paper begins with a tenth.
    pub mutation: f64,
}

impl Default for Breeding {
    fn default() -> Self {
        Self {
            population: 144,
            mutation: 0.1,
        }
    }
}

/// An individual with how long its plan takes, in nanoseconds; none where it has no plan.
#[derive(Clone, Debug)]
struct Scored {
    individual: Individual,
    time: Option<u64>,
}

/// A search. What it finds depends on its seed and on the number of its steps only.
#[derive(Debug)]
pub struct Search<'a> {
    graph: &'a Graph,
    order: &'a Order,
    budget: u64,
    breeding: Breeding,
    rng: Rng,
    alive: Vec<Scored>,
    best: Option<(u64, Individual)>,
}

impl<'a> Search<'a> {
    /// A search that begins with `first`, and with random individuals where those are fewer than the population.
    pub fn new(
        graph: &'a Graph,
        order: &'a Order,
        budget: u64,
        breeding: Breeding,
        seed: u64,
        first: Vec<Individual>,
    ) -> Self {
        let mut search = Self {
            graph,
            order,
            budget,
            breeding,
            rng: Rng::new(seed),
            alive: Vec::new(),
            best: None,
        };
        search.alive = first.into_iter().map(|individual| Scored { individual, time: None }).collect();
        while search.alive.len() < breeding.population {
            let individual = search.random();
            search.alive.push(Scored { individual, time: None });
        }
        search
    }

    /// The best so far, with its time in nanoseconds.
    pub fn best(&self) -> Option<&(u64, Individual)> {
        self.best.as_ref()
    }

    /// The times of those alive, in nanoseconds.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.alive.iter().filter_map(|scored| scored.time)
    }

    /// One generation. `times` says of each individual how long its plan takes; it may use threads, as long as it answers in
    /// the order in which it was asked.
    pub fn step(&mut self, mut times: impl FnMut(&[Individual]) -> Vec<Option<u64>>) {
        let mut judge = |search: &mut Self, individuals: Vec<Individual>| {
            let found = times(&individuals);
            for (individual, time) in individuals.into_iter().zip(found) {
                if let Some(time) = time
                    && search.best.as_ref().is_none_or(|(best, _)| time < *best)
                {
                    search.best = Some((time, individual.clone()));
                }
                search.alive.push(Scored { individual, time });
            }
        };
        if self.alive.iter().all(|scored| scored.time.is_none()) {
            let first = core::mem::take(&mut self.alive);
            let first = first.into_iter().map(|scored| scored.individual).collect();
            judge(self, first);
        }
        let mut children = Vec::new();
        for _ in 0..self.alive.len() / 4 {
            let [one, other] = [(); 2].map(|()| self.rng.below(self.alive.len()));
            children.extend(self.cross(one, other));
        }
        judge(self, children);
        self.select();
    }

    /// Two schedules and two divisions of two parents make four children, each mutated.
    fn cross(&mut self, one: usize, other: usize) -> [Individual; 4] {
        let [one, other] = [one, other].map(|at| self.alive[at].individual.clone());
        let at = self.rng.below(self.graph.operators().len() + 1);
        let schedules = [
            cross_schedules(&one.schedule, &other.schedule, at),
            cross_schedules(&other.schedule, &one.schedule, at),
        ];
        let at = self.rng.below(self.graph.sizes().len() + 1);
        let pools = [
            cross_pools(self.graph, &one.pools, &other.pools, at, self.budget),
            cross_pools(self.graph, &other.pools, &one.pools, at, self.budget),
        ];
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(schedule, division)| Individual {
            schedule: self.mutate_schedule(&schedules[schedule]),
            pools: self.mutate_pools(&pools[division]),
        })
    }

    /// Follows `schedule`, and now and then runs another operator that is ready.
    fn mutate_schedule(&mut self, schedule: &[OpId]) -> Vec<OpId> {
        let mut place = vec![0_u32; schedule.len()];
        for (at, op) in (0..).zip(schedule) {
            place[*op as usize] = at;
        }
        let mut ready = Ready::new(self.order, schedule.len());
        let mut mutated = Vec::with_capacity(schedule.len());
        while !ready.is_empty() {
            let op = if self.rng.chance(self.breeding.mutation) {
                let at = self.rng.below(ready.len());
                ready.take_at(at)
            } else {
                ready.take_first(&place)
            };
            mutated.push(op);
            ready.done(op);
        }
        mutated
    }

    fn mutate_pools(&mut self, pools: &Pools) -> Pools {
        let mut class_of = pools.class_of().to_vec();
        let mut counts: Vec<f64> = extended(pools);
        for at in 1..class_of.len() {
            if !self.rng.chance(self.breeding.mutation) {
                continue;
            }
            let grows = class_of[at] == class_of[at - 1];
            for class in &mut class_of[at..] {
                *class = if grows { *class + 1 } else { *class - 1 };
            }
        }
        for count in &mut counts {
            if self.rng.chance(self.breeding.mutation) {
                // A quarter of the count either way, seldom more.
                *count += self.rng.normal() * (*count * 0.25).max(1.0);
            }
        }
        divided(self.graph, class_of, &counts, self.budget)
    }

    /// Who survives: each by the softmax of how much slower than the best it is.
    fn select(&mut self) {
        let Some((best, _)) = self.best else {
            return;
        };
        self.alive.retain(|scored| scored.time.is_some());
        let weight = |scored: &Scored| {
            let time = scored.time.unwrap_or(u64::MAX) as f64;
            libm::exp((best as f64 - time) / best as f64)
        };
        let mut weights: Vec<f64> = self.alive.iter().map(weight).collect();
        let mut kept = Vec::with_capacity(self.breeding.population);
        while kept.len() < self.breeding.population && !self.alive.is_empty() {
            let total: f64 = weights.iter().sum();
            let mut point = self.rng.unit() * total;
            let at = weights.iter().position(|weight| {
                point -= weight;
                point < 0.0
            });
            let at = at.unwrap_or(weights.len() - 1);
            weights.swap_remove(at);
            kept.push(self.alive.swap_remove(at));
        }
        self.alive = kept;
    }

    fn random(&mut self) -> Individual {
        let mut ready = Ready::new(self.order, self.graph.operators().len());
        let mut schedule = Vec::new();
        while !ready.is_empty() {
            let at = self.rng.below(ready.len());
            let op = ready.take_at(at);
            schedule.push(op);
            ready.done(op);
        }
        let mut class = 0;
        let class_of: Vec<u32> = (0..self.graph.sizes().len())
            .map(|at| {
                class += u32::from(at > 0 && self.rng.chance(0.5));
                class
            })
            .collect();
        let most = self.budget as f64 / self.graph.sizes().len() as f64;
        let counts: Vec<f64> = self.graph.sizes().iter().map(|size| self.rng.unit() * 2.0 * most / *size as f64).collect();
        let pools = divided(self.graph, class_of, &counts, self.budget);
        Individual { schedule, pools }
    }
}

/// The first `at` operators of `front`, and the others in the order of `back`.
fn cross_schedules(back: &[OpId], front: &[OpId], at: usize) -> Vec<OpId> {
    let mut taken = vec![false; front.len()];
    let mut child = front[..at].to_vec();
    for op in &child {
        taken[*op as usize] = true;
    }
    child.extend(back.iter().filter(|op| !taken[**op as usize]));
    child
}

/// The classes and counts of the smallest `at` sizes of `front`, and the others of `back`.
fn cross_pools(graph: &Graph, back: &Pools, front: &Pools, at: usize, budget: u64) -> Pools {
    let mut class_of = front.class_of()[..at].to_vec();
    let mut raised = 0;
    for (place, class) in back.class_of().iter().enumerate().skip(at) {
        let last = class_of.last().copied().unwrap_or_default();
        let wanted = class + raised;
        // As little higher as makes it valid, or lower where it would leave one out.
        let valid = wanted.clamp(last, last + u32::from(place > 0));
        raised = raised.max(valid.saturating_sub(*class));
        class_of.push(valid);
    }
    let (front, back) = (extended(front), extended(back));
    let counts: Vec<f64> = front[..at].iter().chain(&back[at..]).copied().collect();
    divided(graph, class_of, &counts, budget)
}

/// For each size the count of its class.
fn extended(pools: &Pools) -> Vec<f64> {
    let count = |class: &u32| f64::from(pools.classes()[*class as usize].count);
    pools.class_of().iter().map(count).collect()
}

/// The division with the mean of the counts of each class.
fn divided(graph: &Graph, class_of: Vec<u32>, counts: &[f64], budget: u64) -> Pools {
    let classes = class_of.last().map_or(0, |last| *last as usize + 1);
    let mut sums = vec![(0.0, 0.0); classes];
    for (class, count) in class_of.iter().zip(counts) {
        let (sum, number) = &mut sums[*class as usize];
        *sum += count.max(0.0);
        *number += 1.0;
    }
    let counts: Vec<u32> = sums.iter().map(|(sum, number)| (sum / number + 0.5) as u32).collect();
    Pools::new(graph, class_of, &counts, budget)
}
