//! Graphs and schedules from a seed.

use rtswap_planner::advisor::Rng;
use rtswap_planner::graph::{Graph, Kind, OpId, Operator, Order, Tensor, TensorId};

/// A tensor without a name.
pub(crate) fn tensor(kind: Kind, bytes: u64) -> Tensor {
    Tensor {
        name: String::new(),
        kind,
        bytes,
    }
}

/// An operator without a name that only takes time.
pub(crate) fn operator(
    inputs: &[TensorId],
    updates: &[TensorId],
    outputs: &[TensorId],
    time_ns: u64,
) -> Operator {
    Operator {
        name: String::new(),
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        updates: updates.to_vec(),
        flops: 0,
        bytes: 0,
        time_ns,
        is_random: false,
    }
}

/// A graph of so many operators: up to six tensor sizes of up to 256 KB, tensors of every kind,
/// updates in place of any of them, operators that make nothing or draw random numbers, and results
/// that nothing reads.
pub(crate) fn random(rng: &mut Rng, operators: usize) -> Graph {
    const GIVEN: [Kind; 4] = [
        Kind::Parameter,
        Kind::OptimizerState,
        Kind::Input,
        Kind::Parameter,
    ];
    let sizes: Vec<u64> = (0..=rng.below(6))
        .map(|_| 1 + rng.below(64) as u64 * 4096)
        .collect();
    let mut tensors = Vec::new();
    let mut add = |rng: &mut Rng, kind| {
        tensors.push(tensor(kind, sizes[rng.below(sizes.len())]));
        tensors.len() as TensorId - 1
    };
    let given = 1 + rng.below(operators / 2 + 1);
    let mut known: Vec<TensorId> = (0..given)
        .map(|_| {
            let kind = GIVEN[rng.below(GIVEN.len())];
            add(rng, kind)
        })
        .collect();
    let mut all = Vec::new();
    for at in 0..operators {
        let (mut inputs, mut updates) = (Vec::new(), Vec::new());
        for _ in 0..=rng.below(3) {
            // Recent tensors more often than old ones, as in real graphs.
            let span = if rng.below(3) == 0 {
                known.len()
            } else {
                known.len().min(8)
            };
            let id = known[known.len() - 1 - rng.below(span)];
            if inputs.contains(&id) || updates.contains(&id) {
                continue;
            }
            if rng.below(5) == 0 {
                updates.push(id);
            } else {
                inputs.push(id);
            }
        }
        let kind = if at < operators / 2 {
            Kind::Activation
        } else {
            Kind::Gradient
        };
        let mut outputs: Vec<TensorId> = (0..rng.below(3)).map(|_| add(rng, kind)).collect();
        known.extend(&outputs);
        if rng.below(6) == 0 {
            outputs.push(add(rng, Kind::Scratch));
        }
        let time_ns = rng.below(100_000) as u64;
        all.push(Operator {
            is_random: at % 7 == 6,
            ..operator(&inputs, &updates, &outputs, time_ns)
        });
    }
    Graph::new(tensors, all).expect("operators read only what is given or made before")
}

/// A schedule of a graph: at each place, any operator that is ready.
pub(crate) fn schedule(order: &Order, rng: &mut Rng) -> Vec<OpId> {
    let operators = 0..order.count() as OpId;
    let missing = operators.clone().map(|op| order.predecessors(op).len());
    let mut missing: Vec<usize> = missing.collect();
    let mut ready: Vec<OpId> = operators.filter(|op| missing[*op as usize] == 0).collect();
    let mut schedule = Vec::new();
    while !ready.is_empty() {
        let op = ready.swap_remove(rng.below(ready.len()));
        schedule.push(op);
        for next in order.successors(op) {
            missing[*next as usize] -= 1;
            if missing[*next as usize] == 0 {
                ready.push(*next);
            }
        }
    }
    assert!(order.allows(&schedule));
    schedule
}

/// The operators in the graph's own order.
pub(crate) fn trace(graph: &Graph) -> Vec<OpId> {
    (0..graph.operators().len() as OpId).collect()
}

/// The most bytes that an operator uses at once, each tensor rounded up to whole chunks, and that
/// operator.
pub(crate) fn largest(graph: &Graph, chunk: u64) -> (u64, OpId) {
    let bytes = |id: TensorId| graph.tensor(id).bytes.next_multiple_of(chunk);
    let operators = (0..).zip(graph.operators());
    let sums = operators.map(|(op, operator)| (operator.tensors().map(bytes).sum(), op));
    sums.max_by_key(|(bytes, _)| *bytes)
        .expect("a graph has an operator")
}
