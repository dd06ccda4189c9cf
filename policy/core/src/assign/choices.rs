//! Tasks that run in more than one amount of memory: their budgets, volumes and δ together.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{Assignment, Demand, Infeasible, Objective, Room, assign};
use crate::admission::{Platform, TaskLoad, Test};
use crate::units::{Bytes, Nanos};

/// One way to run a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its timing and memory when it runs so.
    pub demand: Demand,
    /// The host memory that it takes beside the backing store of its volume, in bytes.
    pub host: Bytes,
}

/// The ways to run each task with one δ.
#[derive(Clone, Debug)]
pub struct Choices {
    /// What the test assumes of the GPU, δ included.
    pub platform: Platform,
    /// For each task at least one way.
    pub tasks: Vec<Vec<Choice>>,
}

/// What was chosen.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The place in the list of [`Choices`] that it is of.
    pub at: usize,
    /// For each task the place of the way that it runs.
    pub ways: Vec<usize>,
    /// Its volumes, or why there are none: then these ways come closest.
    pub result: Result<Assignment, Infeasible>,
}

/// So many combinations of ways are all tried; of more those in which no other way of one task is better.
const MOST_TRIED: usize = 4_096;

/// The best ways, volumes and δ on a GPU with `room`, within `host` bytes of host memory: the least share of time that swapping and
/// executing take, or with [`Objective::Volume`] the fewest bytes that may leave, and then that share. `choices` has at least one
/// entry; ways in which a task misses its deadline alone or exceeds the GPU are tried only where it has no others.
pub fn assign_choices(
    test: Test,
    choices: &[Choices],
    room: impl Into<Room>,
    host: Bytes,
    objective: Objective,
) -> Option<Chosen> {
    let room = room.into();
    let mut best: Option<(Score, Chosen)> = None;
    for (at, choices) in choices.iter().enumerate() {
        let search = Search {
            test,
            choices,
            room,
            host,
            objective,
        };
        let found = search.best(at);
        if best
            .as_ref()
            .is_none_or(|(score, _)| found.0.is_better(score))
        {
            best = Some(found);
        }
    }
    best.map(|(_, chosen)| chosen)
}

struct Search<'a> {
    test: Test,
    choices: &'a Choices,
    room: Room,
    host: Bytes,
    objective: Objective,
}

/// How good an outcome is. Smaller is better, the first number goes first.
#[derive(Clone, Copy, Debug)]
struct Score([f64; 3]);

impl Score {
    fn is_better(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let order = pairs.map(|(one, other)| one.total_cmp(other));
        order.into_iter().find(|order| order.is_ne()) == Some(Ordering::Less)
    }
}

