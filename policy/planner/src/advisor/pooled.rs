//! The swap planner of SwapAdvisor's section 4.2: the plan for one schedule and one division of the budget into pools.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;

use super::Infeasible;
use super::pools::Pools;
use super::uses::Uses;
use crate::graph::{Graph, OpId, TensorId};
use crate::plan::{Compute, Extent, Place, Plan, Queue, SwapIn, SwapOut, Waits};

/// The number that no slot has.
const NONE: u32 = u32::MAX;

/// A tensor that one of the last so many operators used is evicted only where nothing else can be. The paper has such a
/// threshold in time, and does not give it.
const RECENT: u32 = 2;

/// Makes plans for one graph; its memory is used again for each.
#[derive(Debug)]
pub struct PooledPlanner<'a> {
    graph: &'a Graph,
    uses: Uses,
    tensors: Vec<State>,
    slots: Vec<Slot>,
    classes: Vec<ClassState>,
    /// Candidates that were used recently, or that the operator in question needs itself.
    aside: Vec<Candidate>,
    plan: Plan,
}

/// What a pass knows of a tensor.
#[derive(Clone, Copy, Debug)]
struct State {
    slot: u32,
    /// The slot in which it is before an iteration.
    resident: u32,
    /// Its next use, as [`Uses`] counts them.
    cursor: u32,
    /// One more than the place of the last operator that used it.
    used: u32,
    /// The number of swap-ins after which it is there.
    arrived: u32,
    /// The number of swap-outs after which its value is in host memory.
    written: u32,
    is_in_host: bool,
}

/// An object of a pool.
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

impl<'a> PooledPlanner<'a> {
    /// A planner for `graph`.
    pub fn new(graph: &'a Graph) -> Self {
        Self {
            graph,
            uses: Uses::new(graph),
            tensors: Vec::new(),
            slots: Vec::new(),
            classes: Vec::new(),
            aside: Vec::new(),
            plan: Plan::default(),
        }
    }

    /// The plan for a schedule, which must be one of the graph's, and a division of its sizes.
    pub fn plan(&mut self, schedule: &[OpId], pools: &Pools) -> Result<&Plan, Infeasible> {
        self.uses.index(self.graph, schedule);
        self.tensors.clear();
        self.begin(pools);
        self.pass(schedule, pools)?;
        // What the first pass leaves in GPU memory is there before an iteration.
        self.begin(pools);
        self.pass(schedule, pools)?;
        self.end();
        Ok(&self.plan)
    }

    /// Begins a pass: kept tensors that are in GPU memory stay there.
    fn begin(&mut self, pools: &Pools) {
        self.plan.clear();
        self.plan.budget = pools.bytes();
        self.plan.chunk = 0;
        self.slots.clear();
        self.classes
            .resize_with(pools.classes().len(), ClassState::default);
        let mut offset = 0;
        for ((number, class), state) in (0..).zip(pools.classes()).zip(&mut self.classes) {
            state.candidates.clear();
            let slots = self.slots.len() as u32;
            state.free.clear();
            state.free.extend(slots..slots + class.count);
            for _ in 0..class.count {
                let free = Waits::default();
                self.slots.push(Slot {
                    class: number,
                    free,
                });
                let bytes = class.bytes;
                self.plan.extents.push(Extent { offset, bytes });
                offset += bytes;
            }
        }
        let mut is_taken = alloc::vec![false; self.slots.len()];
        for (id, tensor) in (0..).zip(self.graph.tensors()) {
            let at = id as usize;
            let slot = self.tensors.get(at).map_or(NONE, |state| state.slot);
            let resident = if tensor.kind.is_kept() { slot } else { NONE };
            let state = State {
                slot: resident,
                resident,
                cursor: self.uses.first(id),
                used: 0,
                arrived: 0,
                written: 0,
                // The iteration before this one changed it, and left it in GPU memory only.
                is_in_host: tensor.kind.is_given()
                    && (resident == NONE || !self.uses.is_changed(id)),
            };
            match self.tensors.get_mut(at) {
                Some(known) => *known = state,
                None => self.tensors.push(state),
            }
            if resident != NONE {
                is_taken[resident as usize] = true;
                let class = self.slots[resident as usize].class;
                let next = self.uses.place(id, state.cursor);
                self.classes[class as usize].candidates.push((next, id));
            }
        }
        for class in &mut self.classes {
            class.free.retain(|slot| !is_taken[*slot as usize]);
        }
    }

