//! What becomes of each tensor between its uses, and the plan that follows from it.
//!
//! Time is counted in slots: slot 0 is the beginning of an iteration, slot `n + 1` its end, and the operator that runs
//! n-th is in slot n. A tensor is in GPU memory in some slots, and the sum over all tensors must fit into the budget in
//! each. Planners decide with the times that they expect; the plan that is made of the decisions is right whatever the
//! times are, because each of its steps waits for the memory that it needs.

mod emit;
mod taken;

pub use emit::TooLarge;

use alloc::vec;
use alloc::vec::Vec;

use crate::graph::{Graph, Kind, OpId, Starts, TensorId};
use taken::Taken;

/// A slot of the iteration.
pub type Slot = u32;

/// What becomes of a tensor between two uses, or before its first, or behind its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// It stays in GPU memory.
    Stays,
    /// It is in host memory meanwhile.
    Swaps {
        /// The first slot in which it takes no GPU memory.
        leaves: Slot,
        /// The first slot in which it takes GPU memory again: the copy may begin with it.
        comes: Slot,
    },
    /// It is given up, and the operator that made it runs again right before the next use.
    IsMadeAgain,
}

/// One gap of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapAt {
    /// The tensor that has the gap.
    pub tensor: TensorId,
    /// The number of uses before the gap: 0 is what is before the first use.
    pub number: u32,
    /// The slot of the use before it; 0 where there is none.
    pub from: Slot,
    /// The slot of the use behind it; `n + 1` where there is none.
    pub to: Slot,
}

/// The decisions for all tensors of a graph in one schedule.
#[derive(Clone, Debug)]
pub struct Stays<'a> {
    graph: &'a Graph,
    schedule: Vec<OpId>,
    chunk: u64,
    /// The slots that use each tensor.
    uses: Starts,
    /// The first gap of each tensor in `gaps`.
    first: Vec<u32>,
    gaps: Vec<Gap>,
    /// For each gap the first slot in which its copy to the host may begin.
    out_begins: Vec<Slot>,
    is_resident: Vec<bool>,
    /// For each slot the operators that run right before it again.
    again: Vec<(Slot, OpId)>,
    taken: Taken,
    is_changed: Vec<bool>,
    makers: Vec<Option<OpId>>,
}

impl<'a> Stays<'a> {
    /// Nothing swaps yet: kept tensors are resident, inputs come right at the beginning, all others are made where the
    /// schedule makes them, and gone behind their last use. `schedule` must be one of the graph's, a chunk has `chunk`
    /// bytes, at least 1.
    pub fn new(graph: &'a Graph, schedule: Vec<OpId>, chunk: u64) -> Self {
        let tensors = graph.tensors().len();
        let (mut is_changed, mut makers) = (vec![false; tensors], vec![None; tensors]);
        let mut pairs: Vec<(TensorId, Slot)> = Vec::new();
        for (slot, op) in (1..).zip(&schedule) {
            let operator = graph.operator(*op);
            pairs.extend(operator.tensors().map(|tensor| (tensor, slot)));
            for tensor in &operator.updates {
                is_changed[*tensor as usize] = true;
            }
            for tensor in &operator.outputs {
                makers[*tensor as usize] = Some(*op);
            }
        }
        let uses = Starts::new(tensors, &pairs);
        let first = (0..tensors as u32).scan(0, |next, tensor| {
            let first = *next;
            *next += uses.of(tensor).len() as u32 + 1;
            Some(first)
        });
        let mut stays = Self {
            graph,
            chunk: chunk.max(1),
            first: first.collect(),
            gaps: vec![Gap::Stays; pairs.len() + tensors],
            out_begins: vec![0; pairs.len() + tensors],
            is_resident: graph
                .tensors()
                .iter()
                .map(|tensor| tensor.kind.is_kept())
                .collect(),
            again: Vec::new(),
            taken: Taken::new(schedule.len() + 2),
            schedule,
            uses,
            is_changed,
            makers,
        };
        for (id, tensor) in (0..).zip(graph.tensors()) {
            if tensor.kind.is_given() && !tensor.kind.is_kept() {
                let comes = 1;
                stays.gaps[stays.first[id as usize] as usize] = Gap::Swaps { leaves: 0, comes };
            }
        }
        stays.count_all();
        stays
    }

    /// Counts what is taken before any decision: each tensor from its first slot to its last one.
    fn count_all(&mut self) {
        let end = self.end();
        for (id, tensor) in (0..).zip(self.graph.tensors()) {
            let uses = self.uses.of(id);
            let (from, to) = match (uses.first(), uses.last()) {
                _ if tensor.kind.is_kept() => (0, end + 1),
                (Some(_), Some(last)) if tensor.kind == Kind::Input => (1, last + 1),
                (Some(first), Some(last)) => (*first, last + 1),
                _ => continue,
            };
            self.taken.change(from, to, self.chunks(id), true);
        }
    }

