//! An order of operators for which less memory is in use at once.

use rtswap_planner::graph::{Graph, Kind, OpId, Order};
use rtswap_planner::tensile::early;

/// The order of [`early`], but a gradient that only the optimiser uses is made behind the backward pass, right before its
/// step, if the graph has no larger tensor. VGG's first fully connected layer has such a gradient: beside it are its
/// weight and two states of the same size while it is in use, and this way no activations.
pub fn deferred(graph: &Graph) -> Vec<OpId> {
    let largest = graph.sizes().last().copied().unwrap_or_default();
    let is_largest = |id: &u32| graph.tensor(*id).bytes == largest;
    let order = Order::of(graph);
    let early = early(graph);
    let mut is_deferred = vec![false; graph.operators().len()];
    for op in &early {
        let is_behind = order
            .predecessors(*op)
            .iter()
            .any(|before| is_deferred[*before as usize]);
        let does_make = graph.operator(*op).outputs.iter().any(is_largest);
        is_deferred[*op as usize] = is_behind || does_make && is_deferrable(graph, &order, *op);
    }
    let (last, first): (Vec<OpId>, Vec<OpId>) =
        early.into_iter().partition(|op| is_deferred[*op as usize]);
    [first, last].concat()
}

/// Whether an operator makes gradients for the optimiser's steps only, and keeps less from being freed until then.
fn is_deferrable(graph: &Graph, order: &Order, op: OpId) -> bool {
    let operator = graph.operator(op);
    let is_step = |op: &OpId| {
        let mut tensors = graph.operator(*op).tensors();
        tensors.any(|id| graph.tensor(id).kind == Kind::OptimizerState)
    };
    let bytes = |ids: &[u32]| -> u64 {
        let tensors = ids.iter().map(|id| graph.tensor(*id));
        let tensors = tensors.filter(|tensor| !tensor.kind.is_given());
        tensors.map(|tensor| tensor.bytes).sum()
    };
    let successors = order.successors(op);
    !is_step(&op)
        && operator.updates.is_empty()
        && !successors.is_empty()
        && successors.iter().all(is_step)
        && bytes(&operator.outputs) > bytes(&operator.inputs)
}
