//! An order of operators in which an optimiser's steps run as early as they can.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::slice::Iter;

use crate::graph::{Graph, Kind, OpId, Operator, Order, TensorId};

/// The order of the graph, but an optimiser's steps, and what only prepares them, run as soon as their gradients are there: the optimiser's states then swap while the backward pass runs, and gradients are gone early.
pub fn early(graph: &Graph) -> Vec<OpId> {
    let order = Order::of(graph);
    let count = graph.operators().len() as OpId;
    let is_step = steps(graph, &order);
    let mut waits: Vec<usize> = (0..count).map(|op| order.predecessors(op).len()).collect();
    let ready = |waits: &[usize], op: OpId| waits[op as usize] == 0;
    let mut steps: BTreeSet<OpId> = (0..count)
        .filter(|op| ready(&waits, *op) && is_step[*op as usize])
        .collect();
    let mut others: BTreeSet<OpId> = (0..count)
        .filter(|op| ready(&waits, *op) && !is_step[*op as usize])
        .collect();
    let mut schedule = Vec::with_capacity(count as usize);
    while let Some(op) = steps.pop_first().or_else(|| others.pop_first()) {
        schedule.push(op);
        for next in order.successors(op) {
            waits[*next as usize] -= 1;
            if ready(&waits, *next) {
                let set = if is_step[*next as usize] {
                    &mut steps
                } else {
                    &mut others
                };
                set.insert(*next);
            }
        }
    }
    schedule
}

/// The operators that change kept tensors by an optimiser's states, and those whose results only such operators use.
fn steps(graph: &Graph, order: &Order) -> Vec<bool> {
    let is_step = |operator: &Operator| {
        let is_kind =
            |kind: Kind, mut ids: Iter<'_, TensorId>| ids.any(|id| graph.tensor(*id).kind == kind);
        let is_state_changed = is_kind(Kind::OptimizerState, operator.updates.iter());
        let is_weight_changed = is_kind(Kind::Parameter, operator.updates.iter());
        let is_state_read = is_kind(Kind::OptimizerState, operator.inputs.iter());
        is_state_changed || is_weight_changed && is_state_read
    };
    let mut steps: Vec<bool> = graph.operators().iter().map(is_step).collect();
    for op in (0..graph.operators().len() as OpId).rev() {
        let behind = order.successors(op);
        steps[op as usize] |= !behind.is_empty() && behind.iter().all(|next| steps[*next as usize]);
    }
    steps
}
