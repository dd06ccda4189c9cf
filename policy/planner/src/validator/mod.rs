//! Proves that a plan computes its graph, however long each step takes.
//!
//! `operators` counts how often each operator runs. `clock` orders the steps: which have surely ended when one begins. `memory`
//! follows, in that order, what lies where, and whether each value that is used is there, whole, and of the version that the
//! graph has. It knows no planner, no pool and no machine.

mod clock;
mod memory;
mod operators;

use crate::graph::{Graph, OpId, TensorId};
use crate::plan::{Plan, Queue};

/// A step of a plan: the queue, and the place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The queue of the step.
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
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum PlanError {
    /// The plan runs `found` operators of the graph's `expected`, repeats aside; `missing` is the first that it lacks.
    #[error(
        "the plan runs {found} of the graph's {expected} operators: operator {missing} is missing"
    )]
    OperatorCount {
        found: usize,
        expected: usize,
        missing: OpId,
    },
    /// A compute step runs an operator that is not the graph's, ran already and is not repeatable, or makes other tensors than it has places for.
    #[error("{step} runs operator {op}, which {problem}")]
    WrongOperator {
        step: Step,
        op: OpId,
        problem: &'static str,
    },
    /// A copy of a tensor that the graph does not have.
    #[error("{step} has tensor {tensor}, which {problem}")]
    WrongTensor {
        step: Step,
        tensor: TensorId,
        problem: &'static str,
    },
    /// A tensor that cannot be resident.
    #[error("residents have tensor {tensor}, which {problem}")]
    WrongResident {
        tensor: TensorId,
        problem: &'static str,
    },
    /// A step waits for `count` steps of a queue that has `most`.
    #[error("{step} waits for {count} steps of {queue:?}, which has {most}")]
    WaitsForNothing {
        step: Step,
        queue: Queue,
        count: u32,
        most: u32,
    },
    /// A step of several that wait for each other.
    #[error("{step} never begins: it waits for steps that wait for it")]
    Deadlock { step: Step },
    /// A place that cannot hold its tensor.
    #[error("the place of tensor {tensor} {problem}")]
    WrongPlace {
        tensor: TensorId,
        problem: &'static str,
    },
    /// A step puts a tensor where `other` still is: the step `user` uses it and may not have ended.
    #[error("{step} puts tensor {tensor} where tensor {other} still is: {user} may not have ended")]
    Overlap {
        step: Step,
        tensor: TensorId,
        other: TensorId,
        user: Step,
    },
    /// A step uses a tensor that may not be in GPU memory.
    #[error("{step} uses tensor {tensor}, which {problem}")]
    NotThere {
        step: Step,
        tensor: TensorId,
        problem: &'static str,
    },
    /// A step uses a tensor with another value than the graph asks for.
    #[error("{step} uses tensor {tensor} with a value that is not the graph's: {problem}")]
    WrongValue {
        step: Step,
        tensor: TensorId,
        problem: &'static str,
    },
    /// A kept tensor that does not have its value, or is not in its place, when the next iteration begins.
    #[error("tensor {tensor} is kept, and behind the plan {problem}")]
    NotKept {
        tensor: TensorId,
        problem: &'static str,
    },
}

/// Proves that `plan` computes `graph` in its budget: whatever the times of its steps are, each operator finds the values
/// that the graph asks for, no two tensors overlap while both are used, and an iteration ends as the next one begins. Iterations
/// follow one another as [`crate::plan`] says.
///
/// Operators run first in an order that the graph allows. One that is repeatable ([`crate::graph::Operator::is_repeatable`]) may
/// run again at any time later, to make its outputs once more, at new places or where they were. Each of its inputs must be in
/// GPU memory in the version that it had at the first run, and each of its outputs becomes the version that no operator has
/// changed yet: an operator that asks for a later one is refused, until that is copied from the host again.
///
/// A tensor that is not kept may be overwritten after its last use, and that
/// includes results: a graph that returns some ends with an operator that reads them, such as a copy to the host.
pub fn validate(graph: &Graph, plan: &Plan) -> Result<(), PlanError> {
    let clock = clock::Clock::of(plan)?;
    operators::check(graph, plan)?;
    memory::follow(graph, plan, &clock)
}
