//! The search for a plan, on several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rtswap_planner::advisor::{
    Allocation, Breeding, Brood, Individual, Lead, Problem, Scored, Search, Worker, founders,
};
use rtswap_planner::plan::Plan;
use rtswap_planner::validator::validate;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// When a search ends, if it is not interrupted before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Time(Duration),
    Generations(u64),
}

/// What a search came to.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) plan: Plan,
    /// Those that ended.
    pub(super) generations: u64,
    /// Whether the search ended in the middle of one more.
    pub(super) is_cut: bool,
    pub(super) is_interrupted: bool,
}

/// Searches on `threads` threads. With a bound of generations the plan depends on the problem and the seed only.
pub(super) fn search(
    problem: Problem<'_>,
    seed: u64,
    bound: Bound,
    threads: usize,
) -> Result<Found, Failure> {
    let breeding = Breeding::OURS;
    // No generation has more broods than the first one.
    let threads = threads.clamp(1, breeding.population);
    let mut workers: Vec<Worker<'_, Lead>> = (0..threads)
        .map(|_| Worker::new(problem, breeding))
        .collect();
    let mut search = Search::new(breeding, seed, founders(&problem));
    let stop = Stop::watch(bound)?;
    let bar = bar(bound);
    let ideal = problem.graph.compute_ns() as f64;
    let mut generations = 0;
    while generations == 0 || !stop.is_due(generations) {
        search.step(|broods| raise(&mut workers, broods, &stop));
        if stop.is_cut.load(Ordering::Relaxed) {
            break;
        }
        generations += 1;
        if let Some((time, _)) = search.best() {
            bar.set_message(format!("{:.3} of ideal", ideal / *time as f64));
        }
        bar.set_position(match bound {
            Bound::Time(_) => stop.begun.elapsed().as_millis() as u64,
            Bound::Generations(_) => generations,
        });
    }
    bar.finish_and_clear();
    let Some((_, best)) = search.best() else {
        return Err(Failure::NoPlan);
    };
    Ok(Found {
        plan: plan(&problem, best)?,
        generations,
        is_cut: stop.is_cut.load(Ordering::Relaxed),
        is_interrupted: stop.is_told(),
    })
}

/// The plan of an individual, proven to compute the graph.
fn plan(problem: &Problem<'_>, individual: &Individual<Lead>) -> Result<Plan, Failure> {
    let mut planner = Lead::planner(problem);
    let made = individual
        .allocation
        .plan(problem, &mut planner, &individual.schedule);
    let plan = made.map_err(|_| Failure::NoPlan)?.clone();
    validate(problem.graph, &plan).map_err(Failure::BadPlan)?;
    Ok(plan)
}

/// Has each worker raise broods on a thread of its own, and returns what came of them in the order of the broods.
fn raise(
    workers: &mut [Worker<'_, Lead>],
    broods: &[Brood<'_, Lead>],
    stop: &Stop,
) -> Vec<Scored<Lead>> {
    let next = AtomicUsize::new(0);
    let work = |worker: &mut Worker<'_, Lead>| {
        let mut raised = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(brood) = broods.get(at) else {
                return raised;
            };
            // The first founder is always there: a search that is cut short has a plan.
            if at > 0 && stop.is_now() {
                stop.is_cut.store(true, Ordering::Relaxed);
                return raised;
            }
            raised.push((at, worker.raise(brood)));
        }
    };
    let Some((own, others)) = workers.split_first_mut() else {
        return Vec::new();
    };
    let mut raised = thread::scope(|scope| {
        let others = others.iter_mut().take(broods.len().saturating_sub(1));
        let others: Vec<_> = others.map(|worker| scope.spawn(|| work(worker))).collect();
        let mut raised = work(own);
        for other in others {
            raised.extend(other.join().expect("a worker panicked"));
        }
        raised
    });
    raised.sort_unstable_by_key(|(at, _)| *at);
    raised.into_iter().flat_map(|(_, scored)| scored).collect()
}

