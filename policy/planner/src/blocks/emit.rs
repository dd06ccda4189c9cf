//! Plans of partitions.

use alloc::vec;
use alloc::vec::Vec;

use super::arena::Arena;
use super::info::{ModelInfo, streamed};
use super::partition::Partition;
use crate::graph::{Graph, Kind, TensorId};
use crate::plan::{Compute, Extent, Place, Plan, Queue, SwapIn, Waits};

/// Makes plans of a model's partitions.
///
/// Memory has two parts. Blocks lie in the first one: the blocks with even numbers at its lower end, the others at its upper
/// end, so that any two in a row fit where their sizes together do. A block comes in once the block two before it has run; a
/// parameter that the block in front of it uses too comes in only once that one has run. All that is not streamed lies in
/// the second part, the reserve.
#[derive(Clone, Debug)]
pub struct BlockPlanner<'a> {
    graph: &'a Graph,
    info: &'a ModelInfo,
    arena: Arena,
    is_streamed: Vec<bool>,
}

impl<'a> BlockPlanner<'a> {
    /// A planner for the layers `info` of `graph`.
    pub fn new(graph: &'a Graph, info: &'a ModelInfo) -> Self {
        let is_streamed = streamed(graph);
        Self {
            graph,
            info,
            arena: Arena::of(graph, &is_streamed),
            is_streamed,
        }
    }

    /// The memory that a plan needs beside that of its blocks, in bytes (what the paper reserves as δ): inputs, results of
    /// operators, and kept tensors that operators change.
    pub fn reserve_bytes(&self) -> u64 {
        self.arena.bytes
    }

    /// The plan of a partition of these layers. Its budget is the partition's peak and [`Self::reserve_bytes`].
    pub fn plan(&self, partition: &Partition) -> Plan {
        let mut emission = Emission {
            planner: self,
            peak: partition.peak_bytes,
            plan: Plan {
                budget: partition.peak_bytes + self.arena.bytes,
                ..Plan::default()
            },
        };
        emission.kept();
        emission.inputs();
        let mut loaded_by = vec![usize::MAX; self.graph.tensors().len()];
        // How many operators have run when each block so far has.
        let mut ended: Vec<u32> = Vec::new();
        for (number, block) in partition.blocks().enumerate() {
            let layers = &self.info.layers()[block.start as usize..block.end as usize];
            let mut parameters: Vec<TensorId> = Vec::new();
            let mut neighbours: Vec<bool> = Vec::new();
            for id in layers.iter().flat_map(|layer| &layer.parameters) {
                let loaded = &mut loaded_by[*id as usize];
                if *loaded != number {
                    neighbours.push(number > 0 && *loaded == number - 1);
                    *loaded = number;
                    parameters.push(*id);
                }
            }
            if partition.points.is_empty() {
                emission.residents(&parameters);
            } else {
                let out = if number < 2 { 0 } else { ended[number - 2] };
                let before = ended.last().copied().unwrap_or_default();
                let waits = neighbours
                    .iter()
                    .map(|is_neighbour| if *is_neighbour { before } else { out });
                emission.swap_in(number, &parameters, waits);
            }
            for layer in layers {
                emission.compute(layer.operators.clone());
            }
            ended.push(emission.plan.compute.len() as u32);
        }
        emission.plan
    }
}

/// A plan that is made.
struct Emission<'a> {
    planner: &'a BlockPlanner<'a>,
    /// Where the reserve begins: the bytes of the blocks.
    peak: u64,
    plan: Plan,
}

impl Emission<'_> {
    fn place(&mut self, tensor: TensorId, extent: Extent) -> Place {
        let first = self.plan.extents.len() as u32;
        self.plan.extents.push(extent);
        Place {
            tensor,
            first,
            count: 1,
        }
    }

    /// The place of a tensor in the reserve, if it is used and not streamed.
    fn reserved(&mut self, tensor: TensorId) -> Option<Place> {
        let extent = self.planner.arena.places[tensor as usize]?;
        let offset = self.peak + extent.offset;
        Some(self.place(tensor, Extent { offset, ..extent }))
    }

    /// Kept tensors that operators change never leave.
    fn kept(&mut self) {
        for (id, tensor) in (0..).zip(self.planner.graph.tensors()) {
            if tensor.kind.is_kept() && !self.planner.is_streamed[id as usize] {
                let place = self.reserved(id);
                self.plan.residents.extend(place);
            }
        }
    }

    /// Inputs come before everything else.
    fn inputs(&mut self) {
        for (id, tensor) in (0..).zip(self.planner.graph.tensors()) {
            if tensor.kind == Kind::Input {
                let place = self.reserved(id);
                let waits = Waits::default();
                self.plan
                    .swap_in
                    .extend(place.map(|place| SwapIn { place, waits }));
            }
        }
    }

    /// The parameters of a model that is not cut.
    fn residents(&mut self, parameters: &[TensorId]) {
        let mut offset = 0;
        for id in parameters.iter().copied() {
            let bytes = self.planner.graph.tensor(id).bytes;
            let place = self.place(id, Extent { offset, bytes });
            self.plan.residents.push(place);
            offset += bytes;
        }
    }

    /// The parameters of a block, each behind so many operators.
    fn swap_in(
        &mut self,
        number: usize,
        parameters: &[TensorId],
        operators: impl Iterator<Item = u32>,
    ) {
        let graph = self.planner.graph;
        let bytes = parameters.iter().map(|id| graph.tensor(*id).bytes);
        let mut offset = if number.is_multiple_of(2) {
            0
        } else {
            self.peak - bytes.sum::<u64>()
        };
        for (id, operators) in parameters.iter().copied().zip(operators) {
            let bytes = graph.tensor(id).bytes;
            let place = self.place(id, Extent { offset, bytes });
            let waits = Waits::on(Queue::Compute, operators);
            self.plan.swap_in.push(SwapIn { place, waits });
            offset += bytes;
        }
    }

    /// Operators behind all swap-ins so far.
    fn compute(&mut self, operators: core::ops::Range<u32>) {
        let waits = Waits::on(Queue::SwapIn, self.plan.swap_in.len() as u32);
        for op in operators {
            let outputs = self.plan.outputs.len() as u32;
            for id in &self.planner.graph.operator(op).outputs {
                let place = self.reserved(*id);
                self.plan.outputs.extend(place);
            }
            self.plan.compute.push(Compute { op, waits, outputs });
        }
    }
}
