//! How much memory a graph needs.

use alloc::vec;
use alloc::vec::Vec;

use super::{Graph, OpId, TensorId};

/// The operator that needs the most memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest {
    /// The operator, the first one of several.
    pub op: OpId,
    /// What its tensors take in bytes: the least budget of the graph.
    pub bytes: u64,
}

impl Graph {
    /// The largest operator, each tensor taking whole chunks of `chunk` bytes, at least 1.
    pub fn largest(&self, chunk: u64) -> Largest {
        let mut largest = Largest { op: 0, bytes: 0 };
        for (op, operator) in (0..).zip(self.operators()) {
            let bytes = operator.tensors().map(|id| self.in_chunks(id, chunk)).sum();
            if bytes > largest.bytes {
                largest = Largest { op, bytes };
            }
        }
        largest
    }

    /// The most bytes in use at once, in whole chunks of `chunk` bytes, where nothing is swapped and the operators run in
    /// the order of the graph. What is given is there from the beginning; kept tensors stay, all others are gone behind the
    /// last operator that uses them.
    pub fn peak(&self, chunk: u64) -> u64 {
        let mut last: Vec<Option<usize>> = vec![None; self.tensors().len()];
        for (at, operator) in self.operators().iter().enumerate() {
            for id in operator.tensors() {
                last[id as usize] = Some(at);
            }
        }
        let given = (0..)
            .zip(self.tensors())
            .filter(|(_, tensor)| tensor.kind.is_given());
        let mut bytes: u64 = given.map(|(id, _)| self.in_chunks(id, chunk)).sum();
        let mut peak = bytes;
        for (at, operator) in self.operators().iter().enumerate() {
            let made = operator.outputs.iter();
            bytes += made.map(|id| self.in_chunks(*id, chunk)).sum::<u64>();
            peak = peak.max(bytes);
            let is_gone =
                |id: &TensorId| last[*id as usize] == Some(at) && !self.tensor(*id).kind.is_kept();
            let gone = operator.tensors().filter(is_gone);
            bytes -= gone.map(|id| self.in_chunks(id, chunk)).sum::<u64>();
        }
        peak
    }

    fn in_chunks(&self, id: TensorId, chunk: u64) -> u64 {
        self.tensor(id).bytes.next_multiple_of(chunk.max(1))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::graph::{Kind, Operator, Tensor};

    #[test]
    fn memory_is_counted_in_chunks_and_given_back() {
        const CHUNK: u64 = 1 << 21;
        let tensor = |kind, bytes| Tensor {
            name: String::new(),
            kind,
            bytes,
        };
        let operator = |inputs: &[u32], outputs: &[u32], updates: &[u32]| Operator {
            name: "op".into(),
            inputs: inputs.into(),
            outputs: outputs.into(),
            updates: updates.into(),
            flops: 0,
            bytes: 0,
            time_ns: 1,
            is_random: false,
        };
        let tensors = vec![
            tensor(Kind::Parameter, 1),
            tensor(Kind::Input, CHUNK),
            tensor(Kind::Activation, 3 * CHUNK),
            tensor(Kind::Gradient, 2 * CHUNK + 1),
        ];
        let operators = vec![
            operator(&[0, 1], &[2], &[]),
            operator(&[2], &[3], &[]),
            operator(&[3], &[], &[0]),
        ];
        let graph = Graph::new(tensors, operators).unwrap();
        // The input is gone when the gradient is made.
        assert_eq!(graph.peak(CHUNK), (1 + 3 + 3) * CHUNK);
        let bytes = 6 * CHUNK;
        assert_eq!(graph.largest(CHUNK), Largest { op: 1, bytes });
    }
}
