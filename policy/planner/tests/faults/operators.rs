//! Operators in the wrong order, missing, or twice.

use rtswap_planner::graph::{Graph, OpId, TensorId};
use rtswap_planner::plan::{Plan, Queue};
use rtswap_planner::validator::PlanError;

use super::common::executor::{Fault, execute};
use super::{Proof, any, refused, renumber};

/// What an operator does with a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Makes,
    Updates,
}

fn accesses(graph: &Graph, op: OpId) -> Vec<(TensorId, Access)> {
    let operator = graph.operator(op);
    let lists = [
        (&operator.inputs, Access::Reads),
        (&operator.outputs, Access::Makes),
        (&operator.updates, Access::Updates),
    ];
    let of = |(ids, access): (&Vec<TensorId>, Access)| {
        ids.iter().map(move |id| (*id, access)).collect::<Vec<_>>()
    };
    lists.into_iter().flat_map(of).collect()
}

/// Swaps two operators that run one after the other, with the places of what they make; both wait
/// for all that either did.
fn swap(plan: &mut Plan, at: usize) {
    let (made, makes) = (
        plan.outputs_of(at).to_vec(),
        plan.outputs_of(at + 1).to_vec(),
    );
    let from = plan.compute[at].outputs as usize;
    let to = from + made.len() + makes.len();
    plan.outputs
        .splice(from..to, makes.iter().chain(&made).copied());
    let (first, second) = (plan.compute[at], plan.compute[at + 1]);
    let waits = first.waits.and(second.waits);
    for (step, op) in plan.compute[at..at + 2]
        .iter_mut()
        .zip([second.op, first.op])
    {
        (step.op, step.waits) = (op, waits);
    }
    plan.compute[at + 1].outputs = (from + makes.len()) as u32;
}

/// Swaps operators of which the first accesses a tensor so, and the second so, and none other in
/// any way that matters.
fn swapped(
    name: &str,
    is_pair: impl Fn(Access, Access) -> bool,
    is_expected: impl Fn(&PlanError) -> bool,
) {
    refused(name, is_expected, |graph, plan, rng| {
        let is_wanted = |at: &usize| {
            let [first, second] = [*at, at + 1].map(|at| accesses(graph, plan.compute[at].op));
            let pairs = first
                .iter()
                .flat_map(|one| second.iter().map(move |other| (one, other)));
            let pairs = pairs
                .filter(|(one, other)| one.0 == other.0)
                .map(|(one, other)| (one.1, other.1));
            let pairs: Vec<_> = pairs
                .filter(|pair| *pair != (Access::Reads, Access::Reads))
                .collect();
            !pairs.is_empty() && pairs.iter().all(|(one, other)| is_pair(*one, *other))
        };
        let pairs: Vec<usize> = (0..plan.compute.len() - 1).filter(is_wanted).collect();
        swap(plan, any(&pairs, rng)?);
        // The second operator may wait for a copy into what the first one frees: such a plan has
        // another fault as well.
        let is_stuck = execute(graph, plan, |_| 1) == Err(Fault::Stuck);
        (!is_stuck).then_some(Proof::Certain)
    });
}

/// The wrong value, or none; where the second operator puts what it makes into the place of a
/// tensor that the first one uses last, that too.
fn is_refused(error: &PlanError) -> bool {
    matches!(
        error,
        PlanError::NotThere { .. } | PlanError::WrongValue { .. } | PlanError::Overlap { .. }
    )
}

#[test]
fn a_read_before_its_write() {
    let is_pair = |one, other| one != Access::Reads && other == Access::Reads;
    swapped("read after write", is_pair, is_refused);
}

#[test]
fn a_write_before_the_read_of_the_old_value() {
    let is_pair = |one, other| one == Access::Reads && other == Access::Updates;
    swapped("write after read", is_pair, is_refused);
}

#[test]
fn two_writes_in_the_wrong_order() {
    let is_pair = |one, other| one != Access::Reads && other == Access::Updates;
    swapped("write after write", is_pair, is_refused);
}

#[test]
fn an_operator_that_is_missing() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::OperatorCount { .. });
    refused("a missing operator", is_expected, |_, plan, rng| {
        let at = rng.below(plan.compute.len());
        let count = plan.outputs_of(at).len();
        let from = plan.compute[at].outputs as usize;
        plan.outputs.drain(from..from + count);
        let dropped = plan.compute.remove(at);
        for step in &mut plan.compute[at..] {
            step.outputs -= count as u32;
        }
        renumber(plan, Queue::Compute, at, dropped.waits);
        Some(Proof::Certain)
    });
}

#[test]
fn an_operator_in_place_of_another() {
    let is_expected = |error: &PlanError| {
        matches!(
            error,
            PlanError::WrongOperator { .. } | PlanError::OperatorCount { .. }
        )
    };
    refused(
        "an operator in place of another",
        is_expected,
        |_, plan, rng| {
            let [one, other] = [(); 2].map(|()| rng.below(plan.compute.len()));
            plan.compute[one].op = plan.compute[other].op;
            (one != other).then_some(Proof::Certain)
        },
    );
}
