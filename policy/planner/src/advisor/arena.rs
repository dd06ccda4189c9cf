//! Plans over an arena of uniform chunks, as rtswap's agent has: any free chunks hold a tensor, because CUDA's virtual memory
//! management maps them under its address. Nothing is lost to size classes, and nothing to fragmentation.
//!
//! Beside SwapAdvisor's Belady it has three things: swap-ins are planned some time ahead of their use, so that memory is
//! made for them while others compute; a tensor is copied out as soon as it was changed last, while it may still be read; and
//! what an operator makes goes to the chunks that came free last, what is copied in to those that came free first.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::planner::Infeasible;
use crate::graph::{Graph, OpId, TensorId};
use crate::plan::{Compute, Extent, Place, Plan, Queue, SwapIn, SwapOut, Waits};

/// What a planner over an arena may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// Swap-ins are planned so many nanoseconds of computing ahead of their use, where memory can be made for them.
    pub ns: u64,
}

/// Makes plans for one graph over an arena; its memory is used again for each.
#[derive(Debug)]
pub struct ArenaPlanner<'a> {
    graph: &'a Graph,
    chunk: u64,
    /// The chunks of each tensor.
    chunks: Vec<u64>,
    use_starts: Vec<u32>,
    uses: Vec<u32>,
    is_changed: Vec<bool>,
    tensors: Vec<State>,
    free: VecDeque<Free>,
    free_chunks: u64,
    candidates: BinaryHeap<Candidate>,
    aside: Vec<Candidate>,
    /// Where in the plan's extents each resident tensor is in the beginning.
    first_of: Vec<u32>,
    /// When each operator of the schedule would begin with infinite memory.
    starts: Vec<u64>,
    plan: Plan,
}

/// A tensor that may be evicted: the furthest next use first.
type Candidate = (u32, TensorId);

/// Free chunks in a row.
#[derive(Clone, Copy, Debug)]
struct Free {
    extent: Extent,
    /// What must have ended before something is put there.
    waits: Waits,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// Where it is, or was last.
    place: Place,
    is_in: bool,
    is_resident: bool,
    /// Its next use: a place in `uses`.
    cursor: u32,
    /// One more than the place of the last operator that used it.
    used: u32,
    /// The same of the last that made or changed it.
    changed: u32,
    /// For so many swap-ins the next operator waits.
    arrived: u32,
    /// For so many swap-outs a swap-in waits: since then its value is in host memory.
    written: u32,
    is_in_host: bool,
}

impl<'a> ArenaPlanner<'a> {
    /// A planner for `graph` over chunks of `chunk` bytes.
    pub fn new(graph: &'a Graph, chunk: u64) -> Self {
        let mut use_starts = vec![0_u32; graph.tensors().len() + 1];
        let mut is_changed = vec![false; graph.tensors().len()];
        for operator in graph.operators() {
            for tensor in operator.tensors() {
                use_starts[tensor as usize + 1] += 1;
            }
            for tensor in &operator.updates {
                is_changed[*tensor as usize] = true;
            }
        }
        for tensor in 0..graph.tensors().len() {
            use_starts[tensor + 1] += use_starts[tensor];
        }
        Self {
            graph,
            chunk,
            chunks: graph.tensors().iter().map(|tensor| tensor.bytes.div_ceil(chunk)).collect(),
            uses: vec![0; use_starts[graph.tensors().len()] as usize],
            use_starts,
            is_changed,
            tensors: Vec::new(),
            free: VecDeque::new(),
            free_chunks: 0,
            candidates: BinaryHeap::new(),
            aside: Vec::new(),
            first_of: vec![0; graph.tensors().len()],
            starts: Vec::new(),
            plan: Plan::default(),
        }
    }

    /// The plan for a schedule, which must be one of the graph's, in `budget` bytes.
    pub fn plan(&mut self, schedule: &[OpId], budget: u64, lead: Lead) -> Result<&Plan, Infeasible> {
        self.read(schedule);
        self.begin(budget, false);
        self.pass(schedule, lead)?;
        // What the first pass leaves there is there when an iteration begins.
        self.begin(budget, true);
        self.pass(schedule, lead)?;
        self.end(schedule)?;
        Ok(&self.plan)
    }

    fn read(&mut self, schedule: &[OpId]) {
        let mut next = self.use_starts.clone();
        self.starts.clear();
        let mut now = 0;
        for (at, op) in (0..).zip(schedule) {
            let operator = self.graph.operator(*op);
            self.starts.push(now);
            now += operator.time_ns;
            for tensor in operator.tensors() {
                let place = &mut next[tensor as usize];
                self.uses[*place as usize] = at;
                *place += 1;
            }
        }
    }

