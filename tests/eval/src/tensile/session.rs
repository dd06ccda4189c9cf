//! Jobs that run on one GPU, each with the plans of a method.

use anyhow::{Context, Result};
use rtswap_planner::graph::Graph;
use rtswap_planner::machine::{Director, Gpu, Iteration, Sharer, Then, share};
use rtswap_planner::plan::Plan;
use rtswap_planner::stays::Stays;
use rtswap_planner::tensile::Estimates;

use super::capuchin;
use super::method::{Expected, Method, Ours, prove, proven};
use super::workloads::{trace, unfreed};
use super::{CHUNK, LINK, NOISE, vdnn};

/// A job of a session.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// What an iteration computes.
    pub graph: &'a Graph,
    /// When it is launched, in nanoseconds.
    pub begins_ns: u64,
    /// The iterations that count.
    pub iterations: u32,
    /// The first prediction of what each operator takes were the job alone, in nanoseconds.
    pub predicted: Vec<u64>,
    /// The memory in bytes that Capuchin is told to need at most.
    pub target: u64,
}

/// What a job of a session came to, in the iterations that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// From the beginning of the first iteration to the end of the last one, in nanoseconds.
    pub total_ns: u64,
    /// The first iteration, in nanoseconds.
    pub first_ns: u64,
    /// Each iteration, in nanoseconds, without what a change of plans took between two.
    pub each_ns: Vec<u64>,
    /// Operators that waited for a swap, passively, in each iteration.
    pub passive: Vec<u32>,
    /// For how long they waited in each iteration, in nanoseconds.
    pub passive_ns: Vec<u64>,
    began_ns: u64,
}

/// What a session came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The jobs.
    pub jobs: Vec<Done>,
    /// The most memory that the plans of all jobs had at a time, in bytes.
    pub peak: u64,
    /// The same without any tensor freed within an iteration: the paper's vanilla.
    pub unfreed: u64,
    /// When the last iteration that counts ended, in nanoseconds.
    pub ended_ns: u64,
    /// How often plans were made for all jobs because operators took other times than expected.
    pub drifts: u32,
}

/// What a job has at a time.
struct State {
    is_live: bool,
    estimates: Estimates,
    /// Jobs that run beside it and itself, when its estimates were last scaled.
    beside: usize,
    next: Option<Plan>,
    /// The bytes of its plan.
    budget: u64,
}

struct Session<'a, 'b> {
    launches: &'b [Launch<'a>],
    method: Method,
    /// Whether jobs go on until each has its iterations, so that all have the same company.
    is_kept: bool,
    states: Vec<State>,
    outcome: Outcome,
    error: Option<anyhow::Error>,
}

