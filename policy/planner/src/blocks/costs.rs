//! What every possible block of a model costs.

use alloc::vec;
use alloc::vec::Vec;

use super::delays::Coefficients;
use super::info::ModelInfo;
use crate::graph::Graph;

/// A block: a run of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The size of its parameters in bytes.
    pub bytes: u64,
    /// Its parameter tensors.
    pub references: u64,
    /// Input delay in nanoseconds.
    pub input_ns: u64,
    /// Execution delay in nanoseconds.
    pub execution_ns: u64,
    /// Output delay in nanoseconds.
    pub output_ns: u64,
}

/// The blocks of a model: one for each pair of places at which it may be cut.
#[derive(Clone, Debug)]
pub struct Costs {
    layers: usize,
    blocks: Vec<Block>,
}

impl Costs {
    /// The costs of the blocks of `info` on a device. Takes memory and time in the square of the number of layers.
    pub fn new(graph: &Graph, info: &ModelInfo, device: &Coefficients) -> Self {
        let layers = info.layers().len();
        let mut blocks = vec![Block::default(); layers * layers];
        let mut counted_in = vec![usize::MAX; graph.tensors().len()];
        for from in 0..layers {
            let mut block = Block::default();
            for to in from..layers {
                let layer = &info.layers()[to];
                for id in layer.parameters.iter().copied() {
                    // Layers of a block share one copy of a parameter.
                    if counted_in[id as usize] != from {
                        counted_in[id as usize] = from;
                        block.bytes += graph.tensor(id).bytes;
                        block.references += 1;
                    }
                }
                block.input_ns = device.input_ns(block.bytes, block.references);
                block.execution_ns += device.execution_ns(layer.flops, layer.compute_ns);
                block.output_ns = device.output_ns(block.references);
                blocks[from * layers + to] = block;
            }
        }
        Self { layers, blocks }
    }

    /// The number of layers.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// The block of the layers from `from` to before `to`, at least one.
    pub fn block(&self, from: usize, to: usize) -> &Block {
        &self.blocks[from * self.layers + to - 1]
    }

    /// The model as one block.
    pub fn whole(&self) -> &Block {
        self.block(0, self.layers)
    }

    /// The least budget in bytes: each layer is a block by itself, and two are in memory at once.
    pub fn least_budget(&self) -> u64 {
        let layer = |at| self.block(at, at + 1).bytes;
        let pairs = (1..self.layers).map(|at| layer(at - 1) + layer(at));
        pairs
            .fold(layer(0).min(self.whole().bytes), u64::max)
            .min(self.whole().bytes)
    }
}
