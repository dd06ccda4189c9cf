//! The swap planner of SwapAdvisor's section 4.2: the plan for one schedule and one division of the budget.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::pools::Pools;
use crate::graph::{Graph, OpId, TensorId};
use crate::plan::{Compute, Extent, Place, Plan, Queue, SwapIn, SwapOut, Waits};

/// No slot.
const NONE: u32 = u32::MAX;

/// What a planner may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A tensor that was used less than so many operators ago is evicted only where nothing else can be.
    pub recency: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { recency: 2 }
    }
}

/// The division has too few objects of a class for what one operator needs at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operator {op} needs more tensors of class {class} at once than there are objects")]
pub struct Infeasible {
    /// The operator.
    pub op: OpId,
    /// The class.
    pub class: u32,
}

/// Makes plans for one graph; its memory is used again for each.
#[derive(Debug)]
pub struct Planner<'a> {
    graph: &'a Graph,
    /// Where the uses of each tensor begin in `uses`.
    use_starts: Vec<u32>,
    uses: Vec<u32>,
    /// Which tensors operators change in place.
    is_changed: Vec<bool>,
    tensors: Vec<State>,
    slots: Vec<Slot>,
    classes: Vec<ClassState>,
    aside: Vec<Candidate>,
    plan: Plan,
}

/// What a pass knows of a tensor.
#[derive(Clone, Copy, Debug)]
struct State {
    slot: u32,
    /// The slot in which it is before the iteration.
    resident: u32,
    /// Its next use: a place in `uses`.
    cursor: u32,
    /// One more than the place of the last operator that used it.
    used: u32,
    /// For so many swap-ins the next operator waits.
    arrived: u32,
    /// For so many swap-outs a swap-in waits: since then its value is in host memory.
    written: u32,
    is_in_host: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    class: u32,
    /// What must have ended before something is put there.
    free: Waits,
}

/// A tensor that may be evicted: the furthest next use first.
type Candidate = (u32, TensorId);

#[derive(Debug, Default)]
struct ClassState {
    free: VecDeque<u32>,
    candidates: BinaryHeap<Candidate>,
}

impl<'a> Planner<'a> {
    /// A planner for `graph`.
    pub fn new(graph: &'a Graph) -> Self {
        let mut use_starts = vec![0_u32; graph.tensors().len() + 1];
        for operator in graph.operators() {
            for tensor in operator.tensors() {
                use_starts[tensor as usize + 1] += 1;
            }
        }
        for tensor in 0..graph.tensors().len() {
            use_starts[tensor + 1] += use_starts[tensor];
        }
        let mut is_changed = vec![false; graph.tensors().len()];
        for operator in graph.operators() {
            for tensor in &operator.updates {
                is_changed[*tensor as usize] = true;
            }
        }
        let uses = vec![0; use_starts[graph.tensors().len()] as usize];
        Self {
            graph,
            use_starts,
            uses,
            is_changed,
            tensors: Vec::new(),
            slots: Vec::new(),
            classes: Vec::new(),
            aside: Vec::new(),
            plan: Plan::default(),
        }
    }

    /// The plan for a schedule, which must be one of the graph's, and a division.
    pub fn plan(
        &mut self,
        schedule: &[OpId],
        pools: &Pools,
        settings: Settings,
    ) -> Result<&Plan, Infeasible> {
        self.find_uses(schedule);
        self.begin(pools, false);
        self.pass(schedule, pools, settings)?;
        // What the first pass leaves there is there when an iteration begins.
        self.begin(pools, true);
        self.pass(schedule, pools, settings)?;
        self.end(schedule.len() as u32);
        Ok(&self.plan)
    }

    fn find_uses(&mut self, schedule: &[OpId]) {
        let mut next = self.use_starts.clone();
        for (at, op) in (0..).zip(schedule) {
            for tensor in self.graph.operator(*op).tensors() {
                let place = &mut next[tensor as usize];
                self.uses[*place as usize] = at;
                *place += 1;
            }
        }
    }

