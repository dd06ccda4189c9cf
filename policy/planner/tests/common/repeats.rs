//! Plans with operators that run more than once.

use rtswap_planner::graph::{Graph, OpId};
use rtswap_planner::plan::{Compute, Extent, Place, Plan, Queue, Waits};
use rtswap_planner::validator::Step;

use super::executor::waits_of;

/// Where a repeat puts what it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// In memory that the budget grows by.
    Fresh,
    /// Where the first run put it.
    Former,
}

/// Runs an operator of a plan once more behind compute step `at`. Whatever can have begun by then
/// has ended before, and all other steps wait for it.
pub(crate) fn repeat(graph: &Graph, plan: &mut Plan, op: OpId, at: usize, target: Target) {
    let begun = begun_by(plan, at);
    let former = plan.compute.iter().position(|step| step.op == op);
    let former = plan.outputs_of(former.expect("it has run")).to_vec();
    let places: Vec<Place> = former
        .into_iter()
        .map(|place| match target {
            Target::Fresh => fresh(graph, plan, place),
            Target::Former => place,
        })
        .collect();
    let next = plan.compute.get(at + 1).map(|step| step.outputs as usize);
    let outputs = next.unwrap_or(plan.outputs.len());
    for step in &mut plan.compute[at + 1..] {
        step.outputs += places.len() as u32;
    }
    plan.outputs.splice(outputs..outputs, places);
    let waits_of_all = [
        plan.compute
            .iter_mut()
            .map(|step| &mut step.waits)
            .collect::<Vec<_>>(),
        plan.swap_in
            .iter_mut()
            .map(|step| &mut step.waits)
            .collect(),
        plan.swap_out
            .iter_mut()
            .map(|step| &mut step.waits)
            .collect(),
    ];
    let (own, number) = (Queue::Compute as usize, at as u32 + 1);
    for (queue, all) in waits_of_all.into_iter().enumerate() {
        for (place, waits) in all.into_iter().enumerate() {
            let count = &mut waits.0[own];
            *count += u32::from(*count > number);
            if queue != own && place >= begun[queue] as usize {
                *count = number.max(*count) + u32::from(*count <= number);
            }
        }
    }
    let repeated = Compute {
        op,
        waits: Waits(begun),
        outputs: outputs as u32,
    };
    plan.compute.insert(at + 1, repeated);
}

/// A place behind the budget, which grows by it.
fn fresh(graph: &Graph, plan: &mut Plan, place: Place) -> Place {
    let chunk = plan.chunk.max(1);
    let offset = plan.budget.next_multiple_of(chunk);
    let bytes = graph.tensor(place.tensor).bytes.next_multiple_of(chunk);
    plan.budget = offset + bytes;
    plan.extents.push(Extent { offset, bytes });
    Place {
        first: plan.extents.len() as u32 - 1,
        count: 1,
        ..place
    }
}

/// How many steps of each queue can have run once compute step `at` has, if copies run first.
pub(crate) fn begun_by(plan: &Plan, at: usize) -> [u32; 3] {
    let counts = [plan.compute.len(), plan.swap_in.len(), plan.swap_out.len()];
    let mut done = [0_u32; 3];
    while done[Queue::Compute as usize] as usize <= at {
        let is_ready = |queue: &Queue| {
            let step = Step {
                queue: *queue,
                at: done[*queue as usize],
            };
            let is_left = (step.at as usize) < counts[*queue as usize];
            is_left && (0..3).all(|of| waits_of(plan, step).0[of] <= done[of])
        };
        let ready = Queue::ALL.into_iter().rev().find(is_ready);
        done[ready.expect("no steps wait for each other") as usize] += 1;
    }
    done
}
