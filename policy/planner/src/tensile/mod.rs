//! TENSILE (Zhang et al., arXiv:2105.13336): tensors of several jobs swap, so that their peaks fall, with no wait for a copy
//! in the expected times, but for that of an input. Operators that run again because memory is short may wait for an
//! input that is on its way.
//!
//! The paper's own: the greedy choice of the largest tensor at the peak, feasible regions on a link that copies one tensor
//! at a time, swaps across iterations, ratios of swaps between jobs, recomputation by memory saving per second, and
//! [`Estimates`]. Ours: the choice is repeated with smaller tensors only, because a large one may keep many others from
//! the link, and an order of operators in which the optimiser runs [`early`].

mod again;
mod drift;
mod gaps;
mod lane;
mod schedule;
mod swap;
mod timeline;

use alloc::vec;
use alloc::vec::Vec;

pub use drift::Estimates;
pub use schedule::early;

use crate::graph::{Graph, OpId};
use crate::machine::Link;
use crate::stays::Stays;
use swap::Planning;
use timeline::Timeline;

/// A job to plan for.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// What an iteration computes.
    pub graph: &'a Graph,
    /// The order of its operators.
    pub schedule: Vec<OpId>,
    /// What each operator is expected to take beside the other jobs, in nanoseconds, by its number.
    pub times: Vec<u64>,
    /// The part of all jobs' swaps that may be this one's, 0 to 1: its maximal swapping ratio. Those of all jobs together should be
    /// 1 at least, or they stop each other.
    pub most: f64,
}

/// What holds for all jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The size of a chunk in bytes, at least 1.
    pub chunk: u64,
    /// The link that the jobs share evenly: one copy at a time, at its rate for one direction.
    pub link: Link,
    /// Whether kept tensors may be in host memory between iterations.
    pub is_across: bool,
    /// The GPU memory for all jobs together in bytes: tensors swap until the jobs fit, and operators run again where that is not
    /// enough. None: all swap that can, and no operator runs again.
    pub memory: Option<u64>,
}

/// Tensors up to the largest one's size halved so often are swapped; the best of all plans counts.
const HALVINGS: u32 = 8;

/// Decides for all jobs what swaps, so that the sum of their peaks is low. No copy but that of an input makes an operator
/// wait as long as operators take their expected times and none runs again. Each job's schedule must be one of its graph's.
pub fn plan<'a>(jobs: &[Job<'a>], settings: &Settings) -> Vec<Stays<'a>> {
    let begun = begin(jobs, settings);
    let plans = limits(jobs).into_iter().map(|most| {
        let limited = begun.iter().map(|job| job.limited(most)).collect();
        swaps(jobs, limited, settings.memory)
    });
    // Once the jobs fit, less is gained by fewer bytes than by fewer swaps.
    let enough = settings.memory.unwrap_or_default();
    let best = plans.min_by_key(|plan| {
        let swaps: u64 = plan.iter().map(|job| job.swaps).sum();
        (sum(plan).max(enough), swaps)
    });
    let mut best = best.unwrap_or_default();
    if let Some(memory) = settings.memory {
        recompute(jobs, &mut best, memory);
    }
    best.into_iter().map(|job| job.stays).collect()
}

/// The sizes up to which tensors are swapped, in bytes, each of which makes a difference.
fn limits(jobs: &[Job<'_>]) -> Vec<u64> {
    let tensors = jobs.iter().flat_map(|job| job.graph.tensors());
    let sizes: Vec<u64> = tensors.map(|tensor| tensor.bytes).collect();
    let largest = sizes.iter().copied().max().unwrap_or_default();
    let mut limits: Vec<u64> = (0..HALVINGS).map(|halvings| largest >> halvings).collect();
    let below = |limit: u64| sizes.iter().filter(|size| **size <= limit).count();
    limits.dedup_by_key(|limit| below(*limit));
    limits
}

/// The peaks of all jobs together in bytes: they run asynchronously, and may meet.
fn sum(jobs: &[Planning<'_>]) -> u64 {
    jobs.iter().map(|job| job.stays.peak().1).sum()
}

/// All jobs before any decision.
fn begin<'a>(jobs: &[Job<'a>], settings: &Settings) -> Vec<Planning<'a>> {
    let link = settings.link.shared(jobs.len());
    let begin = |job: &Job<'a>| {
        let stays = Stays::new(job.graph, job.schedule.clone(), settings.chunk);
        let timeline = Timeline::new(&job.schedule, &job.times);
        Planning::new(stays, timeline, link, settings.is_across)
    };
    jobs.iter().map(begin).collect()
}

/// Swaps the largest tensor of any job's peak, again and again, until none can be or the jobs fit into `memory` bytes.
fn swaps<'a>(
    jobs: &[Job<'a>],
    mut plans: Vec<Planning<'a>>,
    memory: Option<u64>,
) -> Vec<Planning<'a>> {
    let is_enough = |plans: &[Planning<'_>]| {
        let bytes: u64 = plans.iter().map(|job| job.peak_bytes).sum();
        memory.is_some_and(|memory| bytes <= memory)
    };
    while !is_enough(&plans)
        && let Some(job) = next(jobs, &plans)
    {
        plans[job].swap();
    }
    plans
}

/// The job with the largest candidate, of those that may swap more.
fn next(jobs: &[Job<'_>], plans: &[Planning<'_>]) -> Option<usize> {
    let all: u64 = plans.iter().map(|plan| plan.swaps).sum();
    let all_jobs = jobs.iter().zip(plans).enumerate();
    let candidates = all_jobs.filter_map(|(at, (job, plan))| {
        // The first swap of all is any job's that may have one at all.
        let is_allowed = job.most > 0.0 && plan.swaps as f64 <= job.most * all as f64;
        let tensor = plan.candidate().filter(|_| is_allowed)?;
        Some((job.graph.tensor(tensor).bytes, at))
    });
    let best = candidates.max_by_key(|(bytes, at)| (*bytes, core::cmp::Reverse(*at)));
    best.map(|(_, at)| at)
}

/// Operators run again until the jobs fit into the memory, or none can.
fn recompute(jobs: &[Job<'_>], plans: &mut [Planning<'_>], memory: u64) {
    let mut pins = vec![Vec::new(); plans.len()];
    loop {
        let mut is_less = false;
        for (at, job) in jobs.iter().enumerate() {
            if sum(plans) <= memory {
                return;
            }
            let stays = &mut plans[at].stays;
            let (peak, _) = stays.peak();
            is_less |= again::recompute(stays, &job.times, peak, &mut pins[at]);
        }
        if !is_less {
            return;
        }
    }
}
