//! When a schedule uses each tensor.

use alloc::vec;
use alloc::vec::Vec;

use crate::graph::{Graph, OpId, Starts, TensorId};

/// The operators that use each tensor.
pub(super) fn users(graph: &Graph) -> Starts {
    let operators = (0..).zip(graph.operators());
    let uses =
        operators.flat_map(|(op, operator)| operator.tensors().map(move |tensor| (tensor, op)));
    let uses: Vec<(u32, u32)> = uses.collect();
    Starts::new(graph.tensors().len(), &uses)
}

/// The users of a tensor, unless they are so many that looking at all of them each time would take quadratic time.
pub(super) fn few(users: &[OpId]) -> &[OpId] {
    const MANY: usize = 64;
    if users.len() <= MANY { users } else { &[] }
}

/// The places in a schedule at which each tensor is used.
#[derive(Debug)]
pub(super) struct Uses {
    starts: Vec<u32>,
    places: Vec<u32>,
    /// Scratch of [`Self::index`].
    next: Vec<u32>,
    is_changed: Vec<bool>,
    count: u32,
}

impl Uses {
    /// Those of no schedule yet.
    pub(super) fn new(graph: &Graph) -> Self {
        let tensors = graph.tensors().len();
        let mut starts = vec![0_u32; tensors + 1];
        let mut is_changed = vec![false; tensors];
        for operator in graph.operators() {
            for tensor in operator.tensors() {
                starts[tensor as usize + 1] += 1;
            }
            for tensor in &operator.updates {
                is_changed[*tensor as usize] = true;
            }
        }
        for tensor in 0..tensors {
            starts[tensor + 1] += starts[tensor];
        }
        Self {
            places: vec![0; starts[tensors] as usize],
            next: Vec::with_capacity(tensors + 1),
            starts,
            is_changed,
            count: graph.operators().len() as u32,
        }
    }

    /// Finds the uses of a schedule.
    pub(super) fn index(&mut self, graph: &Graph, schedule: &[OpId]) {
        self.next.clone_from(&self.starts);
        for (at, op) in (0..).zip(schedule) {
            for tensor in graph.operator(*op).tensors() {
                let place = &mut self.next[tensor as usize];
                self.places[*place as usize] = at;
                *place += 1;
            }
        }
    }

    /// The cursor of a tensor's first use.
    pub(super) fn first(&self, tensor: TensorId) -> u32 {
        self.starts[tensor as usize]
    }

    /// The cursor behind a tensor's last use.
    pub(super) fn end(&self, tensor: TensorId) -> u32 {
        self.starts[tensor as usize + 1]
    }

    /// The place of the use at a cursor; behind the last use, that of the first use in the next iteration.
    pub(super) fn place(&self, tensor: TensorId, cursor: u32) -> u32 {
        if cursor < self.end(tensor) {
            self.places[cursor as usize]
        } else {
            let first = self.places.get(self.first(tensor) as usize);
            self.count + first.copied().unwrap_or_default()
        }
    }

    /// Whether an operator changes the tensor in place.
    pub(super) fn is_changed(&self, tensor: TensorId) -> bool {
        self.is_changed[tensor as usize]
    }
}
