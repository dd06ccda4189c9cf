//! Recomputation: a tensor is given up, and the operator that made it runs again before its next use.

use alloc::vec::Vec;

use crate::graph::{Kind, OpId, TensorId};
use crate::stays::{Gap, GapAt, Slot, Stays};

/// Gives up the tensor with the largest memory saving per second (MSPS, as Capuchin and TENSILE define it). It must stay in
/// GPU memory at the peak, and its operator must find its inputs there or on their way. `pins` has the tensors that repeated
/// operators read, and the slots in which they do. Returns whether there was such a tensor.
pub(super) fn recompute(
    stays: &mut Stays<'_>,
    times: &[u64],
    peak: Slot,
    pins: &mut Vec<(TensorId, Slot)>,
) -> bool {
    let graph = stays.graph();
    let (_, before) = stays.peak();
    let mut candidates: Vec<(f64, GapAt, OpId)> = Vec::new();
    for (id, tensor) in (0..).zip(graph.tensors()) {
        let (Some(gap), Some(op)) = (stays.gap_at(id, peak), stays.maker(id)) else {
            continue;
        };
        let is_pinned = pins
            .iter()
            .any(|(of, slot)| *of == id && (gap.from..gap.to).contains(slot));
        if stays.gap(id, gap.number) == Gap::Stays && !is_pinned && can_run_again(stays, gap, op) {
            let value = tensor.bytes as f64 / times[op as usize].max(1) as f64;
            candidates.push((value, gap, op));
        }
    }
    candidates.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
    for (_, gap, op) in candidates {
        stays.set(gap.tensor, gap.number, Gap::IsMadeAgain);
        // What the operator needs beside the tensor may be more than it gives back elsewhere.
        if stays.peak().1 > before {
            stays.set(gap.tensor, gap.number, Gap::Stays);
            continue;
        }
        pins.extend(
            graph
                .operator(op)
                .inputs
                .iter()
                .map(|input| (*input, gap.to)),
        );
        return true;
    }
    false
}

/// Whether the maker of a tensor makes it alone, can do so before the slot behind the gap, and makes what is used there.
fn can_run_again(stays: &Stays<'_>, gap: GapAt, op: OpId) -> bool {
    let graph = stays.graph();
    let operator = graph.operator(op);
    let is_alone = operator
        .outputs
        .iter()
        .all(|id| *id == gap.tensor || graph.tensor(*id).kind == Kind::Scratch);
    let made = stays.uses(gap.tensor)[0];
    operator.is_repeatable()
        && is_alone
        && gap.to < stays.end()
        && !stays.is_changed_between(gap.tensor, made, gap.to)
        && operator.inputs.iter().all(|input| {
            stays.is_in(*input, gap.to) && !stays.is_changed_between(*input, made, gap.to)
        })
}