impl Search<'_> {
    fn best(&self, at: usize) -> (Score, Chosen) {
        let usable: Vec<Vec<usize>> = self
            .choices
            .tasks
            .iter()
            .map(|ways| self.usable(ways))
            .collect();
        let combinations = usable
            .iter()
            .try_fold(1_usize, |count, ways| count.checked_mul(ways.len()))
            .filter(|count| *count <= MOST_TRIED);
        let (score, ways, result) = match combinations {
            Some(count) => self.of_all(&usable, count),
            None => self.descend(&usable),
        };
        (score, Chosen { at, ways, result })
    }

    /// The ways of a task that can be had at all.
    fn usable(&self, ways: &[Choice]) -> Vec<usize> {
        let chunk = self.choices.platform.chunk;
        let fits = |way: &Choice| {
            let Demand { timing, memory } = way.demand;
            memory.footprint.round_up(chunk) <= self.room.running && timing.wcet <= timing.deadline
        };
        let those = (0..ways.len()).filter(|at| fits(&ways[*at]));
        let usable: Vec<usize> = those.collect();
        if usable.is_empty() {
            (0..ways.len()).collect()
        } else {
            usable
        }
    }

    fn of_all(&self, usable: &[Vec<usize>], count: usize) -> Outcome {
        let nth = |mut number: usize| -> Vec<usize> {
            let digit = |ways: &Vec<usize>| {
                let digit = ways[number % ways.len()];
                number /= ways.len();
                digit
            };
            usable.iter().map(digit).collect()
        };
        let mut best = self.outcome(nth(0));
        for number in 1..count {
            let next = self.outcome(nth(number));
            if next.0.is_better(&best.0) {
                best = next;
            }
        }
        best
    }

    /// From the most memory for all, and from the least, one task at a time to its best way.
    fn descend(&self, usable: &[Vec<usize>]) -> Outcome {
        let footprint = |task: usize, way: &usize| self.choices.tasks[task][*way].demand.memory;
        let extreme = |is_most: bool| -> Vec<usize> {
            let of = |(task, ways): (usize, &Vec<usize>)| {
                let key = |way: &&usize| footprint(task, way).footprint;
                let found = if is_most {
                    ways.iter().max_by_key(key)
                } else {
                    ways.iter().min_by_key(key)
                };
                found.copied().unwrap_or_default()
            };
            usable.iter().enumerate().map(of).collect()
        };
        let [most, least] =
            [true, false].map(|is_most| self.descend_from(extreme(is_most), usable));
        if least.0.is_better(&most.0) {
            least
        } else {
            most
        }
    }

    fn descend_from(&self, start: Vec<usize>, usable: &[Vec<usize>]) -> Outcome {
        let mut best = self.outcome(start);
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for (task, ways) in usable.iter().enumerate() {
                for way in ways.iter().copied().filter(|_| ways.len() > 1) {
                    let mut next = best.1.clone();
                    next[task] = way;
                    let next = self.outcome(next);
                    if next.0.is_better(&best.0) {
                        (best, is_changed) = (next, true);
                    }
                }
            }
        }
        best
    }

    fn outcome(&self, ways: Vec<usize>) -> Outcome {
        let chosen: Vec<Choice> = ways
            .iter()
            .zip(&self.choices.tasks)
            .map(|(way, of)| of[*way])
            .collect();
        let demands: Vec<Demand> = chosen.iter().map(|choice| choice.demand).collect();
        let platform = &self.choices.platform;
        let mut result = assign(self.test, platform, self.room, &demands, self.objective);
        if let Ok(plan) = &result {
            let volumes: Bytes = plan.volumes.iter().copied().sum();
            let needed = chosen.iter().map(|choice| choice.host).sum::<Bytes>() + volumes;
            if needed > self.host {
                result = Err(Infeasible::NotBacked {
                    needed,
                    host: self.host,
                });
            }
        }
        let score = match &result {
            Ok(plan) => self.score(&demands, plan),
            Err(infeasible) => distance(infeasible),
        };
        (score, ways, result)
    }

    fn score(&self, demands: &[Demand], plan: &Assignment) -> Score {
        let loads = demands.iter().zip(&plan.analysis.tasks);
        let share = |(demand, load): (&Demand, &TaskLoad)| {
            let Nanos(busy) = load.swap_out + load.swap_in + demand.timing.wcet;
            busy as f64 / demand.timing.deadline.0 as f64
        };
        let load = loads.map(share).sum();
        let volume: Bytes = plan.volumes.iter().copied().sum();
        Score(match self.objective {
            Objective::Time => [0.0, load, plan.analysis.demand],
            Objective::Volume => [0.0, volume.0 as f64, load],
        })
    }
}

type Outcome = (Score, Vec<usize>, Result<Assignment, Infeasible>);

/// How far from a plan it is: a test that fails is closer than memory that is lacking.
fn distance(infeasible: &Infeasible) -> Score {
    let lacking = |needed: &Bytes, there: &Bytes| needed.saturating_sub(*there).0 as f64;
    let [kind, by] = match infeasible {
        Infeasible::NotSchedulable(tried) => [1.0, tried.analysis.demand],
        Infeasible::NotBacked { needed, host } => [2.0, lacking(needed, host)],
        Infeasible::NotSwappable {
            overflow,
            swappable,
            ..
        }
        | Infeasible::NotIdle {
            overflow,
            swappable,
            ..
        } => [3.0, lacking(overflow, swappable)],
        Infeasible::TooLarge {
            footprint,
            capacity,
            ..
        } => [4.0, lacking(footprint, capacity)],
    };
    Score([kind, by, 0.0])
}
