//! Activation functions that make a new tensor.

use anyhow::Result;
use rtswap_planner::graph::{Graph, Kind, Operator, Tensor, TensorId};

/// The graph in which each operator of the forward pass that changes an activation in place makes a new tensor instead, as
/// in the framework of the paper's authors. PyTorch's models save memory that way where the changed value is not needed.
///
/// # Errors
/// There is no order of execution any more, which does not happen to a graph that has one.
pub fn separated(graph: &Graph) -> Result<Graph> {
    let mut tensors: Vec<Tensor> = graph.tensors().to_vec();
    let mut operators: Vec<Operator> = graph.operators().to_vec();
    // Which tensor has the latest value of each.
    let mut latest: Vec<TensorId> = (0..tensors.len() as TensorId).collect();
    for operator in &mut operators {
        let is_backward = operator
            .outputs
            .iter()
            .any(|id| tensors[*id as usize].kind == Kind::Gradient);
        let (updates, kept): (Vec<TensorId>, Vec<TensorId>) = operator
            .updates
            .iter()
            .partition(|id| tensors[**id as usize].kind == Kind::Activation && !is_backward);
        for id in &mut operator.inputs {
            *id = latest[*id as usize];
        }
        operator.updates = kept;
        for id in updates {
            operator.inputs.push(latest[id as usize]);
            let made = tensors.len() as TensorId;
            tensors.push(tensors[id as usize].clone());
            operator.outputs.push(made);
            latest[id as usize] = made;
        }
        for id in &mut operator.updates {
            *id = latest[*id as usize];
        }
    }
    Ok(Graph::new(tensors, operators)?)
}