    /// The graph that it is for.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// The operators in the order in which they run.
    pub fn schedule(&self) -> &[OpId] {
        &self.schedule
    }

    /// The slot of the iteration's end.
    pub fn end(&self) -> Slot {
        self.schedule.len() as Slot + 1
    }

    /// The slots that use a tensor, in their order.
    pub fn uses(&self, tensor: TensorId) -> &[Slot] {
        self.uses.of(tensor)
    }

    /// The operator that makes a tensor; none of what is given.
    pub fn maker(&self, tensor: TensorId) -> Option<OpId> {
        self.makers[tensor as usize]
    }

    /// Whether an operator changes the tensor in place.
    pub fn is_changed(&self, tensor: TensorId) -> bool {
        self.is_changed[tensor as usize]
    }

    /// Whether a tensor is in GPU memory when an iteration begins and when it ends.
    pub fn is_resident(&self, tensor: TensorId) -> bool {
        self.is_resident[tensor as usize]
    }

    /// The chunks that are taken in each slot, the beginning and the end among them.
    pub fn taken(&self) -> Vec<u64> {
        self.taken.chunks()
    }

    /// The slot in which the most memory is taken, the first of several, and how much that is in bytes.
    pub fn peak(&self) -> (Slot, u64) {
        let (slot, most) = self.taken.peak();
        (slot, most * self.chunk)
    }

    /// The size of a tensor in chunks.
    pub fn chunks(&self, tensor: TensorId) -> u64 {
        self.graph.tensor(tensor).bytes.div_ceil(self.chunk)
    }

    /// What becomes of a tensor in one of its gaps.
    pub fn gap(&self, tensor: TensorId, number: u32) -> Gap {
        self.gaps[self.index(tensor, number)]
    }

    /// The gap of a tensor in which a slot lies; none where the slot uses it, or lies before it is made or behind its last
    /// use.
    pub fn gap_at(&self, tensor: TensorId, slot: Slot) -> Option<GapAt> {
        let uses = self.uses.of(tensor);
        let number = uses.partition_point(|of| *of <= slot);
        let kind = self.graph.tensor(tensor).kind;
        let is_used = number > 0 && uses[number - 1] == slot;
        let is_before = number == 0 && !kind.is_given();
        let is_behind = number == uses.len() && !kind.is_kept();
        (!is_used && !is_before && !is_behind).then(|| GapAt {
            tensor,
            number: number as u32,
            from: number.checked_sub(1).map_or(0, |at| uses[at]),
            to: uses.get(number).copied().unwrap_or(self.end()),
        })
    }

    /// Whether a tensor takes GPU memory during all of a slot. Its copy may still be on its way.
    pub fn is_in(&self, tensor: TensorId, slot: Slot) -> bool {
        let uses = self.uses.of(tensor);
        if uses.binary_search(&slot).is_ok() {
            return true;
        }
        let Some(gap) = self.gap_at(tensor, slot) else {
            return false;
        };
        let held = self.held(tensor, gap.number);
        held.iter().any(|(from, to)| (*from..*to).contains(&slot))
    }

    /// Whether the latest value of a tensor is in host memory in a gap, without a copy made for that gap.
    pub fn is_in_host(&self, tensor: TensorId, number: u32) -> bool {
        let kind = self.graph.tensor(tensor).kind;
        let uses = &self.uses.of(tensor)[..number as usize];
        let mut is_in_host =
            kind.is_given() && !(self.is_resident(tensor) && self.is_changed(tensor));
        for (number, slot) in (0..).zip(uses) {
            let is_swapped = matches!(self.gap(tensor, number), Gap::Swaps { .. });
            // A gap before a tensor is made swaps nothing.
            is_in_host |= is_swapped && (number > 0 || kind.is_given());
            if self.changes(*slot, tensor) {
                is_in_host = false;
            }
        }
        is_in_host
    }

    /// Whether an operator between two slots changes a tensor in place.
    pub fn is_changed_between(&self, tensor: TensorId, from: Slot, to: Slot) -> bool {
        let between = |slot: &&Slot| **slot > from && **slot < to;
        let mut uses = self.uses.of(tensor).iter().filter(between);
        uses.any(|slot| self.changes(*slot, tensor))
    }

    /// Whether the operator of a slot makes or changes a tensor.
    fn changes(&self, slot: Slot, tensor: TensorId) -> bool {
        let operator = self.graph.operator(self.schedule[slot as usize - 1]);
        operator.updates.contains(&tensor) || operator.outputs.contains(&tensor)
    }

