//! Graphs that are made from a seed.

use rtswap_planner::graph::{Graph, Kind, Operator, Tensor};

/// Numbers from a seed (splitmix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// A graph of `operators` operators with all kinds of tensors.
pub fn graph(seed: u64, operators: usize) -> Graph {
    let mut numbers = Numbers(seed);
    let mut tensors = Vec::new();
    let sizes: Vec<u64> = (0..=numbers.below(6)).map(|_| 1 + numbers.below(64) as u64 * 4096).collect();
    let mut tensor = |numbers: &mut Numbers, kind: Kind| {
        let bytes = sizes[numbers.below(sizes.len())];
        tensors.push(Tensor { name: String::new(), kind, bytes });
        tensors.len() as u32 - 1
    };
    let given = 1 + numbers.below(operators / 2 + 1);
    let kinds = [Kind::Parameter, Kind::OptimizerState, Kind::Input, Kind::Parameter];
    let mut known: Vec<u32> = (0..given).map(|_| {
        let kind = kinds[numbers.below(4)];
        tensor(&mut numbers, kind)
    }).collect();
    let mut list = Vec::new();
    for at in 0..operators {
        let mut inputs = Vec::new();
        let mut updates = Vec::new();
        for _ in 0..=numbers.below(3) {
            // Near ones more often, as in real graphs.
            let span = if numbers.below(3) == 0 { known.len() } else { known.len().min(8) };
            let one = known[known.len() - 1 - numbers.below(span)];
            if inputs.contains(&one) || updates.contains(&one) {
                continue;
            }
            if numbers.below(5) == 0 { updates.push(one) } else { inputs.push(one) }
        }
        let kind = if at < operators / 2 { Kind::Activation } else { Kind::Gradient };
        let mut outputs: Vec<u32> = (0..numbers.below(3)).map(|_| tensor(&mut numbers, kind)).collect();
        known.extend(&outputs);
        if numbers.below(6) == 0 {
            outputs.push(tensor(&mut numbers, Kind::Scratch));
        }
        list.push(Operator {
            name: String::new(), inputs, outputs, updates,
            flops: 0, bytes: 0, time_ns: numbers.below(100_000) as u64,
        });
    }
    Graph::new(tensors, list).expect("it can run")
}

/// A schedule of it, chosen at random.
pub fn schedule(graph: &Graph, order: &rtswap_planner::graph::Order, numbers: &mut Numbers) -> Vec<u32> {
    let count = graph.operators().len() as u32;
    let mut missing: Vec<usize> = (0..count).map(|op| order.predecessors(op).len()).collect();
    let mut ready: Vec<u32> = (0..count).filter(|op| missing[*op as usize] == 0).collect();
    let mut schedule = Vec::new();
    while !ready.is_empty() {
        let op = ready.swap_remove(numbers.below(ready.len()));
        schedule.push(op);
        for next in order.successors(op) {
            missing[*next as usize] -= 1;
            if missing[*next as usize] == 0 { ready.push(*next) }
        }
    }
    schedule
}
