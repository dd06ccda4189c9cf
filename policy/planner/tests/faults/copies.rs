//! Copies that are missing, come too early, or are torn.

use rtswap_planner::graph::{Graph, TensorId};
use rtswap_planner::plan::{Place, Plan, Queue, SwapOut, Waits};
use rtswap_planner::validator::{PlanError, Step};

use super::common::executor::{Fault, execute};
use super::{Proof, any, refused, renumber, steps, waits};

/// The compute step that makes or changes the tensor of a swap-out last before it.
fn changer(graph: &Graph, plan: &Plan, swap: &SwapOut) -> Option<usize> {
    let before = &plan.compute[..swap.waits.of(Queue::Compute) as usize];
    before.iter().rposition(|step| {
        let operator = graph.operator(step.op);
        let mut changed = operator.updates.iter().chain(&operator.outputs);
        changed.any(|id| *id == swap.tensor)
    })
}

/// Drops a swap-out, and lets the steps behind it wait for what it waited for.
fn drop_swap_out(plan: &mut Plan, at: usize) {
    let dropped = plan.swap_out.remove(at);
    renumber(plan, Queue::SwapOut, at, dropped.waits);
}

/// Whether a copy of a tensor is in host memory before the first `swaps` swap-outs have ended.
fn has_older_copy(graph: &Graph, plan: &Plan, tensor: TensorId, swaps: usize) -> bool {
    let is_resident = plan.residents.iter().any(|place| place.tensor == tensor);
    let is_given = graph.tensor(tensor).kind.is_given() && !is_resident;
    is_given
        || plan.swap_out[..swaps]
            .iter()
            .any(|swap| swap.tensor == tensor)
}

/// By luck, nothing was put where the tensor was before.
#[test]
fn a_swap_in_that_is_dropped() {
    let is_expected = |error: &PlanError| {
        matches!(
            error,
            PlanError::NotThere { .. } | PlanError::NotKept { .. }
        )
    };
    refused("a dropped swap-in", is_expected, |_, plan, rng| {
        let at = any(&(0..plan.swap_in.len()).collect::<Vec<_>>(), rng)?;
        let dropped = plan.swap_in.remove(at);
        renumber(plan, Queue::SwapIn, at, dropped.waits);
        Some(Proof::Random)
    });
}

/// Planners write back only what is read again, or kept: without the copy it is lost.
#[test]
fn a_write_back_that_is_lost() {
    let is_expected = |error: &PlanError| match error {
        PlanError::WrongValue { problem, .. } => problem.contains("never copied"),
        PlanError::NotKept { problem, .. } => problem.contains("host memory"),
        _ => false,
    };
    refused("a lost write-back", is_expected, |graph, plan, rng| {
        let swaps = (0..plan.swap_out.len())
            .filter(|at| !has_older_copy(graph, plan, plan.swap_out[*at].tensor, *at));
        let at = any(&swaps.collect::<Vec<_>>(), rng)?;
        drop_swap_out(plan, at);
        Some(Proof::Certain)
    });
}

#[test]
fn a_host_copy_that_is_stale() {
    let is_expected = |error: &PlanError| match error {
        PlanError::WrongValue { problem, .. } => problem.contains("since it was copied"),
        PlanError::NotKept { problem, .. } => {
            problem.contains("host memory") || problem.contains("next iteration expects")
        }
        _ => false,
    };
    refused("a stale host copy", is_expected, |graph, plan, rng| {
        let swaps = (0..plan.swap_out.len())
            .filter(|at| has_older_copy(graph, plan, plan.swap_out[*at].tensor, *at));
        let at = any(&swaps.collect::<Vec<_>>(), rng)?;
        drop_swap_out(plan, at);
        Some(Proof::Certain)
    });
}

/// A swap-out that does not wait for the operator which makes or changes its tensor last. What
/// takes its place then waits for the swap-out, but not for the operator. By luck, the swap-out
/// waits for it nevertheless, through other steps.
#[test]
fn a_swap_out_that_copies_too_early() {
    let is_expected = |error: &PlanError| {
        matches!(
            error,
            PlanError::NotThere { .. } | PlanError::WrongValue { .. } | PlanError::Overlap { .. }
        )
    };
    refused("an early swap-out", is_expected, |graph, plan, rng| {
        let at = any(&(0..plan.swap_out.len()).collect::<Vec<_>>(), rng)?;
        let changer = changer(graph, plan, &plan.swap_out[at])? as u32;
        plan.swap_out[at].waits.0[Queue::Compute as usize] = changer;
        let queue = Queue::Compute;
        Some(Proof::Slow(Step { queue, at: changer }))
    });
}

/// A copy that is added to a plan and may run while an operator changes the tensor. That nothing
/// reads the copy does not excuse it. As nothing waits for it, the tensor may even be gone before.
#[test]
fn a_swap_out_that_tears() {
    let is_expected = |error: &PlanError| {
        matches!(
            error,
            PlanError::WrongValue { .. } | PlanError::NotThere { .. }
        )
    };
    refused("a torn swap-out", is_expected, |graph, plan, rng| {
        let changes = (0_u32..).zip(&plan.compute);
        let changes = changes.flat_map(|(at, step)| {
            let updates = &graph.operator(step.op).updates;
            updates.iter().map(move |tensor| (at, *tensor))
        });
        let (at, tensor) = any(&changes.collect::<Vec<_>>(), rng)?;
        let step = Step {
            queue: Queue::Compute,
            at,
        };
        let Waits(mut of) = plan.compute[at as usize].waits;
        // Behind the swap-outs that the operator waits for itself.
        let place = of[Queue::SwapOut as usize];
        for other in steps(plan) {
            let count = &mut waits(plan, other)[Queue::SwapOut as usize];
            *count += u32::from(*count > place);
        }
        of[Queue::Compute as usize] = step.at;
        let waits = Waits(of);
        plan.swap_out
            .insert(place as usize, SwapOut { tensor, waits });
        // A copy that the operator waits for through other steps may wait for the copy that is
        // added.
        let is_stuck = execute(graph, plan, |_| 1) == Err(Fault::Stuck);
        let added = Step {
            queue: Queue::SwapOut,
            at: place,
        };
        (!is_stuck).then_some(Proof::Slow(added))
    });
}

/// By luck, the tensor still is where it was: nothing was put there since.
#[test]
fn a_resident_that_does_not_come_back() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::NotKept { .. });
    refused(
        "a resident that stays away",
        is_expected,
        |graph, plan, rng| {
            let last = |place: &Place| {
                let mut swaps = plan.swap_in.iter();
                swaps.rposition(|swap| swap.place.tensor == place.tensor)
            };
            // No operator uses it once it is back.
            let is_unused = |at: &usize| {
                let tensor = plan.swap_in[*at].place.tensor;
                let behind = plan
                    .compute
                    .iter()
                    .filter(|step| step.waits.of(Queue::SwapIn) as usize > *at);
                behind
                    .clone()
                    .all(|step| graph.operator(step.op).tensors().all(|id| id != tensor))
            };
            let swaps: Vec<usize> = plan
                .residents
                .iter()
                .filter_map(last)
                .filter(is_unused)
                .collect();
            let at = any(&swaps, rng)?;
            let dropped = plan.swap_in.remove(at);
            renumber(plan, Queue::SwapIn, at, dropped.waits);
            Some(Proof::Random)
        },
    );
}
