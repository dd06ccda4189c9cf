//! vDNN (Rhu et al., MICRO 2016), its policy `all`.
//!
//! The inputs of feature extraction layers, which are the operators up to the last convolution or pooling, go to host
//! memory while the last operator of the forward pass that reads them runs. Each comes back while the layer runs that
//! stands before its own in the backward pass. Behind either operator the computation waits for the copy, as vDNN
//! synchronises its two streams there.

use rtswap_planner::graph::{Graph, Kind, TensorId};
use rtswap_planner::plan::{Plan, Queue, Waits};
use rtswap_planner::stays::{Gap, Slot, Stays};

use super::CHUNK;
use super::workloads::trace;

/// A feature map that is swapped.
#[derive(Clone, Copy)]
struct Map {
    tensor: TensorId,
    /// The number of its gap.
    number: u32,
    /// The last slot of the forward pass that reads it.
    read: Slot,
    /// The first slot of the backward pass that uses it.
    used: Slot,
}

/// The plan of one job in PyTorch's order.
pub fn plan(graph: &Graph) -> Plan {
    let mut stays = Stays::new(graph, trace(graph), CHUNK);
    let backward = backward(graph);
    let mut maps = maps(&stays, backward);
    maps.sort_by_key(|map| map.used);
    let mut synchronised = Vec::new();
    // The layer before in the backward pass, and the one before that where several maps are of one layer.
    let (mut own, mut before) = (backward, backward);
    for map in &maps {
        if map.used != own {
            (before, own) = (own, map.used);
        }
        let leaves = map.read + 1;
        let comes = before.max(leaves);
        stays.set(map.tensor, map.number, Gap::Swaps { leaves, comes });
        synchronised.push((map.tensor, leaves, comes + 1));
    }
    let (_, budget) = stays.peak();
    let mut plan = stays.plan(budget).expect("the budget is what it needs");
    for (tensor, leaves, comes) in synchronised {
        let is_it = |of: TensorId| of == tensor;
        let out = plan.swap_out.iter().position(|swap| is_it(swap.tensor));
        wait(&mut plan, leaves, Queue::SwapOut, out);
        let back = plan
            .swap_in
            .iter()
            .position(|swap| is_it(swap.place.tensor));
        wait(&mut plan, comes, Queue::SwapIn, back);
    }
    plan
}

/// The operator of a slot waits for a copy. No operator runs twice, so that slots count steps.
fn wait(plan: &mut Plan, slot: Slot, queue: Queue, copy: Option<usize>) {
    let step = plan.compute.get_mut(slot as usize - 1);
    if let (Some(copy), Some(step)) = (copy, step) {
        step.waits = step.waits.and(Waits::on(queue, copy as u32 + 1));
    }
}

/// The slot of the first operator that makes a gradient.
fn backward(graph: &Graph) -> Slot {
    let makes = |kind| {
        move |op: &rtswap_planner::graph::Operator| {
            let mut outputs = op.outputs.iter();
            outputs.any(|id| graph.tensor(*id).kind == kind)
        }
    };
    let first = graph.operators().iter().position(makes(Kind::Gradient));
    first.unwrap_or(graph.operators().len()) as Slot + 1
}

fn maps(stays: &Stays<'_>, backward: Slot) -> Vec<Map> {
    let graph = stays.graph();
    let forward = &graph.operators()[..backward as usize - 1];
    let is_spatial = |name: &str| name.starts_with("convolution") || name.contains("pool");
    let last = forward.iter().rposition(|op| is_spatial(&op.name));
    let last = last.map_or(0, |at| at as Slot + 1);
    let mut maps = Vec::new();
    for (tensor, of) in (0..).zip(graph.tensors()) {
        let uses = stays.uses(tensor);
        let number = uses.partition_point(|slot| *slot < backward);
        if of.kind != Kind::Activation || number < 2 || number == uses.len() {
            continue;
        }
        let (read, used) = (uses[number - 1], uses[number]);
        let is_read = forward[read as usize - 1].inputs.contains(&tensor);
        if is_read && read <= last {
            maps.push(Map {
                tensor,
                number: number as u32,
                read,
                used,
            });
        }
    }
    maps
}
