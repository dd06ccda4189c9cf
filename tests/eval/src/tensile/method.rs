//! The planners that are compared, and their plans.

use anyhow::{Context, Result};
use rtswap_planner::graph::{Graph, OpId, TensorId};
use rtswap_planner::plan::Plan;
use rtswap_planner::stays::{Gap, Stays};
use rtswap_planner::tensile::{self, Job};
use rtswap_planner::validator::validate;

use super::order::deferred;
use super::workloads::trace;
use super::{CHUNK, LINK};

/// How jobs swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    Vanilla,
    /// As vDNN does, with its policy `all`.
    VDnn,
    /// As Capuchin does.
    Capuchin,
    /// As TENSILE does.
    Tensile(Ours),
}

/// How TENSILE plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The order of operators.
    pub order: Order,
    /// What becomes of weights and optimiser's states between iterations.
    pub kept: Kept,
}

/// An order of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// PyTorch's.
    Trace,
    /// Ours: [`deferred`].
    Deferred,
}

/// What becomes of kept tensors between iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// They are swapped across iterations, as TENSILE does.
    Swapped,
    /// The same ones leave, and each comes back where an operator misses it, as in planners that see one iteration only.
    Missed,
    /// They are in GPU memory whenever an iteration begins.
    Resident,
}

impl Method {
    /// TENSILE in PyTorch's order.
    pub const TRACE: Self = Self::ours(Order::Trace, Kept::Swapped);

    /// TENSILE in our order.
    pub const DEFERRED: Self = Self::ours(Order::Deferred, Kept::Swapped);

    /// TENSILE with these choices.
    pub const fn ours(order: Order, kept: Kept) -> Self {
        Self::Tensile(Ours { order, kept })
    }
}

/// A job for [`Ours::plan`].
#[derive(Clone, Debug)]
pub struct Expected<'a> {
    /// What an iteration computes.
    pub graph: &'a Graph,
    /// What each operator is expected to take beside the other jobs, in nanoseconds.
    pub times: Vec<u64>,
}

impl Ours {
    /// Decides for jobs that run at once.
    pub fn decide<'a>(self, jobs: &[Expected<'a>]) -> Vec<Stays<'a>> {
        let jobs: Vec<Job<'a>> = jobs
            .iter()
            .map(|job| Job {
                graph: job.graph,
                schedule: self.schedule(job.graph),
                times: job.times.clone(),
                // As the paper has it for one job; three equal ones have a third each in any case.
                most: 1.0,
            })
            .collect();
        let settings = tensile::Settings {
            chunk: CHUNK,
            link: LINK,
            is_across: self.kept != Kept::Resident,
            // As much memory is saved as can be without waiting, as in the paper.
            memory: None,
        };
        let mut decided = tensile::plan(&jobs, &settings);
        if self.kept == Kept::Missed {
            decided.iter_mut().for_each(miss);
        }
        decided
    }

    /// Plans for jobs that run at once, proven.
    pub fn plan(self, jobs: &[Expected<'_>]) -> Result<Vec<Plan>> {
        self.decide(jobs).iter().map(proven).collect()
    }

    fn schedule(self, graph: &Graph) -> Vec<OpId> {
        match self.order {
            Order::Trace => trace(graph),
            Order::Deferred => deferred(graph),
        }
    }
}

/// What is absent when an iteration begins comes right before its first use.
fn miss(stays: &mut Stays<'_>) {
    for id in 0..stays.graph().tensors().len() as TensorId {
        let uses = stays.uses(id);
        let is_absent = stays.graph().tensor(id).kind.is_kept() && !stays.is_resident(id);
        let (Some(first), true) = (uses.first().copied(), is_absent) else {
            continue;
        };
        if let Gap::Swaps { leaves, .. } = stays.gap(id, uses.len() as u32) {
            stays.set_absent(id, leaves, first);
        }
    }
}

/// The plan of decisions in the memory that they need, proven.
pub fn proven(stays: &Stays<'_>) -> Result<Plan> {
    let plan = stays.plan(stays.peak().1)?;
    prove(stays.graph(), &plan)?;
    Ok(plan)
}

/// Proves a plan.
pub fn prove(graph: &Graph, plan: &Plan) -> Result<()> {
    validate(graph, plan).context("a plan that does not compute its graph")
}