/// The end of a search.
#[derive(Debug)]
struct Stop {
    bound: Bound,
    begun: Instant,
    told: Arc<AtomicBool>,
    /// Whether it ended in the middle of a generation.
    is_cut: AtomicBool,
}

impl Stop {
    /// Watches for Ctrl-C and SIGTERM. The second one ends the program at once.
    fn watch(bound: Bound) -> std::io::Result<Self> {
        let told = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&told))?;
            flag::register(signal, Arc::clone(&told))?;
        }
        Ok(Self {
            bound,
            begun: Instant::now(),
            told,
            is_cut: AtomicBool::new(false),
        })
    }

    fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Whether it ends behind so many generations.
    fn is_due(&self, generations: u64) -> bool {
        let is_over = match self.bound {
            Bound::Time(time) => self.begun.elapsed() >= time,
            Bound::Generations(most) => generations >= most,
        };
        is_over || self.is_told()
    }

    /// Whether it ends before the generation does.
    fn is_now(&self) -> bool {
        match self.bound {
            Bound::Time(time) => self.is_told() || self.begun.elapsed() >= time,
            Bound::Generations(_) => self.is_told(),
        }
    }
}

fn bar(bound: Bound) -> ProgressBar {
    let (length, template) = match bound {
        Bound::Time(time) => (time.as_millis() as u64, "{msg:<28} {bar:40} {elapsed}"),
        Bound::Generations(count) => (count, "{msg:<28} {bar:40} {pos}/{len}"),
    };
    let bar = ProgressBar::new(length);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use rtswap_planner::graph::{Graph, Kind, Operator, Tensor};

    use super::*;
    use crate::graph::plan::Parts;

    /// A chain that reads the tensors that it made again, the last one first.
    fn graph() -> Graph {
        const COUNT: u32 = 40;
        let tensors = (0..2 * COUNT).map(|_| Tensor {
            name: String::new(),
            kind: Kind::Activation,
            bytes: 3 << 20,
        });
        let operators = (0..2 * COUNT).map(|at| {
            let first = (at < COUNT).then(|| at.checked_sub(1)).flatten();
            let second = (at >= COUNT).then(|| 2 * COUNT - 1 - at);
            Operator {
                name: "op".into(),
                inputs: first.into_iter().chain(second).collect(),
                outputs: vec![at],
                updates: Vec::new(),
                flops: 0,
                bytes: 0,
                time_ns: 200_000,
                is_random: false,
            }
        });
        Graph::new(tensors.collect(), operators.collect()).unwrap()
    }

    #[test]
    fn threads_and_bounds_decide_nothing_but_the_time() {
        let graph = graph();
        let parts = Parts::of(&graph);
        let problem = parts.problem(&graph, 40 << 20).unwrap();
        let found = |threads| search(problem, 7, Bound::Generations(6), threads).unwrap();
        let one = found(1);
        assert_eq!((one.generations, one.is_interrupted), (6, false));
        assert!(found(3).plan == one.plan && found(100).plan == one.plan);
        // Even with no time at all there is a plan, that of the first founder.
        let cut = search(problem, 7, Bound::Time(Duration::ZERO), 2).unwrap();
        assert_eq!((cut.generations, cut.is_cut), (0, true));
        assert!(!one.is_cut && cut.plan != one.plan);
    }

    #[test]
    fn a_search_is_no_worse_than_what_it_begins_with() {
        let graph = graph();
        let parts = Parts::of(&graph);
        let problem = parts.problem(&graph, 40 << 20).unwrap();
        let time = |plan: &Plan| {
            let run = rtswap_planner::machine::run(&graph, plan, problem.link);
            run.unwrap().total_ns
        };
        let begun = time(&rtswap_planner::advisor::first(problem).unwrap());
        let found = search(problem, 1, Bound::Generations(4), 2).unwrap();
        assert!(time(&found.plan) <= begun && graph.compute_ns() < begun);
    }
}
