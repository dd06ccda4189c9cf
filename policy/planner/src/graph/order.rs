//! What must run before what.

use alloc::vec;
use alloc::vec::Vec;

use super::{Graph, OpId};

/// Lists of numbers, one after the other in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Starts {
    /// The lists of `pairs`: to which list a number belongs, and the number. Each list keeps the order of the pairs.
    pub(crate) fn new(lists: usize, pairs: &[(u32, u32)]) -> Self {
        let mut starts = vec![0_u32; lists + 1];
        for (list, _) in pairs {
            starts[*list as usize + 1] += 1;
        }
        for list in 0..lists {
            starts[list + 1] += starts[list];
        }
        let mut all = vec![0; pairs.len()];
        let mut next = starts.clone();
        for (list, number) in pairs {
            let place = &mut next[*list as usize];
            all[*place as usize] = *number;
            *place += 1;
        }
        Self { starts, all }
    }

    /// The numbers of list `list`.
    pub fn of(&self, list: u32) -> &[u32] {
        let [from, to] = [list, list + 1].map(|at| self.starts[at as usize] as usize);
        &self.all[from..to]
    }
}

/// What must run before what: a schedule is an order of all operators in which each stands behind its predecessors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    predecessors: Starts,
    successors: Starts,
}

impl Order {
    /// The order that a graph's tensors ask for: an operator runs behind the one that makes a tensor of it, and before the one that changes the tensor next.
    pub fn of(graph: &Graph) -> Self {
        let count = graph.tensors().len();
        let mut writer: Vec<Option<OpId>> = vec![None; count];
        let mut readers: Vec<Vec<OpId>> = vec![Vec::new(); count];
        let mut pairs: Vec<(OpId, OpId)> = Vec::new();
        for (op, operator) in (0..).zip(graph.operators()) {
            let first = pairs.len();
            for tensor in operator.inputs.iter().map(|tensor| *tensor as usize) {
                pairs.extend(writer[tensor].map(|writer| (op, writer)));
                readers[tensor].push(op);
            }
            for tensor in operator.updates.iter().map(|tensor| *tensor as usize) {
                pairs.extend(writer[tensor].map(|writer| (op, writer)));
                pairs.extend(readers[tensor].drain(..).map(|reader| (op, reader)));
                writer[tensor] = Some(op);
            }
            for tensor in &operator.outputs {
                writer[*tensor as usize] = Some(op);
            }
            pairs[first..].sort_unstable();
            let mut kept = first;
            for at in first..pairs.len() {
                if at == first || pairs[at] != pairs[kept - 1] {
                    pairs[kept] = pairs[at];
                    kept += 1;
                }
            }
            pairs.truncate(kept);
        }
        let operators = graph.operators().len();
        let predecessors = Starts::new(operators, &pairs);
        for (op, before) in &mut pairs {
            core::mem::swap(op, before);
        }
        Self {
            predecessors,
            successors: Starts::new(operators, &pairs),
        }
    }

    /// The number of operators.
    pub fn count(&self) -> usize {
        self.predecessors.starts.len() - 1
    }

    /// What must run before an operator.
    pub fn predecessors(&self, op: OpId) -> &[OpId] {
        self.predecessors.of(op)
    }

    /// What must run behind an operator.
    pub fn successors(&self, op: OpId) -> &[OpId] {
        self.successors.of(op)
    }

    /// Whether `schedule` has each operator once, behind its predecessors.
    pub fn allows(&self, schedule: &[OpId]) -> bool {
        let count = self.count();
        let mut done = vec![false; count];
        schedule.len() == count
            && schedule.iter().all(|op| {
                let is_new = done.get(*op as usize) == Some(&false);
                let is_ready = is_new
                    && self
                        .predecessors(*op)
                        .iter()
                        .all(|before| done[*before as usize]);
                if is_ready {
                    done[*op as usize] = true;
                }
                is_ready
            })
    }
}