    /// Begins a pass: with what is resident at the end of the former one, or with nothing.
    fn begin(&mut self, pools: &Pools, with_residents: bool) {
        self.plan.clear();
        self.plan.budget = pools.bytes();
        self.slots.clear();
        self.classes.resize_with(pools.classes().len(), ClassState::default);
        let mut offset = 0;
        for ((number, class), state) in (0..).zip(pools.classes()).zip(&mut self.classes) {
            state.free.clear();
            state.candidates.clear();
            for _ in 0..class.count {
                self.slots.push(Slot {
                    class: number,
                    free: Waits::default(),
                });
                let bytes = class.bytes;
                self.plan.extents.push(Extent { offset, bytes });
                offset += bytes;
            }
        }
        let count = self.graph.tensors().len();
        let mut taken = vec![false; self.slots.len()];
        if !with_residents {
            self.tensors.clear();
        }
        for id in 0..count {
            let kind = self.graph.tensors()[id].kind;
            let former = self.tensors.get(id).map_or(NONE, |state| state.slot);
            let resident = if kind.is_kept() { former } else { NONE };
            let state = State {
                slot: resident,
                resident,
                cursor: self.use_starts[id],
                used: 0,
                arrived: 0,
                written: 0,
                // The iteration before this one changed it, and left it in GPU memory only.
                is_in_host: kind.is_given() && (resident == NONE || !self.is_changed[id]),
            };
            match self.tensors.get_mut(id) {
                Some(known) => *known = state,
                None => self.tensors.push(state),
            }
            if resident != NONE {
                taken[resident as usize] = true;
                let class = self.slots[resident as usize].class as usize;
                let next = self.uses[self.use_starts[id] as usize];
                self.classes[class].candidates.push((next, id as TensorId));
            }
        }
        for (slot, taken) in (0..).zip(taken) {
            if !taken {
                let class = self.slots[slot as usize].class as usize;
                self.classes[class].free.push_back(slot);
            }
        }
    }

    fn pass(
        &mut self,
        schedule: &[OpId],
        pools: &Pools,
        settings: Settings,
    ) -> Result<(), Infeasible> {
        let graph = self.graph;
        let count = schedule.len() as u32;
        for (at, op) in (0..).zip(schedule) {
            let operator = graph.operator(*op);
            let mut waits = Waits::default();
            let outputs = self.plan.outputs.len() as u32;
            for tensor in operator.inputs.iter().chain(&operator.updates) {
                let id = *tensor as usize;
                if self.tensors[id].slot == NONE {
                    let class = pools.class_of()[graph.size_index(*tensor)];
                    let slot = self.take(class, at, settings).ok_or(Infeasible { op: *op, class })?;
                    self.swap_in(*tensor, slot);
                }
                waits = waits.and(Waits::on(Queue::SwapIn, self.tensors[id].arrived));
            }
            for tensor in &operator.outputs {
                let class = pools.class_of()[graph.size_index(*tensor)];
                let slot = self.take(class, at, settings).ok_or(Infeasible { op: *op, class })?;
                self.tensors[*tensor as usize].slot = slot;
                self.plan.outputs.push(place(*tensor, slot));
                waits = waits.and(self.slots[slot as usize].free);
            }
            waits.0[Queue::Compute as usize] = 0;
            self.plan.compute.push(Compute {
                op: *op,
                waits,
                outputs,
            });
            for tensor in operator.updates.iter().chain(&operator.outputs) {
                self.tensors[*tensor as usize].is_in_host = false;
            }
            for tensor in operator.tensors() {
                self.used(tensor, at, count);
            }
        }
        Ok(())
    }

    /// Whether the operator at `at` uses a tensor.
    fn is_needed(&self, tensor: TensorId, at: u32) -> bool {
        self.next_use(tensor, &self.tensors[tensor as usize]) == at
    }

