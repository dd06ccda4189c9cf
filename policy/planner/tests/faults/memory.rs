//! Places that overlap or lie outside the budget.

use rtswap_planner::graph::{Graph, TensorId};
use rtswap_planner::plan::{Extent, Place, Plan};
use rtswap_planner::validator::{PlanError, validate};

use super::common::executor::execute;
use super::{Proof, any, refused};

/// All places of a plan.
fn places(plan: &mut Plan) -> Vec<&mut Place> {
    let copied = plan.swap_in.iter_mut().map(|swap| &mut swap.place);
    let others = plan.residents.iter_mut().chain(&mut plan.outputs);
    others.chain(copied).collect()
}

/// Where an operator finds two of its tensors; the first is not where it was before the iteration.
fn two_at_once(graph: &Graph, plan: &Plan, rng: &mut super::Rng) -> Option<(Place, Place)> {
    let used = execute(graph, plan, |_| 1).expect("the plan is right");
    let is_moved = |place: &Place| !plan.residents.contains(place);
    let pairs = used.iter().flat_map(|used| {
        let pairs = used
            .iter()
            .flat_map(|one| used.iter().map(move |other| (*one, *other)));
        pairs.filter(|(one, other)| one.tensor != other.tensor && is_moved(one))
    });
    any(&pairs.collect::<Vec<_>>(), rng)
}

#[test]
fn two_tensors_at_one_place() {
    let is_expected = |error: &PlanError| {
        matches!(
            error,
            PlanError::Overlap { .. } | PlanError::NotThere { .. }
        )
    };
    refused("two at one place", is_expected, |graph, plan, rng| {
        let (moved, other) = two_at_once(graph, plan, rng)?;
        let over = plan.extents_of(other)[0].offset;
        let bytes = plan
            .extents_of(moved)
            .iter()
            .map(|extent| extent.bytes)
            .sum();
        // As near to the end of the budget as it fits.
        let chunk = plan.chunk.max(1);
        let offset = over.min((plan.budget / chunk * chunk).checked_sub(bytes)?);
        let first = plan.extents.len() as u32;
        plan.extents.push(Extent { offset, bytes });
        let mut places = places(plan);
        let place = places.iter_mut().find(|place| ***place == moved)?;
        (place.first, place.count) = (first, 1);
        Some(Proof::Certain)
    });
}

#[test]
fn residents_at_one_place() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::WrongResident { .. });
    refused("residents at one place", is_expected, |graph, plan, rng| {
        let one = any(&plan.residents, rng)?;
        // The same tensor is there twice, or another one of the same size is.
        let bytes = |id: TensorId| graph.tensor(id).bytes;
        let other = plan
            .residents
            .iter_mut()
            .find(|other| other.tensor != one.tensor && bytes(other.tensor) == bytes(one.tensor));
        match other {
            Some(other) => (other.first, other.count) = (one.first, one.count),
            None => plan.residents.push(one),
        }
        Some(Proof::Certain)
    });
}

#[test]
fn a_budget_that_is_a_byte_too_small() {
    let is_expected = |error: &PlanError| match error {
        PlanError::WrongPlace { problem, .. } => problem.contains("beyond the budget"),
        _ => false,
    };
    refused("a byte over the budget", is_expected, |graph, plan, _| {
        let all: Vec<Place> = places(plan).into_iter().map(|place| *place).collect();
        let extents = all.iter().flat_map(|place| plan.extents_of(*place));
        plan.budget = extents.map(|extent| extent.offset + extent.bytes).max()?;
        validate(graph, plan).expect("it uses no more");
        plan.budget -= 1;
        Some(Proof::Certain)
    });
}

#[test]
fn extents_that_overflow() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::WrongPlace { .. });
    refused("an extent that overflows", is_expected, |_, plan, rng| {
        let all: Vec<Place> = places(plan).into_iter().map(|place| *place).collect();
        let place = any(&all, rng)?;
        if rng.chance(0.5) {
            plan.budget = u64::MAX;
        }
        let chunk = plan.chunk.max(1);
        let extent = &mut plan.extents[place.first as usize];
        let last = (u64::MAX / chunk) * chunk;
        match rng.below(3) {
            0 => extent.offset = last - extent.bytes + chunk,
            // From the first byte on, it would only be larger than the tensor needs.
            1 => (extent.offset, extent.bytes) = (extent.offset.max(chunk), last),
            _ => (extent.offset, extent.bytes) = (last, last),
        }
        Some(Proof::Certain)
    });
}

#[test]
fn places_of_another_size() {
    let is_expected = |error: &PlanError| matches!(error, PlanError::WrongPlace { .. });
    refused(
        "a place too small or too large",
        is_expected,
        |_, plan, rng| {
            let chunk = plan.chunk.max(1);
            let all: Vec<Place> = places(plan).into_iter().map(|place| *place).collect();
            let place = any(&all, rng)?;
            let extent = &mut plan.extents[place.first as usize];
            if rng.chance(0.5) && plan.chunk > 0 {
                // In front of the extent, or behind it.
                extent.offset -= extent.offset.min(chunk);
                extent.bytes += chunk;
            } else if plan.chunk > 0 {
                extent.bytes -= chunk;
            } else {
                extent.bytes = 0;
            }
            Some(Proof::Certain)
        },
    );
    refused("a place beyond the extents", is_expected, |_, plan, rng| {
        let beyond = [plan.extents.len() as u32 + 1, u32::MAX];
        let beyond = beyond[rng.below(2)];
        let mut places = places(plan);
        let count = places.len();
        let place = (count > 0).then(|| rng.below(count))?;
        if rng.chance(0.5) {
            places[place].first = beyond;
        } else {
            places[place].count = beyond;
        }
        Some(Proof::Certain)
    });
}
