//! An order of operators in which an optimiser's steps run as early as they can.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use crate::graph::{Graph, Kind, OpId, Operator, Order, TensorId};

/// The order of the graph, but an optimiser's steps run as soon as their gradients are there: its states then swap while
/// the backward pass runs, and gradients are gone early. What prepares a gradient, such as weight decay, keeps its place.
pub fn early(graph: &Graph) -> Vec<OpId> {
    let order = Order::of(graph);
    let count = graph.operators().len() as OpId;
    let is_step = steps(graph);
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

/// The operators of the optimiser: those that touch its states, those that work on what such operators make, and those that
/// change parameters by gradients alone.
fn steps(graph: &Graph) -> Vec<bool> {
    let mut is_made_by_step = vec![false; graph.tensors().len()];
    let is_step = |operator: &Operator| {
        let kind = |id: &TensorId| graph.tensor(*id).kind;
        let read = || operator.inputs.iter().chain(&operator.updates);
        let mut made = read().filter(|id| !kind(id).is_given()).peekable();
        let is_behind_steps = made.peek().is_some() && made.all(|id| is_made_by_step[*id as usize]);
        let is_change = operator
            .updates
            .iter()
            .any(|id| kind(id) == Kind::Parameter)
            && read().all(|id| matches!(kind(id), Kind::Parameter | Kind::Gradient));
        let is_step =
            read().any(|id| kind(id) == Kind::OptimizerState) || is_behind_steps || is_change;
        for id in &operator.outputs {
            is_made_by_step[*id as usize] = is_step;
        }
        is_step
    };
    graph.operators().iter().map(is_step).collect()
}