    fn begin(&mut self, budget: u64, with_residents: bool) {
        if !with_residents {
            self.tensors.clear();
        }
        let mut former = core::mem::take(&mut self.plan);
        former.residents.clear();
        self.candidates.clear();
        let mut next_chunk = 0;
        let mut extents = Vec::new();
        for (id, tensor) in (0..).zip(self.graph.tensors()) {
            let at = id as usize;
            let is_in = self.tensors.get(at).is_some_and(|state| state.is_in);
            let is_resident = is_in && tensor.kind.is_kept();
            let mut place = Place { tensor: id, first: 0, count: 0 };
            if is_resident {
                (place.first, place.count) = (extents.len() as u32, 1);
                self.first_of[at] = place.first;
                extents.push(Extent {
                    offset: next_chunk * self.chunk,
                    bytes: self.chunks[at] * self.chunk,
                });
                next_chunk += self.chunks[at];
                let first = self.uses[self.use_starts[at] as usize];
                self.candidates.push((first, id));
            }
            let state = State {
                place,
                is_in: is_resident,
                is_resident,
                cursor: self.use_starts[at],
                used: 0,
                changed: 0,
                arrived: 0,
                written: 0,
                // The iteration before this one changed it, and left it in GPU memory only.
                is_in_host: tensor.kind.is_given() && !(is_resident && self.is_changed[at]),
            };
            match self.tensors.get_mut(at) {
                Some(known) => *known = state,
                None => self.tensors.push(state),
            }
        }
        former.clear();
        former.budget = budget;
        former.chunk = self.chunk;
        former.extents = extents;
        self.plan = former;
        self.free.clear();
        self.free_chunks = budget / self.chunk - next_chunk;
        if self.free_chunks > 0 {
            self.free.push_back(Free {
                extent: Extent {
                    offset: next_chunk * self.chunk,
                    bytes: self.free_chunks * self.chunk,
                },
                waits: Waits::default(),
            });
        }
    }

    fn pass(&mut self, schedule: &[OpId], lead: Lead) -> Result<(), Infeasible> {
        let graph = self.graph;
        let count = schedule.len() as u32;
        let mut ahead = 0;
        for (at, op) in (0..).zip(schedule) {
            ahead = self.look_ahead(schedule, at, ahead, lead);
            let infeasible = Infeasible { op: *op, class: 0 };
            let operator = graph.operator(*op);
            let mut waits = Waits::default();
            for tensor in operator.inputs.iter().chain(&operator.updates) {
                if !self.tensors[*tensor as usize].is_in && !self.swap_in(*tensor, at, at) {
                    return Err(infeasible);
                }
                waits = waits.and(Waits::on(Queue::SwapIn, self.tensors[*tensor as usize].arrived));
            }
            let outputs = self.plan.outputs.len() as u32;
            for tensor in &operator.outputs {
                let (place, free) = self.take(*tensor, at, at, false).ok_or(infeasible)?;
                let state = &mut self.tensors[*tensor as usize];
                (state.is_in, state.place) = (true, place);
                self.plan.outputs.push(place);
                waits = waits.and(free);
            }
            waits.0[Queue::Compute as usize] = 0;
            self.plan.compute.push(Compute { op: *op, waits, outputs });
            for tensor in operator.updates.iter().chain(&operator.outputs) {
                let state = &mut self.tensors[*tensor as usize];
                state.is_in_host = false;
                state.changed = at + 1;
            }
            for tensor in operator.tensors() {
                self.used(tensor, at, count);
            }
        }
        Ok(())
    }

    /// Plans swap-ins for the operators behind `at`, as far ahead as time and memory allow; where it stopped.
    fn look_ahead(&mut self, schedule: &[OpId], at: u32, from: u32, lead: Lead) -> u32 {
        let graph = self.graph;
        let mut ahead = from.max(at);
        while let Some(op) = schedule.get(ahead as usize) {
            if self.starts[ahead as usize] > self.starts[at as usize] + lead.ns {
                break;
            }
            let operator = graph.operator(*op);
            for tensor in operator.inputs.iter().chain(&operator.updates) {
                let state = &self.tensors[*tensor as usize];
                // What is neither here nor in host memory is made before that operator.
                if !state.is_in && state.is_in_host && !self.swap_in(*tensor, at, ahead) {
                    return ahead;
                }
            }
            ahead += 1;
        }
        ahead
    }

    fn next_use(&self, tensor: TensorId) -> u32 {
        let state = &self.tensors[tensor as usize];
        let [first, end] = [0, 1].map(|more| self.use_starts[tensor as usize + more]);
        if state.cursor < end {
            self.uses[state.cursor as usize]
        } else {
            self.graph.operators().len() as u32 + self.uses[first as usize]
        }
    }

