//! The planners that are compared, and their plans.

use anyhow::{Context, Result};
use rtswap_planner::graph::{Graph, OpId};
use rtswap_planner::plan::Plan;
use rtswap_planner::stays::Stays;
use rtswap_planner::tensile::{self, Job};
use rtswap_planner::validator::validate;

use super::order::deferred;
use super::workloads::trace;
use super::{CHUNK, LINK, MEMORY};

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
    /// Whether the optimiser's operators run as soon as they can, and not in PyTorch's order.
    pub is_early: bool,
    /// Whether kept tensors may be in host memory between iterations.
    pub is_across: bool,
}

impl Method {
    /// TENSILE as it is compared: across iterations, in PyTorch's order.
    pub const TENSILE: Self = Self::Tensile(Ours {
        is_early: false,
        is_across: true,
    });

    /// The same with the optimiser's operators as early as they can run.
    pub const EARLY: Self = Self::Tensile(Ours {
        is_early: true,
        is_across: true,
    });

    /// TENSILE within iterations only.
    pub const WITHIN: Self = Self::Tensile(Ours {
        is_early: false,
        is_across: false,
    });
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
            is_across: self.is_across,
            memory: Some(MEMORY),
        };
        tensile::plan(&jobs, &settings)
    }

    /// Plans for jobs that run at once, proven.
    pub fn plan(self, jobs: &[Expected<'_>]) -> Result<Vec<Plan>> {
        self.decide(jobs).iter().map(proven).collect()
    }

    fn schedule(self, graph: &Graph) -> Vec<OpId> {
        if self.is_early {
            deferred(graph)
        } else {
            trace(graph)
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