    fn pass(&mut self, schedule: &[OpId], pools: &Pools) -> Result<(), Infeasible> {
        let graph = self.graph;
        for (at, op) in (0..).zip(schedule) {
            let infeasible = Infeasible { op: *op };
            let class_of = |id| pools.class_of()[graph.size_index(id)];
            let operator = graph.operator(*op);
            let mut waits = Waits::default();
            for id in operator.inputs.iter().chain(&operator.updates).copied() {
                if self.tensors[id as usize].slot == NONE {
                    let slot = self.take(class_of(id), at).ok_or(infeasible)?;
                    self.swap_in(id, slot);
                }
                waits = waits.and(Waits::on(Queue::SwapIn, self.tensors[id as usize].arrived));
            }
            let outputs = self.plan.outputs.len() as u32;
            for id in operator.outputs.iter().copied() {
                let slot = self.take(class_of(id), at).ok_or(infeasible)?;
                self.tensors[id as usize].slot = slot;
                self.plan.outputs.push(place(id, slot));
                waits = waits.and(self.slots[slot as usize].free);
            }
            waits.0[Queue::Compute as usize] = 0;
            self.plan.compute.push(Compute {
                op: *op,
                waits,
                outputs,
            });
            for id in operator.updates.iter().chain(&operator.outputs) {
                self.tensors[*id as usize].is_in_host = false;
            }
            for id in operator.tensors() {
                self.record_use(id, at);
            }
        }
        Ok(())
    }

    /// A free slot of a class for the operator at `at`; if there is none, the tensor in one is evicted.
    fn take(&mut self, class: u32, at: u32) -> Option<u32> {
        if let Some(slot) = self.classes[class as usize].free.pop_front() {
            return Some(slot);
        }
        let mut victim = None;
        while let Some((next, id)) = self.classes[class as usize].candidates.pop() {
            let state = &self.tensors[id as usize];
            // What has been used or evicted since is a candidate under another number, or none.
            if state.slot == NONE || next != self.next_use(id) {
                continue;
            }
            if next > at && state.used + RECENT <= at {
                victim = Some(id);
                break;
            }
            self.aside.push((next, id));
        }
        if victim.is_none()
            && let Some(place) = self.aside.iter().position(|(next, _)| *next > at)
        {
            victim = Some(self.aside.swap_remove(place).1);
        }
        self.classes[class as usize]
            .candidates
            .extend(self.aside.drain(..));
        victim.map(|victim| self.evict(victim))
    }

    fn next_use(&self, id: TensorId) -> u32 {
        self.uses.place(id, self.tensors[id as usize].cursor)
    }

    fn evict(&mut self, id: TensorId) -> u32 {
        let state = &mut self.tensors[id as usize];
        let slot = core::mem::replace(&mut state.slot, NONE);
        let used = Waits::on(Queue::Compute, state.used);
        let free = if state.used == 0 && state.resident == slot {
            // It was not used yet: it need not be there before an iteration.
            state.resident = NONE;
            state.is_in_host = true;
            Waits::default()
        } else if state.is_in_host {
            used
        } else {
            self.plan.swap_out.push(SwapOut {
                tensor: id,
                waits: used,
            });
            state.is_in_host = true;
            state.written = self.plan.swap_out.len() as u32;
            Waits::on(Queue::SwapOut, state.written)
        };
        self.slots[slot as usize].free = free;
        slot
    }

    fn swap_in(&mut self, id: TensorId, slot: u32) {
        let state = &mut self.tensors[id as usize];
        // The same tensor may still be used where it was.
        let former =
            Waits::on(Queue::SwapOut, state.written).and(Waits::on(Queue::Compute, state.used));
        self.plan.swap_in.push(SwapIn {
            place: place(id, slot),
            waits: self.slots[slot as usize].free.and(former),
        });
        state.slot = slot;
        state.arrived = self.plan.swap_in.len() as u32;
    }

    /// The operator at `at` has used a tensor.
    fn record_use(&mut self, id: TensorId, at: u32) {
        let state = &mut self.tensors[id as usize];
        state.used = at + 1;
        state.cursor += 1;
        let slot = &mut self.slots[state.slot as usize];
        let class = &mut self.classes[slot.class as usize];
        if state.cursor == self.uses.end(id) && !self.graph.tensor(id).kind.is_kept() {
            slot.free = Waits::on(Queue::Compute, at + 1);
            class
                .free
                .push_back(core::mem::replace(&mut state.slot, NONE));
        } else {
            class
                .candidates
                .push((self.uses.place(id, state.cursor), id));
        }
    }

    /// Leaves memory as the next iteration expects it.
    fn end(&mut self) {
        let ids = 0..self.tensors.len() as TensorId;
        for id in ids.clone() {
            let State { slot, resident, .. } = self.tensors[id as usize];
            if self.graph.tensor(id).kind.is_kept() && slot != NONE && slot != resident {
                self.evict(id);
            }
        }
        for id in ids {
            let State { slot, resident, .. } = self.tensors[id as usize];
            if resident == NONE {
                continue;
            }
            if slot != resident {
                self.swap_in(id, resident);
            }
            self.plan.residents.push(place(id, resident));
        }
    }
}

/// A tensor in a slot: the plan's extents are the slots.
fn place(tensor: TensorId, first: u32) -> Place {
    Place {
        tensor,
        first,
        count: 1,
    }
}
