//! The dataflow graph of one iteration: tensors, and the operators that make, read and change them.
//!
//! `check` refuses what cannot run. `order` has what must run before what, `memory` how much is in use at once. A tensor is a piece of memory: views of it are
//! the same tensor, and an operator that works in place updates it.

mod check;
mod memory;
mod order;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

pub use check::GraphError;
pub use memory::Largest;
pub use order::{Order, Starts};

/// The number of a tensor: its place in [`Graph::tensors`].
pub type TensorId = u32;

/// The number of an operator: its place in [`Graph::operators`].
pub type OpId = u32;

/// What a tensor is for. It decides where its value is before and after an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A weight of the model: kept from one iteration to the next.
    Parameter,
    /// What an optimiser remembers of a parameter: kept as well.
    OptimizerState,
    /// Given from outside for each iteration, in host memory.
    Input,
    /// Made by an operator of the forward pass.
    Activation,
    /// Made by an operator of the backward pass.
    Gradient,
    /// Workspace of one operator.
    Scratch,
}

impl Kind {
    /// Whether the value is kept from one iteration to the next.
    pub fn is_kept(self) -> bool {
        matches!(self, Self::Parameter | Self::OptimizerState)
    }

    /// Whether the value is there before the first operator, in host memory unless a plan begins with it in the GPU's.
    pub fn is_given(self) -> bool {
        self.is_kept() || self == Self::Input
    }
}

/// A tensor: a piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// What messages and pictures call it.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// Its size in bytes, at least 1.
    pub bytes: u64,
}

/// An operator: work that the GPU does in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// What messages and pictures call it.
    pub name: String,
    /// Tensors that it reads only.
    pub inputs: Vec<TensorId>,
    /// Tensors that it makes.
    pub outputs: Vec<TensorId>,
    /// Tensors that it reads and changes in place.
    pub updates: Vec<TensorId>,
    /// Floating-point operations, a multiply-add counted as two.
    pub flops: u64,
    /// Bytes that it reads and writes in GPU memory.
    pub bytes: u64,
    /// How long it takes in nanoseconds.
    pub time_ns: u64,
    /// Whether it draws random numbers, so that it makes other values each time it runs.
    pub is_random: bool,
}

impl Operator {
    /// Whether it makes the same values again from the same inputs, and changes nothing else: a plan may run it more than
    /// once in an iteration.
    pub fn is_repeatable(&self) -> bool {
        !self.is_random && self.updates.is_empty()
    }

    /// All tensors that must be in GPU memory while it runs, each once.
    pub fn tensors(&self) -> impl Iterator<Item = TensorId> + '_ {
        let all = self.inputs.iter().chain(&self.updates).chain(&self.outputs);
        all.copied()
    }
}

/// The dataflow graph of one iteration, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    tensors: Vec<Tensor>,
    operators: Vec<Operator>,
    sizes: Vec<u64>,
    size_counts: Vec<u32>,
    size_of: Vec<u32>,
}

impl Graph {
    /// The graph of these tensors and operators. Operators that touch the same tensor, one of them changing it, run in the
    /// order in which they stand here. Fails where no order of execution could compute it.
    pub fn new(tensors: Vec<Tensor>, operators: Vec<Operator>) -> Result<Self, GraphError> {
        check::check(&tensors, &operators)?;
        let mut sizes: Vec<u64> = tensors.iter().map(|tensor| tensor.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let place = |tensor: &Tensor| sizes.partition_point(|size| *size < tensor.bytes) as u32;
        let size_of: Vec<u32> = tensors.iter().map(place).collect();
        let mut size_counts = vec![0; sizes.len()];
        for size in &size_of {
            size_counts[*size as usize] += 1;
        }
        Ok(Self {
            tensors,
            operators,
            sizes,
            size_counts,
            size_of,
        })
    }

    /// The tensors, by their numbers.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The operators, by their numbers: in an order that can run.
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// A tensor of it.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id as usize]
    }

    /// An operator of it.
    pub fn operator(&self, id: OpId) -> &Operator {
        &self.operators[id as usize]
    }

    /// The different sizes of its tensors in bytes, the smallest first.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The number of tensors of each of [`Self::sizes`].
    pub fn size_counts(&self) -> &[u32] {
        &self.size_counts
    }

    /// The place of a tensor's size in [`Self::sizes`].
    pub fn size_index(&self, id: TensorId) -> usize {
        self.size_of[id as usize] as usize
    }

    /// How long the operators take together, in nanoseconds: an iteration with infinite memory.
    pub fn compute_ns(&self) -> u64 {
        self.operators.iter().map(|op| op.time_ns).sum()
    }

    /// The bytes of all tensors of a kind together.
    pub fn bytes_of(&self, kind: Kind) -> u64 {
        let tensors = self.tensors.iter().filter(|tensor| tensor.kind == kind);
        tensors.map(|tensor| tensor.bytes).sum()
    }
}