    /// Chunks for a tensor, and what must have ended before it is put there. Tensors that are used behind `limit` are evicted
    /// for it. Copies take what came free first, operators what came free last without a copy.
    fn take(&mut self, tensor: TensorId, at: u32, limit: u32, is_copy: bool) -> Option<(Place, Waits)> {
        let mut missing = self.chunks[tensor as usize];
        while self.free_chunks < missing {
            let victim = self.victim(at, limit)?;
            self.evict(victim);
        }
        self.free_chunks -= missing;
        let first = self.plan.extents.len() as u32;
        let mut waits = Waits::default();
        let mut place = self.free.len();
        while missing > 0 {
            let is_last = !is_copy && place > 0;
            place = if is_last { place - 1 } else { 0 };
            let free = self.free.get_mut(place)?;
            if is_last && free.waits.of(Queue::SwapOut) > 0 {
                continue;
            }
            waits = waits.and(free.waits);
            let bytes = free.extent.bytes.min(missing * self.chunk);
            self.plan.extents.push(Extent { offset: free.extent.offset, bytes });
            missing -= bytes / self.chunk;
            free.extent.offset += bytes;
            free.extent.bytes -= bytes;
            if free.extent.bytes == 0 {
                self.free.remove(place);
            }
        }
        let count = self.plan.extents.len() as u32 - first;
        Some((Place { tensor, first, count }, waits))
    }

    /// The tensor that is used furthest in the future, behind `limit`.
    fn victim(&mut self, at: u32, limit: u32) -> Option<TensorId> {
        let _ = at;
        while let Some(candidate) = self.candidates.pop() {
            let (next, tensor) = candidate;
            // What has been used or evicted since is a candidate under another number, or none.
            if !self.tensors[tensor as usize].is_in || next != self.next_use(tensor) {
                continue;
            }
            if next <= limit {
                self.candidates.push(candidate);
                return None;
            }
            return Some(tensor);
        }
        None
    }

    fn evict(&mut self, tensor: TensorId) {
        let state = &mut self.tensors[tensor as usize];
        state.is_in = false;
        let arrived = Waits::on(Queue::SwapIn, state.arrived);
        let mut waits = Waits::on(Queue::Compute, state.used).and(arrived);
        if state.used == 0 && state.is_resident {
            // It was not used yet: it need not be there when an iteration begins.
            state.is_resident = false;
            state.is_in_host = true;
        } else if !state.is_in_host {
            self.plan.swap_out.push(SwapOut {
                tensor,
                // Others may still read it meanwhile.
                waits: Waits::on(Queue::Compute, state.changed).and(arrived),
            });
            state.is_in_host = true;
            state.written = self.plan.swap_out.len() as u32;
            waits = waits.and(Waits::on(Queue::SwapOut, state.written));
        }
        let place = state.place;
        self.release(place, waits);
    }

    fn release(&mut self, place: Place, waits: Waits) {
        for at in place.first..place.first + place.count {
            let extent = self.plan.extents[at as usize];
            self.free_chunks += extent.bytes / self.chunk;
            self.free.push_back(Free { extent, waits });
        }
    }

    /// Plans a swap-in; not where no memory can be made for it.
    fn swap_in(&mut self, tensor: TensorId, at: u32, limit: u32) -> bool {
        let Some((place, free)) = self.take(tensor, at, limit, true) else {
            return false;
        };
        let state = &mut self.tensors[tensor as usize];
        let former = Waits::on(Queue::SwapOut, state.written).and(Waits::on(Queue::Compute, state.used));
        self.plan.swap_in.push(SwapIn {
            place,
            waits: free.and(former),
        });
        (state.is_in, state.place) = (true, place);
        state.arrived = self.plan.swap_in.len() as u32;
        let next = self.next_use(tensor);
        self.candidates.push((next, tensor));
        true
    }

    /// The operator at `at` has used a tensor.
    fn used(&mut self, tensor: TensorId, at: u32, _count: u32) {
        let state = &mut self.tensors[tensor as usize];
        state.used = at + 1;
        state.cursor += 1;
        let is_last = state.cursor == self.use_starts[tensor as usize + 1];
        if is_last && !self.graph.tensor(tensor).kind.is_kept() {
            state.is_in = false;
            let place = state.place;
            self.release(place, Waits::on(Queue::Compute, at + 1));
            return;
        }
        let next = self.next_use(tensor);
        self.candidates.push((next, tensor));
    }

    /// Leaves memory as the next iteration expects it.
    fn end(&mut self, schedule: &[OpId]) -> Result<(), Infeasible> {
        let count = schedule.len() as u32;
        for id in 0..self.tensors.len() {
            let state = self.tensors[id];
            if self.graph.tensors()[id].kind.is_kept() && state.is_in && !state.is_resident {
                self.evict(id as TensorId);
            }
        }
        for id in 0..self.tensors.len() as TensorId {
            let state = self.tensors[id as usize];
            if !state.is_resident {
                continue;
            }
            self.plan.residents.push(Place {
                tensor: id,
                first: self.first_of[id as usize],
                count: 1,
            });
            // Behind the last operator nothing is evicted: what is resident fits.
            if !state.is_in && !self.swap_in(id, count, u32::MAX) {
                let op = schedule[schedule.len() - 1];
                return Err(Infeasible { op, class: 0 });
            }
        }
        Ok(())
    }
}
