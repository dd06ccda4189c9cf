//! Steps that wait for too little, for each other, or for steps that there are not.

use rtswap_planner::plan::{Plan, Queue, Waits};
use rtswap_planner::validator::{PlanError, Step};

use super::{Proof, any, refused, steps, waits};

/// All waits of a plan that are not empty: the step, and the last one that it waits for.
fn all_waits(plan: &mut Plan) -> Vec<(Step, Step)> {
    let mut all = Vec::new();
    for step in steps(plan) {
        let of = *waits(plan, step);
        let counts = Queue::ALL
            .into_iter()
            .zip(of)
            .filter(|(_, count)| *count > 0);
        all.extend(counts.map(|(queue, count)| {
            (
                step,
                Step {
                    queue,
                    at: count - 1,
                },
            )
        }));
    }
    all
}

/// Which of two steps is refused depends on the order in which the validator looks at them: the one
/// that uses a place that still is in use, or the one that finds it overwritten.
fn is_early(error: &PlanError) -> bool {
    matches!(
        error,
        PlanError::Overlap { .. } | PlanError::WrongValue { .. } | PlanError::NotThere { .. }
    )
}

/// A step that puts something into GPU memory waits for one step less than before. Where the wait
/// was necessary, it does so while that step still uses the place, or while the value is on its way
/// to the host.
#[test]
fn memory_that_is_freed_a_step_too_early() {
    refused("memory freed early", is_early, |_, plan, rng| {
        let is_put = |(step, last): &(Step, Step)| match step.queue {
            Queue::Compute => last.queue == Queue::SwapOut,
            Queue::SwapIn => true,
            Queue::SwapOut => false,
        };
        let all: Vec<_> = all_waits(plan).into_iter().filter(is_put).collect();
        let (step, last) = any(&all, rng)?;
        waits(plan, step)[last.queue as usize] -= 1;
        Some(Proof::Slow(last))
    });
}

/// An operator waits for one swap-in less than before.
#[test]
fn an_operator_that_does_not_wait_for_its_tensor() {
    let is_expected = |error: &PlanError| {
        matches!(
            error,
            PlanError::NotThere { .. } | PlanError::Overlap { .. }
        )
    };
    refused("an operator too early", is_expected, |_, plan, rng| {
        let is_use = |(step, last): &(Step, Step)| {
            step.queue == Queue::Compute && last.queue == Queue::SwapIn
        };
        let all: Vec<_> = all_waits(plan).into_iter().filter(is_use).collect();
        let (step, last) = any(&all, rng)?;
        waits(plan, step)[last.queue as usize] -= 1;
        Some(Proof::Slow(last))
    });
}

#[test]
fn steps_that_wait_for_each_other() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::Deadlock { .. });
    refused("a cycle of two", is_expected, |_, plan, rng| {
        let (step, last) = any(&all_waits(plan), rng)?;
        let back = &mut waits(plan, last)[step.queue as usize];
        *back = (*back).max(step.at + 1);
        Some(Proof::Certain)
    });
    refused(
        "a step that waits for itself",
        is_expected,
        |_, plan, rng| {
            let step = any(&steps(plan), rng)?;
            waits(plan, step)[step.queue as usize] = step.at + 1;
            Some(Proof::Certain)
        },
    );
}

/// Through all three queues: a swap-out that an operator waits for, a swap-in that the swap-out
/// waits for, and back.
#[test]
fn steps_that_wait_for_each_other_in_a_circle() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::Deadlock { .. });
    refused("a cycle of three", is_expected, |_, plan, rng| {
        let at = rng.below(plan.compute.len());
        let swap_in = any(&(0..plan.swap_in.len()).collect::<Vec<_>>(), rng)?;
        let swap_out = any(&(0..plan.swap_out.len()).collect::<Vec<_>>(), rng)?;
        let circle = [
            (&mut plan.compute[at].waits, Queue::SwapOut, swap_out),
            (&mut plan.swap_out[swap_out].waits, Queue::SwapIn, swap_in),
            (&mut plan.swap_in[swap_in].waits, Queue::Compute, at),
        ];
        for (waits, queue, last) in circle {
            *waits = waits.and(Waits::on(queue, last as u32 + 1));
        }
        Some(Proof::Certain)
    });
}

#[test]
fn waits_beyond_a_queue() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::WaitsForNothing { .. });
    refused("a wait beyond a queue", is_expected, |_, plan, rng| {
        let counts = [plan.compute.len(), plan.swap_in.len(), plan.swap_out.len()];
        let step = any(&steps(plan), rng)?;
        let queue = rng.below(3);
        let beyond = [counts[queue] as u32 + 1, u32::MAX];
        waits(plan, step)[queue] = beyond[rng.below(2)];
        Some(Proof::Certain)
    });
}