    /// Decides for one gap. A swap must be `from < leaves <= comes <= to`, but a resident leaves at 0 at the earliest, and
    /// what is not resident has nothing that it could leave from in its first gap. [`Gap::IsMadeAgain`] asks for a gap between
    /// two uses, before which nothing has changed the tensor, and for a maker that is repeatable, makes nothing else but scratch,
    /// and finds its inputs in the slot behind the gap as they were.
    pub fn set(&mut self, tensor: TensorId, number: u32, gap: Gap) {
        let at = self.index(tensor, number);
        if self.gaps[at] == gap {
            return;
        }
        let again = self.makers[tensor as usize].map(|op| (self.slot_behind(tensor, number), op));
        self.count_gap(tensor, number, false);
        if let (Gap::IsMadeAgain, Some((slot, op))) = (self.gaps[at], again) {
            self.again.retain(|of| *of != (slot, op));
            self.count_again(slot, op, tensor, false);
        }
        self.gaps[at] = gap;
        if let (Gap::IsMadeAgain, Some((slot, op))) = (gap, again) {
            let place = self.again.partition_point(|of| *of < (slot, op));
            self.again.insert(place, (slot, op));
            self.count_again(slot, op, tensor, true);
        }
        self.count_gap(tensor, number, true);
    }

    /// A kept tensor is in host memory between iterations: it comes in slot `comes`, and has left before slot `leaves`.
    pub fn set_absent(&mut self, tensor: TensorId, leaves: Slot, comes: Slot) {
        self.count(tensor, false);
        self.is_resident[tensor as usize] = false;
        let last = self.uses.of(tensor).len() as u32;
        let (head, tail) = (self.index(tensor, 0), self.index(tensor, last));
        self.gaps[head] = Gap::Swaps { leaves: 0, comes };
        if last > 0 {
            let comes = self.end() + 1;
            self.gaps[tail] = Gap::Swaps { leaves, comes };
        }
        self.count(tensor, true);
    }

    /// The copy to the host of one gap begins in slot `begins` at the earliest, though its tensor may be ready before: until then
    /// the link is left to more urgent copies. A slot behind that in which the tensor has left counts as that one. Without this
    /// call the copy may begin as soon as nothing changes the tensor any more.
    pub fn begin_out_at(&mut self, tensor: TensorId, number: u32, begins: Slot) {
        let at = self.index(tensor, number);
        self.out_begins[at] = begins;
    }

    fn index(&self, tensor: TensorId, number: u32) -> usize {
        (self.first[tensor as usize] + number) as usize
    }

    fn slot_behind(&self, tensor: TensorId, number: u32) -> Slot {
        let slot = self.uses.of(tensor).get(number as usize);
        slot.copied().unwrap_or(self.end())
    }

    /// The slots of a gap in which the tensor is in GPU memory: two ranges, the second one behind the first.
    fn held(&self, tensor: TensorId, number: u32) -> [(Slot, Slot); 2] {
        let uses = self.uses.of(tensor);
        let kind = self.graph.tensor(tensor).kind;
        let is_resident = self.is_resident[tensor as usize];
        let (is_head, is_tail) = (number == 0, number as usize == uses.len());
        // At both ends a resident is there whatever becomes of it between.
        let from = match number.checked_sub(1) {
            Some(at) => uses[at as usize] + 1,
            None => Slot::from(is_resident),
        };
        let to = uses.get(number as usize).copied().unwrap_or(self.end());
        if is_head && !kind.is_given() || is_tail && !kind.is_kept() {
            return [(0, 0); 2];
        }
        match self.gaps[self.index(tensor, number)] {
            // What is absent between iterations comes in the next one.
            Gap::Swaps { leaves, .. } if is_tail && !is_resident => {
                [(from, leaves.max(from)), (0, 0)]
            }
            Gap::Stays => [(from, to), (0, 0)],
            Gap::Swaps { leaves, comes } => [(from, leaves.max(from)), (comes.min(to), to)],
            Gap::IsMadeAgain => [(0, 0); 2],
        }
    }

    /// Adds or takes off what a tensor takes.
    fn count(&mut self, tensor: TensorId, is_more: bool) {
        let chunks = self.chunks(tensor);
        for at in 0..self.uses.of(tensor).len() {
            let slot = self.uses.of(tensor)[at];
            self.add(slot, chunks, is_more);
        }
        if self.is_resident[tensor as usize] {
            self.add(0, chunks, is_more);
            self.add(self.end(), chunks, is_more);
        }
        for number in 0..=self.uses.of(tensor).len() as u32 {
            self.count_gap(tensor, number, is_more);
        }
    }

    /// The same for one gap.
    fn count_gap(&mut self, tensor: TensorId, number: u32, is_more: bool) {
        let chunks = self.chunks(tensor);
        for (from, to) in self.held(tensor, number) {
            self.taken.change(from, to, chunks, is_more);
        }
    }

    fn add(&mut self, slot: Slot, chunks: u64, is_more: bool) {
        self.taken.change(slot, slot + 1, chunks, is_more);
    }

    /// The same for what an operator makes beside `tensor` where it runs again before `slot`.
    fn count_again(&mut self, slot: Slot, op: OpId, tensor: TensorId, is_more: bool) {
        let others = self
            .graph
            .operator(op)
            .outputs
            .iter()
            .filter(|id| **id != tensor);
        let chunks: u64 = others.map(|id| self.chunks(*id)).sum();
        self.add(slot, chunks, is_more);
    }
}
