//! The genetic search of SwapAdvisor's section 5: schedules and allocations that cross, mutate and survive.

use alloc::vec::Vec;

use super::allocation::Allocation;
use super::rng::Rng;
use super::worker::{Brood, Individual, Scored};

/// How a search goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breeding {
    /// How many survive a generation.
    pub population: usize,
    /// The chance of each element to mutate, from 0 to 1.
    pub mutation: f64,
    /// How much slower than the best, as a share of its time, makes it e times less probable to survive.
    pub temperature: f64,
    /// The chance of a schedule to be mended instead of mutated at random, from 0 to 1.
    pub mends: f64,
    /// Whether schedules cross and mutate.
    pub schedules: bool,
    /// Whether allocations cross and mutate.
    pub allocations: bool,
}

impl Breeding {
    /// The paper's (sections 5 and 6.1). It does not say how parents are chosen, nor how far a count varies: here each
    /// individual is a parent with the same chance, and the deviation is a quarter of the count.
    pub const PAPER: Self = Self {
        population: 144,
        mutation: 0.1,
        temperature: 1.0,
        mends: 0.0,
        schedules: true,
        allocations: true,
    };

    /// Ours: schedules are mended, and what is slow hardly survives.
    pub const OURS: Self = Self {
        population: 96,
        mutation: 0.1,
        temperature: 0.01,
        mends: 0.5,
        schedules: true,
        allocations: true,
    };
}

/// A search. What it finds depends on its seed and on the number of its steps only.
#[derive(Debug)]
pub struct Search<A> {
    breeding: Breeding,
    rng: Rng,
    founders: Vec<Individual<A>>,
    alive: Vec<Scored<A>>,
    best: Option<(u64, Individual<A>)>,
}

impl<A: Allocation> Search<A> {
    /// A search that begins with `founders`, and with random individuals where those are fewer than the population.
    pub fn new(breeding: Breeding, seed: u64, founders: Vec<Individual<A>>) -> Self {
        Self {
            breeding,
            rng: Rng::new(seed),
            founders,
            alive: Vec::new(),
            best: None,
        }
    }

    /// The best so far, with its time in nanoseconds.
    pub fn best(&self) -> Option<&(u64, Individual<A>)> {
        self.best.as_ref()
    }

    /// The times of those alive, in nanoseconds.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.alive.iter().filter_map(|scored| scored.time)
    }

    /// One generation; the first step raises the founders. `raise` has [`super::Worker`]s raise broods, on as many threads
    /// as it likes, and returns what came of them in the order in which it got them.
    pub fn step(&mut self, raise: impl FnOnce(&[Brood<'_, A>]) -> Vec<Scored<A>>) {
        let rng = &mut self.rng;
        let raised = if self.alive.is_empty() {
            let others = self.breeding.population.saturating_sub(self.founders.len());
            let founders = self.founders.iter().map(Brood::Founder);
            let random = (0..others).map(|_| Brood::Random { seed: rng.number() });
            raise(&founders.chain(random).collect::<Vec<_>>())
        } else {
            let mut any = || &self.alive[rng.below(self.alive.len())].individual;
            let parents: Vec<_> = (0..self.breeding.population.div_ceil(4))
                .map(|_| [any(), any()])
                .collect();
            let broods = parents.into_iter().map(|of| Brood::Children {
                of,
                seed: rng.number(),
            });
            raise(&broods.collect::<Vec<_>>())
        };
        for scored in raised {
            let Some(time) = scored.time else {
                continue;
            };
            if self.best.as_ref().is_none_or(|(best, _)| time < *best) {
                self.best = Some((time, scored.individual.clone()));
            }
            self.alive.push(scored);
        }
        self.select();
    }

    /// Selects the survivors, each with the softmax of how much slower than the best it is.
    fn select(&mut self) {
        // The best of all may not be among the alive: then all would weigh next to nothing.
        let Some(best) = self.times().min() else {
            return;
        };
        let unit = best.max(1) as f64 * self.breeding.temperature;
        let weight = |scored: &Scored<A>| {
            let slower = scored.time.unwrap_or(u64::MAX) - best;
            libm::exp(-(slower as f64) / unit)
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
}
