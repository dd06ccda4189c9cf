//! Several jobs on one GPU with one link.

use alloc::vec;
use alloc::vec::Vec;

use super::Link;
use crate::advisor::Rng;
use crate::graph::{Graph, OpId, TensorId};
use crate::plan::{Plan, Queue, Waits};

/// A job that shares the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Sharer<'a> {
    /// What it computes in each iteration.
    pub graph: &'a Graph,
    /// The instant at which it is launched, in nanoseconds.
    pub begins_ns: u64,
}

/// The GPU that jobs share, and how regular its operators are.
#[derive(Clone, Copy, Debug)]
pub struct Gpu {
    /// The link. One copy is made at a time, in either direction, so that `duplex` is not used.
    pub link: Link,
    /// An operator takes its time, changed by at most this part of it, 0 to 1: 0.2 is from 80 to 120 %.
    pub noise: f64,
    /// The seed of the noise. An operator of a job takes the same time in an iteration of the same number whatever
    /// plan is used, so that plans can be compared.
    pub seed: u64,
}

/// An iteration that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Iteration<'b> {
    /// The number of the job.
    pub job: usize,
    /// The number of the iteration, from 0.
    pub number: u32,
    /// When its first step could begin, in nanoseconds.
    pub began_ns: u64,
    /// When its last step had ended, in nanoseconds.
    pub ended_ns: u64,
    /// Operators that found an input missing and waited for its copy: passive swaps.
    pub passive: u32,
    /// For how long they waited, in nanoseconds.
    pub passive_ns: u64,
    /// How long each operator took, in nanoseconds, by its number: its own time and that of the jobs beside it. Of one that ran
    /// again it is the last run.
    pub times: &'b [u64],
}

/// What a job does behind an iteration.
#[derive(Clone, Debug)]
pub enum Then {
    /// The next iteration with the same plan.
    Continue,
    /// The next iteration with another plan.
    Change(Plan),
    /// No further iteration.
    End,
}

/// What gives jobs their plans.
pub trait Director {
    /// A job has been launched at an instant in nanoseconds: its first plan.
    fn launch(&mut self, job: usize, now_ns: u64) -> Plan;

    /// An iteration has ended. A job must end at some time, or [`share`] does not return.
    fn follow(&mut self, iteration: &Iteration<'_>) -> Then;
}

/// Where a job is.
enum Phase {
    /// It has not been launched.
    Unborn,
    /// Residents are copied before an iteration, or behind the last one: so many of these copies have ended.
    Moves(Vec<(Queue, TensorId)>, usize),
    /// It runs its plan.
    Runs,
    /// It has ended.
    Ended,
}

struct Member<'a> {
    graph: &'a Graph,
    is_changed: Vec<bool>,
    begins: f64,
    plan: Plan,
    phase: Phase,
    is_last: bool,
    number: u32,
    began: f64,
    /// When the steps of each queue ended.
    ended: [Vec<f64>; 3],
    /// What is left of the operator under way, were it alone, and when it began.
    operator: Option<(f64, f64)>,
    /// Since when an operator waits for its input.
    late: Option<f64>,
    passive: u32,
    passive_ns: f64,
    factors: Vec<f64>,
    times: Vec<u64>,
}

/// The copy under way.
struct Transfer {
    job: usize,
    queue: Queue,
    left: f64,
}

