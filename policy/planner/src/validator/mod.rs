//! Proves that a plan computes its graph, however long each step takes.
//!
//! `clock` orders the steps: which have surely ended when one begins. `memory` follows, in that order, what lies where, and
//! whether each value that is used is there, whole, and the latest. It knows no planner, no pool and no machine.

mod clock;
mod memory;

use crate::graph::{Graph, OpId, TensorId};
use crate::plan::{Plan, Queue};

/// A step of a plan: the queue, and the place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The queue.
    pub queue: Queue,
    /// The place in the queue, counted from 0.
    pub at: u32,
}

impl core::fmt::Display for Step {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let queue = match self.queue {
            Queue::Compute => "compute",
            Queue::SwapIn => "swap_in",
            Queue::SwapOut => "swap_out",
        };
        write!(f, "{queue}[{}]", self.at)
    }
}

/// Why a plan does not compute its graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Operators are missing or too many.
    #[error("the plan runs {found} operators, and the graph has {expected}")]
    OperatorCount {
        /// In the plan.
        found: usize,
        /// In the graph.
        expected: usize,
    },
    /// An operator that is not the graph's, or comes twice.
    #[error("{step} runs operator {op}, which {problem}")]
    WrongOperator {
        /// Where.
        step: Step,
        /// Which number.
        op: OpId,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A number that no tensor has, or a tensor that has no business there.
    #[error("{step} has tensor {tensor}, which {problem}")]
    WrongTensor {
        /// Where.
        step: Step,
        /// Which number.
        tensor: TensorId,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A resident tensor that cannot be one.
    #[error("residents have tensor {tensor}, which {problem}")]
    WrongResident {
        /// Which number.
        tensor: TensorId,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A wait for steps that there are not.
    #[error("{step} waits for {count} steps of {queue:?}, which has {most}")]
    WaitsForNothing {
        /// Where.
        step: Step,
        /// In which queue.
        queue: Queue,
        /// For so many.
        count: u32,
        /// There are so many.
        most: u32,
    },
    /// Steps that wait for each other.
    #[error("{step} never begins: it waits for steps that wait for it")]
    Deadlock {
        /// One of them.
        step: Step,
    },
    /// A place that cannot hold its tensor.
    #[error("the place of tensor {tensor} {problem}")]
    WrongPlace {
        /// The tensor.
        tensor: TensorId,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two tensors at the same place at the same time.
    #[error("{step} puts tensor {tensor} where tensor {other} still is: {user} may not have ended")]
    Overlap {
        /// Where.
        step: Step,
        /// What comes.
        tensor: TensorId,
        /// What is there.
        other: TensorId,
        /// A step that uses it.
        user: Step,
    },
    /// A tensor that may not be in GPU memory.
    #[error("{step} uses tensor {tensor}, which {problem}")]
    NotThere {
        /// Where.
        step: Step,
        /// Which.
        tensor: TensorId,
        /// Why not.
        problem: &'static str,
    },
    /// A value that is not the one that the graph asks for.
    #[error("{step} uses tensor {tensor} with a value that is not the graph's: {problem}")]
    WrongValue {
        /// Where.
        step: Step,
        /// Which.
        tensor: TensorId,
        /// What is wrong.
        problem: &'static str,
    },
    /// A kept tensor whose value is lost at the end of an iteration.
    #[error("tensor {tensor} is kept, and behind the plan {problem}")]
    NotKept {
        /// Which.
        tensor: TensorId,
        /// What is wrong.
        problem: &'static str,
    },
}

/// Proves that `plan` computes `graph` in its budget: whatever the times of its steps are, each operator finds the values
/// that the graph asks for, no two tensors overlap while both are used, and an iteration ends as the next one begins.
pub fn validate(graph: &Graph, plan: &Plan) -> Result<(), PlanError> {
    let clock = clock::Clock::of(plan)?;
    memory::follow(graph, plan, &clock)
}
