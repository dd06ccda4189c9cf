//! What an executor does to run a graph in less memory: three queues of steps, as three CUDA streams have them.
//!
//! An iteration begins when all queues of the one before are empty; before the first one, the residents are copied in. The
//! latest value of a resident that the iteration changes is in GPU memory only, and must be copied out once the last iteration
//! has ended.
//!
//! The steps of a queue run in their order, one at a time. A step also waits for so many steps of the other queues, as a
//! stream waits for an event. Nothing says when memory is free: a step that puts a tensor somewhere waits for whatever used
//! that place before, and [`crate::validator`] proves that it does.

use alloc::vec::Vec;

use crate::graph::{OpId, TensorId};

/// One of the three queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    /// Operators, on the compute engine.
    Compute,
    /// Copies from the host.
    SwapIn,
    /// Copies to the host.
    SwapOut,
}

impl Queue {
    /// All of them, in the order in which [`Waits`] has them.
    pub const ALL: [Self; 3] = [Self::Compute, Self::SwapIn, Self::SwapOut];
}

/// How many steps of each queue must have ended before a step begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits(pub [u32; 3]);

impl Waits {
    /// For the first `count` steps of `queue`.
    pub fn on(queue: Queue, count: u32) -> Self {
        let mut waits = Self::default();
        waits.0[queue as usize] = count;
        waits
    }

    /// For so many steps of a queue.
    pub fn of(self, queue: Queue) -> u32 {
        self.0[queue as usize]
    }

    /// For the steps of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(core::array::from_fn(|queue| {
            self.0[queue].max(other.0[queue])
        }))
    }
}

/// A piece of the job's GPU memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte, counted from the beginning of the budget.
    pub offset: u64,
    /// Its bytes, at least 1.
    pub bytes: u64,
}

impl Extent {
    /// The byte behind its last one; the largest number where that is none.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// Where a tensor lies: pieces that are mapped one after the other under its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The tensor that lies there.
    pub tensor: TensorId,
    /// Its first piece in [`Plan::extents`].
    pub first: u32,
    /// The number of its pieces.
    pub count: u32,
}

/// An operator at its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    /// The operator that runs.
    pub op: OpId,
    /// What it waits for.
    pub waits: Waits,
    /// Where in [`Plan::outputs`] the places of what it makes begin. They reach to those of the next step.
    pub outputs: u32,
}

/// A copy from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapIn {
    /// What comes, and where to.
    pub place: Place,
    /// What it waits for.
    pub waits: Waits,
}

/// A copy to the host. The tensor stays where it is until something else is put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapOut {
    /// The tensor that is copied.
    pub tensor: TensorId,
    /// What it waits for.
    pub waits: Waits,
}

/// A plan for one iteration, to be run again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The GPU memory that it may use, in bytes.
    pub budget: u64,
    /// The size of the chunks of which all places consist, in bytes; 0 where places are of any size. Chunks are mapped, and a
    /// place may have many. A resident may end in other chunks than it began in: the chunks are renumbered between two
    /// iterations. Without chunks a place is one extent, and residents end where they began.
    pub chunk: u64,
    /// The pieces of all places.
    pub extents: Vec<Extent>,
    /// Kept tensors that are in GPU memory before an iteration, and there again behind it.
    pub residents: Vec<Place>,
    /// All operators in the order in which they run. One that is [repeatable](crate::graph::Operator::is_repeatable) may come more
    /// than once, and makes its outputs again.
    pub compute: Vec<Compute>,
    /// Where operators put the tensors that they make, in the order of [`Self::compute`].
    pub outputs: Vec<Place>,
    /// Copies from the host in the order in which they are made.
    pub swap_in: Vec<SwapIn>,
    /// Copies to the host in the order in which they are made.
    pub swap_out: Vec<SwapOut>,
}

impl Plan {
    /// Where the operator of a compute step puts what it makes.
    pub fn outputs_of(&self, at: usize) -> &[Place] {
        let from = self.compute[at].outputs as usize;
        let next = self.compute.get(at + 1);
        let to = next.map_or(self.outputs.len(), |next| next.outputs as usize);
        self.outputs.get(from..to).unwrap_or_default()
    }

    /// The pieces of a place; none where its numbers are wrong.
    pub fn extents_of(&self, place: Place) -> &[Extent] {
        let from = place.first as usize;
        let to = from.saturating_add(place.count as usize);
        self.extents.get(from..to).unwrap_or_default()
    }

    /// The bytes of the budget in which any tensor ever lies.
    pub fn footprint(&self) -> u64 {
        let copied = self.swap_in.iter().map(|swap| &swap.place);
        let places = self.residents.iter().chain(&self.outputs).chain(copied);
        let mut extents: Vec<&Extent> = places.flat_map(|place| self.extents_of(*place)).collect();
        extents.sort_unstable_by_key(|extent| extent.offset);
        let (mut bytes, mut end) = (0, 0);
        for extent in extents {
            bytes += extent.end().saturating_sub(extent.offset.max(end));
            end = end.max(extent.end());
        }
        bytes
    }

    /// Empties it, and keeps its memory.
    pub fn clear(&mut self) {
        self.extents.clear();
        self.residents.clear();
        self.compute.clear();
        self.outputs.clear();
        self.swap_in.clear();
        self.swap_out.clear();
    }
}
