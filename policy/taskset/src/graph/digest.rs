//! The number by which a plan knows its graph.

use rtswap_planner::graph::{Graph, Kind};

/// A number that two graphs share only by accident, unless they have the same tensors and operators: names, times, FLOPs
/// and traffic aside. It is 64-bit FNV-1a, which tells a mistake and not an attack: a plan for another graph is refused by
/// the validator, too.
pub fn digest(graph: &Graph) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.add(graph.tensors().len() as u64);
    for tensor in graph.tensors() {
        hash.add(number(tensor.kind));
        hash.add(tensor.bytes);
    }
    for operator in graph.operators() {
        for list in [&operator.inputs, &operator.outputs, &operator.updates] {
            hash.add(list.len() as u64);
            for tensor in list {
                hash.add(u64::from(*tensor));
            }
        }
    }
    hash.0
}

/// The same in each version of rtswap.
const fn number(kind: Kind) -> u64 {
    match kind {
        Kind::Parameter => 0,
        Kind::OptimizerState => 1,
        Kind::Input => 2,
        Kind::Activation => 3,
        Kind::Gradient => 4,
        Kind::Scratch => 5,
    }
}

/// Fowler, Noll and Vo's hash, variant 1a.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
