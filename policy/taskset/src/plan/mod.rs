//! The file of a swap plan, as JSON: what an executor does to run a graph in less memory, for which graph, and what a
//! planner predicted of it. `read` knows the keys and their rules, `steps` reads the queues, `write` has the text.

mod read;
mod steps;
#[cfg(test)]
mod tests;
mod write;

pub use read::read;
pub use write::write;

use rtswap_planner::graph::Graph;
use rtswap_planner::plan::Plan;
use rtswap_policy::units::Ppm;

use crate::graph::{GraphFile, digest};

/// A swap plan, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFile {
    /// The graph that the plan computes.
    pub graph: GraphIdentity,
    /// The planner that made it, such as "advisor": not empty, at most [`crate::MAX_NAME`] characters, all visible.
    pub planner: String,
    /// The seed of the planner's random numbers.
    pub seed: u64,
    /// What the planner's machine model says of the plan.
    pub predicted: Predicted,
    /// The plan, with its budget and its chunk size.
    pub plan: Plan,
}

/// What tells one graph from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphIdentity {
    /// The name of the model, for people, as in [`GraphFile::name`].
    pub name: String,
    /// The number of its operators.
    pub operators: usize,
    /// The number of its tensors.
    pub tensors: usize,
    /// What [`digest`] says of it.
    pub digest: u64,
}

/// What a machine model says of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predicted {
    /// The time of one iteration in nanoseconds.
    pub time_ns: u64,
    /// The time of one iteration with infinite memory, in nanoseconds.
    pub ideal_ns: u64,
    /// The most bytes of the budget that are used at once.
    pub peak_bytes: u64,
    /// The time in nanoseconds in which the compute engine waited for copies.
    pub unhidden_ns: u64,
}

impl GraphIdentity {
    /// The identity of the graph of a file.
    pub fn of(file: &GraphFile) -> Self {
        Self::new(file.name.clone(), &file.graph)
    }

    fn new(name: String, graph: &Graph) -> Self {
        Self {
            name,
            operators: graph.operators().len(),
            tensors: graph.tensors().len(),
            digest: digest(graph),
        }
    }
}

impl Predicted {
    /// The ideal time over the predicted one, rounded down; at most 1, and 1 where both are 0.
    pub fn share(&self) -> Ppm {
        let time = u128::from(self.time_ns.max(1));
        let ideal = u128::from(self.ideal_ns.min(self.time_ns));
        if self.time_ns == 0 {
            return Ppm::ONE;
        }
        Ppm((ideal * u128::from(Ppm::ONE.0) / time) as u32)
    }
}