/// Runs jobs until all have ended, and returns when the last one did, in nanoseconds; none if steps of a plan wait
/// for each other.
///
/// The compute engine works on one operator of each job that has one to run, on each of k with a k-th of its speed.
/// The link makes one copy at a time, first that which could begin first. Before its first iteration a job copies its
/// plan's residents in. With a new plan it copies out what was resident and is so no more, unless no operator
/// changes it, and in what becomes it; behind its last iteration it copies out what has changed. Plans must be proven.
pub fn share(jobs: &[Sharer<'_>], gpu: &Gpu, director: &mut impl Director) -> Option<u64> {
    let mut members: Vec<Member<'_>> = jobs.iter().map(Member::new).collect();
    let mut link: Option<Transfer> = None;
    let mut now = 0.0_f64;
    loop {
        for (job, member) in members.iter_mut().enumerate() {
            member.proceed(job, now, gpu, director);
            member.begin_operator(now);
        }
        if link.is_none() {
            link = next_transfer(&members, gpu.link);
        }
        let busy = members.iter().filter(|member| member.operator.is_some());
        let sharers = busy.count() as f64;
        let operators = members.iter().filter_map(|member| member.operator);
        let launches = members
            .iter()
            .filter(|member| matches!(member.phase, Phase::Unborn));
        let span = operators
            .map(|(left, _)| left * sharers)
            .chain(link.iter().map(|transfer| transfer.left))
            .chain(launches.map(|member| member.begins - now))
            .fold(f64::INFINITY, f64::min);
        if span == f64::INFINITY {
            let mut phases = members.iter().map(|member| &member.phase);
            let is_whole = phases.all(|phase| matches!(phase, Phase::Ended));
            return is_whole.then_some(rounded(now));
        }
        now += span;
        for member in &mut members {
            member.compute(span, sharers, now);
        }
        if let Some(transfer) = &mut link {
            if transfer.left <= span {
                members[transfer.job].end_copy(transfer.queue, now);
                link = None;
            } else {
                transfer.left -= span;
            }
        }
    }
}

/// The copy that could begin first; of several that of the first job, and in before out, because an operator may wait
/// for it.
fn next_transfer(members: &[Member<'_>], link: Link) -> Option<Transfer> {
    let mut first: Option<(f64, Transfer)> = None;
    for (job, member) in members.iter().enumerate() {
        for queue in [Queue::SwapIn, Queue::SwapOut] {
            let Some((ready, tensor)) = member.copy(queue) else {
                continue;
            };
            if first.as_ref().is_none_or(|(before, _)| ready < *before) {
                let bytes = member.graph.tensor(tensor).bytes as f64;
                let left = link.latency_ns + bytes / link.alone;
                first = Some((ready, Transfer { job, queue, left }));
            }
        }
    }
    first.map(|(_, transfer)| transfer)
}

impl<'a> Member<'a> {
    fn new(job: &Sharer<'a>) -> Self {
        let graph = job.graph;
        let mut is_changed = vec![false; graph.tensors().len()];
        for id in graph.operators().iter().flat_map(|op| &op.updates) {
            is_changed[*id as usize] = true;
        }
        Self {
            graph,
            is_changed,
            begins: job.begins_ns as f64,
            plan: Plan::default(),
            phase: Phase::Unborn,
            is_last: false,
            number: 0,
            began: 0.0,
            ended: [Vec::new(), Vec::new(), Vec::new()],
            operator: None,
            late: None,
            passive: 0,
            passive_ns: 0.0,
            factors: Vec::new(),
            times: vec![0; graph.operators().len()],
        }
    }

    /// Goes from phase to phase as long as nothing is left to do in one.
    fn proceed(&mut self, job: usize, now: f64, gpu: &Gpu, director: &mut impl Director) {
        loop {
            match &self.phase {
                Phase::Unborn if self.begins <= now => {
                    let plan = director.launch(job, rounded(now));
                    self.change(plan, now);
                }
                Phase::Moves(copies, done) if copies.len() == *done => {
                    if self.is_last {
                        self.phase = Phase::Ended;
                    } else {
                        self.begin(job, now, gpu);
                    }
                }
                Phase::Runs if self.is_over() => {
                    let then = director.follow(&Iteration {
                        job,
                        number: self.number,
                        began_ns: rounded(self.began),
                        ended_ns: rounded(now),
                        passive: self.passive,
                        passive_ns: rounded(self.passive_ns),
                        times: &self.times,
                    });
                    self.number += 1;
                    match then {
                        Then::Continue => self.begin(job, now, gpu),
                        Then::Change(plan) => self.change(plan, now),
                        Then::End => {
                            self.is_last = true;
                            self.change(Plan::default(), now);
                        }
                    }
                }
                _ => return,
            }
        }
    }

    fn counts(&self) -> [usize; 3] {
        let plan = &self.plan;
        [plan.compute.len(), plan.swap_in.len(), plan.swap_out.len()]
    }

    fn is_over(&self) -> bool {
        self.counts() == [0, 1, 2].map(|queue: usize| self.ended[queue].len())
    }

    /// Takes another plan: its residents come, and those of the old one leave.
    fn change(&mut self, plan: Plan, now: f64) {
        let of = |plan: &Plan| {
            let mut is_in = vec![false; self.graph.tensors().len()];
            for place in &plan.residents {
                is_in[place.tensor as usize] = true;
            }
            is_in
        };
        let (old, new) = (of(&self.plan), of(&plan));
        let leaving = self.plan.residents.iter().map(|place| place.tensor);
        let leaving = leaving.filter(|id| !new[*id as usize] && self.is_changed[*id as usize]);
        let coming = plan.residents.iter().map(|place| place.tensor);
        let coming = coming.filter(|id| !old[*id as usize]);
        let copies = leaving
            .map(|id| (Queue::SwapOut, id))
            .chain(coming.map(|id| (Queue::SwapIn, id)));
        self.phase = Phase::Moves(copies.collect(), 0);
        self.plan = plan;
        self.began = now;
    }

    fn begin(&mut self, job: usize, now: f64, gpu: &Gpu) {
        self.phase = Phase::Runs;
        self.began = now;
        for ended in &mut self.ended {
            ended.clear();
        }
        (self.passive, self.passive_ns) = (0, 0.0);
        // Each iteration has numbers of its own, whatever else was drawn.
        let of_job = Rng::new(gpu.seed).number() ^ job as u64;
        let of_iteration = Rng::new(of_job).number() ^ u64::from(self.number);
        let mut rng = Rng::new(of_iteration);
        let operators = 0..self.graph.operators().len();
        self.factors.clear();
        self.factors
            .extend(operators.map(|_| 1.0 + gpu.noise * (2.0 * rng.unit() - 1.0)));
    }

    /// When the last of these steps ended; none if one has not.
    fn met(&self, waits: Waits) -> Option<f64> {
        let mut met = self.began;
        for queue in Queue::ALL {
            if let Some(last) = waits.of(queue).checked_sub(1) {
                let ended = self.ended[queue as usize].get(last as usize)?;
                met = met.max(*ended);
            }
        }
        Some(met)
    }

    fn begin_operator(&mut self, now: f64) {
        let at = self.ended[Queue::Compute as usize].len();
        let is_free = self.operator.is_none() && matches!(self.phase, Phase::Runs);
        let Some(step) = self.plan.compute.get(at).filter(|_| is_free) else {
            return;
        };
        let (op, waits) = (step.op, step.waits);
        let arrived = self.ended[Queue::SwapIn as usize].len();
        if waits.of(Queue::SwapIn) as usize > arrived {
            if self.late.is_none() {
                self.late = Some(now);
                self.passive += 1;
            }
            return;
        }
        if let Some(since) = self.late.take() {
            self.passive_ns += now - since;
        }
        if self.met(waits).is_some() {
            self.operator = Some((self.time(op), now));
        }
    }

    fn time(&self, op: OpId) -> f64 {
        self.graph.operator(op).time_ns as f64 * self.factors[op as usize]
    }

    /// The next copy of a queue, and since when it is ready; none where it is not.
    fn copy(&self, queue: Queue) -> Option<(f64, TensorId)> {
        let at = self.ended[queue as usize].len();
        let (tensor, waits) = match (&self.phase, queue) {
            (Phase::Moves(copies, done), _) => {
                let (of, tensor) = copies.get(*done)?;
                return (*of == queue).then_some((self.began, *tensor));
            }
            (Phase::Runs, Queue::SwapIn) => {
                let swap = self.plan.swap_in.get(at)?;
                (swap.place.tensor, swap.waits)
            }
            (Phase::Runs, Queue::SwapOut) => {
                let swap = self.plan.swap_out.get(at)?;
                (swap.tensor, swap.waits)
            }
            _ => return None,
        };
        Some((self.met(waits)?, tensor))
    }

    fn compute(&mut self, span: f64, sharers: f64, now: f64) {
        let at = self.ended[Queue::Compute as usize].len();
        let Some((left, began)) = self.operator else {
            return;
        };
        if left * sharers <= span {
            self.operator = None;
            self.ended[Queue::Compute as usize].push(now);
            let op = self.plan.compute[at].op;
            self.times[op as usize] = rounded(now - began);
        } else {
            self.operator = Some((left - span / sharers, began));
        }
    }

    fn end_copy(&mut self, queue: Queue, now: f64) {
        if let Phase::Moves(_, done) = &mut self.phase {
            *done += 1;
            self.began = now;
            return;
        }
        self.ended[queue as usize].push(now);
    }
}

fn rounded(ns: f64) -> u64 {
    // A cast from f64 saturates.
    (ns + 0.5) as u64
}
