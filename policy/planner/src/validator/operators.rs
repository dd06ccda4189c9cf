//! Which operators run, and how often.

use alloc::vec;
use alloc::vec::Vec;

use super::{PlanError, Step};
use crate::graph::{Graph, OpId, TensorId};
use crate::plan::{Plan, Queue};

/// Each operator comes at least once, one that is not repeatable at most once, and each number is one of the graph's.
pub(super) fn check(graph: &Graph, plan: &Plan) -> Result<(), PlanError> {
    let operators = graph.operators();
    let mut has_run = vec![false; operators.len()];
    for (at, compute) in (0..).zip(&plan.compute) {
        let (op, queue) = (compute.op, Queue::Compute);
        let wrong = |problem| {
            let step = Step { queue, at };
            PlanError::WrongOperator { step, op, problem }
        };
        let operator = operators.get(op as usize);
        let operator = operator.ok_or_else(|| wrong("the graph does not have"))?;
        if core::mem::replace(&mut has_run[op as usize], true) && !operator.is_repeatable() {
            return Err(wrong(if operator.is_random {
                "ran already and draws other random numbers each time"
            } else {
                "ran already and changes tensors in place"
            }));
        }
        let places = plan.outputs_of(at as usize);
        let placed = places.iter().map(|place| place.tensor);
        if sorted(placed) != sorted(operator.outputs.iter().copied()) {
            return Err(wrong("makes other tensors than the plan has places for"));
        }
    }
    if let Some(missing) = has_run.iter().position(|has_run| !has_run) {
        return Err(PlanError::OperatorCount {
            found: has_run.iter().filter(|has_run| **has_run).count(),
            expected: operators.len(),
            missing: missing as OpId,
        });
    }
    let copied = plan.swap_in.iter().map(|swap| swap.place.tensor);
    check_tensors(graph, Queue::SwapIn, copied)?;
    let copied = plan.swap_out.iter().map(|swap| swap.tensor);
    check_tensors(graph, Queue::SwapOut, copied)
}

fn sorted(tensors: impl Iterator<Item = TensorId>) -> Vec<TensorId> {
    let mut sorted: Vec<TensorId> = tensors.collect();
    sorted.sort_unstable();
    sorted
}

fn check_tensors(
    graph: &Graph,
    queue: Queue,
    mut tensors: impl Iterator<Item = TensorId>,
) -> Result<(), PlanError> {
    let count = graph.tensors().len();
    match (0..)
        .zip(&mut tensors)
        .find(|(_, tensor)| *tensor as usize >= count)
    {
        Some((at, tensor)) => Err(PlanError::WrongTensor {
            step: Step { queue, at },
            tensor,
            problem: "the graph does not have",
        }),
        None => Ok(()),
    }
}
