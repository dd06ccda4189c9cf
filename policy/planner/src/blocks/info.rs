//! The model info table: what each layer of a graph costs to bring in and to run.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::graph::{Graph, OpId, TensorId};

/// A layer: the operators between two neighbouring places at which a model may be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its operators, in the graph's order.
    pub operators: Range<OpId>,
    /// The streamed tensors that its operators read, each once, in the order of their first use.
    pub parameters: Vec<TensorId>,
    /// The size of [`Self::parameters`] in bytes (the paper's s).
    pub bytes: u64,
    /// Floating-point operations, a multiply-add counted as two (the paper's f).
    pub flops: u64,
    /// How long the graph says that its operators take, in nanoseconds.
    pub compute_ns: u64,
}

impl Layer {
    /// The number of parameter tensors that are connected by reference (the paper's parameter depth d).
    pub fn references(&self) -> u64 {
        self.parameters.len() as u64
    }
}

/// The layers of a graph (Wang et al., SwapNet, section 6.1 and Table 2).
///
/// A tensor is streamed if it is kept from one iteration to the next and no operator changes it: its value in storage is
/// always the latest, and memory that holds it is freed without a copy. All other tensors stay in memory as long as they are
/// used, so that a model may be cut inside a residual connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    layers: Vec<Layer>,
}

impl ModelInfo {
    /// The table of a graph: a layer begins at each operator that reads a streamed tensor which the layer in front of it
    /// does not read.
    pub fn of(graph: &Graph) -> Self {
        let is_streamed = streamed(graph);
        let mut layers: Vec<Layer> = Vec::new();
        let mut read_by = vec![usize::MAX; graph.tensors().len()];
        for (op, operator) in (0..).zip(graph.operators()) {
            let inputs = operator.inputs.iter().copied();
            let parameters = inputs.filter(|id| is_streamed[*id as usize]);
            let last = layers.len().wrapping_sub(1);
            let is_new = |id: &TensorId| read_by[*id as usize] != last;
            let new: Vec<TensorId> = parameters.clone().filter(is_new).collect();
            let has_parameters = layers
                .last()
                .is_some_and(|layer| !layer.parameters.is_empty());
            let begins = layers.is_empty() || (has_parameters && !new.is_empty());
            // A new layer also reads again what it shares with the one in front of it.
            let mut added = new;
            if begins {
                added = parameters.collect();
                layers.push(Layer {
                    operators: op..op,
                    parameters: Vec::new(),
                    bytes: 0,
                    flops: 0,
                    compute_ns: 0,
                });
            }
            let own = layers.len() - 1;
            let layer = &mut layers[own];
            for id in added {
                read_by[id as usize] = own;
                layer.bytes += graph.tensor(id).bytes;
                layer.parameters.push(id);
            }
            layer.operators.end = op + 1;
            layer.flops += operator.flops;
            layer.compute_ns += operator.time_ns;
        }
        Self { layers }
    }

    /// The layers in the order in which they run.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The size of all streamed tensors in bytes, each counted once.
    pub fn bytes(&self, graph: &Graph) -> u64 {
        let mut all: Vec<TensorId> = self
            .layers
            .iter()
            .flat_map(|layer| layer.parameters.iter().copied())
            .collect();
        all.sort_unstable();
        all.dedup();
        all.iter().map(|id| graph.tensor(*id).bytes).sum()
    }

    /// The same model with about `most` layers or fewer: neighbours are merged while they are small. The time of a search
    /// grows with the third power of the number of layers.
    #[must_use]
    pub fn coarsened(&self, graph: &Graph, most: usize) -> Self {
        if self.layers.len() <= most {
            return self.clone();
        }
        let sum = |of: fn(&Layer) -> u64| {
            let sum: u64 = self.layers.iter().map(of).sum();
            sum.max(1) as f64
        };
        let [bytes, time, references] = [
            sum(|layer| layer.bytes),
            sum(|layer| layer.compute_ns),
            sum(Layer::references),
        ];
        let weight = |layer: &Layer| {
            layer.bytes as f64 / bytes
                + layer.compute_ns as f64 / time
                + layer.references() as f64 / references
        };
        // All weights together are 3, and two groups in a row weigh more than the limit: there are at most `most` groups.
        let limit = 6.0 / (most.max(2) - 1) as f64;
        let mut merged: Vec<Layer> = Vec::new();
        let mut merged_weight = f64::INFINITY;
        let mut read_by = vec![usize::MAX; graph.tensors().len()];
        for layer in &self.layers {
            if merged_weight + weight(layer) > limit {
                merged_weight = 0.0;
                merged.push(Layer {
                    operators: layer.operators.start..layer.operators.start,
                    parameters: Vec::new(),
                    bytes: 0,
                    flops: 0,
                    compute_ns: 0,
                });
            }
            merged_weight += weight(layer);
            let own = merged.len() - 1;
            let group = &mut merged[own];
            group.operators.end = layer.operators.end;
            group.flops += layer.flops;
            group.compute_ns += layer.compute_ns;
            for id in layer.parameters.iter().copied() {
                if read_by[id as usize] != own {
                    read_by[id as usize] = own;
                    group.parameters.push(id);
                    group.bytes += graph.tensor(id).bytes;
                }
            }
        }
        Self { layers: merged }
    }
}

/// Which tensors are kept and never changed.
pub(super) fn streamed(graph: &Graph) -> Vec<bool> {
    let kept = graph.tensors().iter().map(|tensor| tensor.kind.is_kept());
    let mut is_streamed: Vec<bool> = kept.collect();
    for operator in graph.operators() {
        for id in &operator.updates {
            is_streamed[*id as usize] = false;
        }
    }
    is_streamed
}