    /// A free slot of a class for the operator at `at`; what was there is evicted.
    fn take(&mut self, class: u32, at: u32, settings: Settings) -> Option<u32> {
        if let Some(slot) = self.classes[class as usize].free.pop_front() {
            return Some(slot);
        }
        self.aside.clear();
        let victim = loop {
            let Some(candidate) = self.classes[class as usize].candidates.pop() else {
                break None;
            };
            let (next, tensor) = candidate;
            let state = &self.tensors[tensor as usize];
            // What has been used or evicted since it became a candidate is one under another number, or none.
            if state.slot == NONE || next != self.next_use(tensor, state) {
                continue;
            }
            if next == at {
                self.aside.push(candidate);
                continue;
            }
            if state.used + settings.recency > at {
                self.aside.push(candidate);
                continue;
            }
            break Some(tensor);
        };
        let mut aside = core::mem::take(&mut self.aside);
        let victim = victim.or_else(|| {
            let is_free = |(_, tensor): &Candidate| !self.is_needed(*tensor, at);
            let place = aside.iter().position(is_free)?;
            Some(aside.swap_remove(place).1)
        });
        self.classes[class as usize].candidates.extend(aside.drain(..));
        self.aside = aside;
        victim.map(|victim| self.evict(victim))
    }

    /// When a tensor is used next; beyond the iteration, if that is in the next one.
    fn next_use(&self, tensor: TensorId, state: &State) -> u32 {
        let end = self.use_starts[tensor as usize + 1];
        if state.cursor < end {
            return self.uses[state.cursor as usize];
        }
        let first = self.uses[self.use_starts[tensor as usize] as usize];
        self.graph.operators().len() as u32 + first
    }

    fn evict(&mut self, tensor: TensorId) -> u32 {
        let state = &mut self.tensors[tensor as usize];
        let slot = core::mem::replace(&mut state.slot, NONE);
        let free = &mut self.slots[slot as usize].free;
        if state.used == 0 && state.resident == slot {
            // It was not used yet: it need not be there when an iteration begins.
            state.resident = NONE;
            state.is_in_host = true;
            *free = Waits::default();
            return slot;
        }
        let used = Waits::on(Queue::Compute, state.used);
        if state.is_in_host {
            *free = used;
            return slot;
        }
        self.plan.swap_out.push(SwapOut {
            tensor,
            waits: used,
        });
        state.is_in_host = true;
        state.written = self.plan.swap_out.len() as u32;
        *free = Waits::on(Queue::SwapOut, state.written);
        slot
    }

    fn swap_in(&mut self, tensor: TensorId, slot: u32) {
        let state = &mut self.tensors[tensor as usize];
        self.plan.swap_in.push(SwapIn {
            place: place(tensor, slot),
            waits: self.slots[slot as usize]
                .free
                .and(Waits::on(Queue::SwapOut, state.written))
                // It may still be used where it was before.
                .and(Waits::on(Queue::Compute, state.used)),
        });
        state.slot = slot;
        state.arrived = self.plan.swap_in.len() as u32;
    }

    /// The operator at `at` has used a tensor.
    fn used(&mut self, tensor: TensorId, at: u32, count: u32) {
        let state = &mut self.tensors[tensor as usize];
        state.used = at + 1;
        state.cursor += 1;
        let (slot, is_last) = (state.slot, state.cursor == self.use_starts[tensor as usize + 1]);
        let class = &mut self.classes[self.slots[slot as usize].class as usize];
        if is_last && !self.graph.tensor(tensor).kind.is_kept() {
            state.slot = NONE;
            self.slots[slot as usize].free = Waits::on(Queue::Compute, at + 1);
            class.free.push_back(slot);
            return;
        }
        let next = if is_last {
            count + self.uses[self.use_starts[tensor as usize] as usize]
        } else {
            self.uses[state.cursor as usize]
        };
        class.candidates.push((next, tensor));
    }

    /// Leaves memory as the next iteration expects it.
    fn end(&mut self, _count: u32) {
        let kept = |graph: &Graph, id: usize| graph.tensors()[id].kind.is_kept();
        for id in 0..self.tensors.len() {
            let State { slot, resident, .. } = self.tensors[id];
            if !kept(self.graph, id) || slot == NONE || slot == resident {
                continue;
            }
            self.evict(id as TensorId);
        }
        for id in 0..self.tensors.len() {
            let State { slot, resident, .. } = self.tensors[id];
            if resident == NONE {
                continue;
            }
            if slot != resident {
                self.swap_in(id as TensorId, resident);
            }
            self.plan.residents.push(place(id as TensorId, resident));
        }
    }
}

/// A tensor in a slot: the plan's extents are the slots.
fn place(tensor: TensorId, slot: u32) -> Place {
    Place {
        tensor,
        first: slot,
        count: 1,
    }
}