/// Runs jobs with the plans of a method, all of them proven. With `is_kept` a job goes on beyond its iterations until all
/// have theirs.
pub fn run(launches: &[Launch<'_>], method: Method, is_kept: bool, seed: u64) -> Result<Outcome> {
    let states = launches.iter().map(|launch| State {
        is_live: false,
        estimates: Estimates::new(&launch.predicted),
        beside: 1,
        next: None,
        budget: 0,
    });
    let mut session = Session {
        launches,
        method,
        is_kept,
        states: states.collect(),
        outcome: Outcome {
            jobs: vec![Done::default(); launches.len()],
            ..Outcome::default()
        },
        error: None,
    };
    let jobs: Vec<Sharer<'_>> = launches
        .iter()
        .map(|launch| Sharer {
            graph: launch.graph,
            begins_ns: launch.begins_ns,
        })
        .collect();
    let gpu = Gpu {
        link: LINK,
        noise: NOISE,
        seed,
    };
    let total = share(&jobs, &gpu, &mut session);
    if let Some(error) = session.error {
        return Err(error);
    }
    total.context("plans wait for themselves")?;
    Ok(session.outcome)
}

impl Session<'_, '_> {
    fn live(&self) -> Vec<usize> {
        let states = self.states.iter().enumerate();
        let live = states.filter(|(_, state)| state.is_live);
        live.map(|(job, _)| job).collect()
    }

    fn has_its_iterations(&self, job: usize) -> bool {
        self.outcome.jobs[job].each_ns.len() as u32 >= self.launches[job].iterations
    }

    /// Plans for all that run, for their next iterations.
    fn replan(&mut self, ours: Ours) -> Result<()> {
        let live = self.live();
        for job in &live {
            // The compute engine is shared evenly.
            let state = &mut self.states[*job];
            if state.beside != live.len() {
                let scaled = |ns: u64| ns * live.len() as u64 / state.beside as u64;
                let times: Vec<u64> = state.estimates.times().into_iter().map(scaled).collect();
                state.estimates = Estimates::new(&times);
                state.beside = live.len();
            }
        }
        let expected: Vec<Expected<'_>> = live
            .iter()
            .map(|job| Expected {
                graph: self.launches[*job].graph,
                times: self.states[*job].estimates.times(),
            })
            .collect();
        for (job, plan) in live.iter().zip(ours.plan(&expected)?) {
            self.states[*job].next = Some(plan);
            self.states[*job].estimates.count_as_planned();
        }
        Ok(())
    }

    fn first(&mut self, job: usize, now_ns: u64) -> Result<Plan> {
        let launch = &self.launches[job];
        let graph = launch.graph;
        Ok(match self.method {
            Method::Vanilla => proven(&Stays::new(graph, trace(graph), CHUNK))?,
            Method::VDnn => vdnn::plan(graph),
            Method::Capuchin => capuchin::passive(graph, launch.target)?,
            Method::Tensile(ours) => {
                // Jobs that are launched at the same instant are planned for at once.
                let begun = (0..).zip(self.launches);
                let begun: Vec<usize> = begun
                    .filter(|(_, launch)| launch.begins_ns == now_ns)
                    .map(|(job, _)| job)
                    .collect();
                if !self.states[job].is_live {
                    for job in begun {
                        self.states[job].is_live = true;
                    }
                    self.replan(ours)?;
                }
                self.states[job]
                    .next
                    .take()
                    .context("a job without a plan")?
            }
        })
    }

    /// The plan of the next iteration, where it is another one.
    fn next(&mut self, iteration: &Iteration<'_>) -> Result<Option<Plan>> {
        let job = iteration.job;
        let launch = &self.launches[job];
        match self.method {
            Method::Capuchin if iteration.number == 0 => {
                let stays = capuchin::stays(launch.graph, iteration.times, launch.target);
                proven(&stays).map(Some)
            }
            Method::Tensile(ours) => {
                if self.states[job].estimates.record(iteration.times) {
                    self.outcome.drifts += 1;
                    self.replan(ours)?;
                }
                Ok(self.states[job].next.take())
            }
            _ => Ok(None),
        }
    }

    /// A job has another plan, or none any more.
    fn count(&mut self, job: usize, budget: u64) {
        self.states[job].budget = budget;
        let peak = self.states.iter().map(|state| state.budget).sum();
        let live = self.live();
        let graphs = live.iter().map(|job| self.launches[*job].graph);
        let unfreed = graphs.map(unfreed).sum();
        let outcome = &mut self.outcome;
        (outcome.peak, outcome.unfreed) = (outcome.peak.max(peak), outcome.unfreed.max(unfreed));
    }

    /// Keeps what went wrong: a run cannot be stopped but by ending its jobs.
    fn fail<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }

    fn record(&mut self, iteration: &Iteration<'_>) {
        if self.has_its_iterations(iteration.job) {
            return;
        }
        let done = &mut self.outcome.jobs[iteration.job];
        let ns = iteration.ended_ns - iteration.began_ns;
        if done.each_ns.is_empty() {
            (done.began_ns, done.first_ns) = (iteration.began_ns, ns);
        }
        done.total_ns = iteration.ended_ns - done.began_ns;
        self.outcome.ended_ns = self.outcome.ended_ns.max(iteration.ended_ns);
        done.each_ns.push(ns);
        done.passive.push(iteration.passive);
        done.passive_ns.push(iteration.passive_ns);
    }
}

impl Director for Session<'_, '_> {
    fn launch(&mut self, job: usize, now_ns: u64) -> Plan {
        let plan = self.first(job, now_ns);
        let plan = plan.and_then(|plan| {
            prove(self.launches[job].graph, &plan)?;
            Ok(plan)
        });
        self.states[job].is_live = true;
        let plan = self.fail(plan).unwrap_or_default();
        self.count(job, plan.budget);
        plan
    }

    fn follow(&mut self, iteration: &Iteration<'_>) -> Then {
        let job = iteration.job;
        self.record(iteration);
        let is_through = |job| self.has_its_iterations(job);
        let is_last = if self.is_kept {
            (0..self.launches.len()).all(is_through)
        } else {
            is_through(job)
        };
        if is_last || self.error.is_some() {
            self.states[job].is_live = false;
            self.count(job, 0);
            if let (Method::Tensile(ours), false) = (self.method, self.is_kept) {
                let result = self.replan(ours);
                self.fail(result);
            }
            return Then::End;
        }
        let next = self.next(iteration);
        match self.fail(next) {
            Some(Some(plan)) => {
                self.count(job, plan.budget);
                Then::Change(plan)
            }
            Some(None) => Then::Continue,
            None => Then::End,
        }
    }
}
