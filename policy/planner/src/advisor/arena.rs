//! Plans over an arena of uniform chunks, as rtswap's agent has it: any free chunks hold a tensor, because CUDA's virtual
//! memory management maps them under its address. Neither size classes nor fragmentation cost memory.
//!
//! It differs from SwapAdvisor's planner in four ways. Swap-ins are planned some time ahead of their use, so that memory is
//! made for them while the GPU computes; that takes the place of the threshold of recent uses. A tensor is copied out as soon
//! as its last change before that has ended, while operators may still read it. Results are put into the chunks that became
//! free last. Copies from the host are put into the chunks that became free first.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

use super::Infeasible;
use super::uses::Uses;
use crate::chunks::FreeChunks;
use crate::graph::{Graph, OpId, TensorId};
use crate::plan::{Compute, Extent, Place, Plan, Queue, SwapIn, SwapOut, Waits};

/// How long ahead of their use swap-ins are planned, for each part of an iteration: parts of the same computing time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead(pub [u64; Self::PARTS]);

impl Lead {
    /// The number of parts.
    pub const PARTS: usize = 16;

    /// The same lead everywhere, in nanoseconds.
    pub fn of(ns: u64) -> Self {
        Self([ns; Self::PARTS])
    }
}

/// The rule by which a tensor is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// The tensor with the furthest next use (Belady).
    Furthest,
    /// The tensor that was used least recently.
    LeastRecent,
}

/// Makes plans for one graph over an arena; its memory is used again for each.
#[derive(Debug)]
pub struct ArenaPlanner<'a> {
    graph: &'a Graph,
    chunk: u64,
    eviction: Eviction,
    uses: Uses,
    tensors: Vec<State>,
    free: FreeChunks,
    candidates: BinaryHeap<Candidate>,
    /// Candidates that the operators in question need themselves, under [`Eviction::LeastRecent`].
    aside: Vec<Candidate>,
    /// When each operator of the schedule begins if it never waits for a copy, in nanoseconds.
    starts: Vec<u64>,
    plan: Plan,
}

/// A tensor that may be evicted; the greatest first.
type Candidate = (u32, TensorId);

#[derive(Clone, Copy, Debug)]
struct State {
    /// Where it is, or was last.
    place: Place,
    is_in: bool,
    is_resident: bool,
    /// Where it is before an iteration, in the plan's extents, if it is resident.
    first: u32,
    /// Its next use, as [`Uses`] counts them.
    cursor: u32,
    /// One more than the place of the last operator that used it.
    used: u32,
    /// The same of the last operator that made or changed it.
    changed: u32,
    /// The number of swap-ins after which it is there.
    arrived: u32,
    /// The number of swap-outs after which its value is in host memory.
    written: u32,
    is_in_host: bool,
}

impl<'a> ArenaPlanner<'a> {
    /// A planner for `graph` over chunks of `chunk` bytes, at least 1.
    pub fn new(graph: &'a Graph, chunk: u64) -> Self {
        Self::with_eviction(graph, chunk, Eviction::Furthest)
    }

    pub(super) fn with_eviction(graph: &'a Graph, chunk: u64, eviction: Eviction) -> Self {
        Self {
            graph,
            chunk: chunk.max(1),
            eviction,
            uses: Uses::new(graph),
            tensors: Vec::new(),
            free: FreeChunks::new(chunk),
            candidates: BinaryHeap::new(),
            aside: Vec::new(),
            starts: Vec::new(),
            plan: Plan::default(),
        }
    }

    /// The plan for a schedule, which must be one of the graph's, in `budget` bytes. Swap-ins are planned `lead` ahead of
    /// their use, where memory can be made for them.
    pub fn plan(
        &mut self,
        schedule: &[OpId],
        budget: u64,
        lead: &Lead,
    ) -> Result<&Plan, Infeasible> {
        self.uses.index(self.graph, schedule);
        self.starts.clear();
        self.starts.extend(schedule.iter().scan(0, |now, op| {
            let start = *now;
            *now += self.graph.operator(*op).time_ns;
            Some(start)
        }));
        self.tensors.clear();
        self.begin(budget);
        self.pass(schedule, lead)?;
        // What the first pass leaves in GPU memory is there before an iteration.
        self.begin(budget);
        self.pass(schedule, lead)?;
        self.end(schedule)?;
        Ok(&self.plan)
    }

    /// Begins a pass: kept tensors that are in GPU memory stay there.
    fn begin(&mut self, budget: u64) {
        self.candidates.clear();
        self.aside.clear();
        self.plan.clear();
        self.plan.budget = budget;
        self.plan.chunk = self.chunk;
        let mut next_chunk = 0;
        for (id, tensor) in (0..).zip(self.graph.tensors()) {
            let at = id as usize;
            let is_in = self.tensors.get(at).is_some_and(|state| state.is_in);
            let is_resident = is_in && tensor.kind.is_kept();
            let first = self.plan.extents.len() as u32;
            let count = u32::from(is_resident);
            let state = State {
                place: Place {
                    tensor: id,
                    first,
                    count,
                },
                is_in: is_resident,
                is_resident,
                first,
                cursor: self.uses.first(id),
                used: 0,
                changed: 0,
                arrived: 0,
                written: 0,
                // The iteration before this one changed it, and left it in GPU memory only.
                is_in_host: tensor.kind.is_given() && !(is_resident && self.uses.is_changed(id)),
            };
            match self.tensors.get_mut(at) {
                Some(known) => *known = state,
                None => self.tensors.push(state),
            }
            if is_resident {
                let chunks = tensor.bytes.div_ceil(self.chunk);
                self.plan.extents.push(Extent {
                    offset: next_chunk * self.chunk,
                    bytes: chunks * self.chunk,
                });
                next_chunk += chunks;
                self.candidates.push((self.rank(id), id));
            }
        }
        self.free.reset(budget, next_chunk);
    }

    fn pass(&mut self, schedule: &[OpId], lead: &Lead) -> Result<(), Infeasible> {
        let graph = self.graph;
        let mut ahead = 0;
        let part_ns = graph.compute_ns() / Lead::PARTS as u64 + 1;
        for (at, op) in (0..).zip(schedule) {
            let now = self.starts[at as usize];
            let lead_ns = lead.0[(now / part_ns) as usize];
            ahead = self.look_ahead(schedule, at, ahead, now.saturating_add(lead_ns));
            // What operators further ahead need, this one may evict.
            self.candidates.extend(self.aside.drain(..));
            let infeasible = Infeasible { op: *op };
            let operator = graph.operator(*op);
            let mut waits = Waits::default();
            for id in operator.inputs.iter().chain(&operator.updates).copied() {
                if !self.tensors[id as usize].is_in && !self.swap_in(id, at) {
                    return Err(infeasible);
                }
                waits = waits.and(Waits::on(Queue::SwapIn, self.tensors[id as usize].arrived));
            }
            let outputs = self.plan.outputs.len() as u32;
            for id in operator.outputs.iter().copied() {
                let (place, free) = self.take(id, at, false).ok_or(infeasible)?;
                let state = &mut self.tensors[id as usize];
                (state.is_in, state.place) = (true, place);
                self.plan.outputs.push(place);
                waits = waits.and(free);
            }
            waits.0[Queue::Compute as usize] = 0;
            self.plan.compute.push(Compute {
                op: *op,
                waits,
                outputs,
            });
            for id in operator.updates.iter().chain(&operator.outputs) {
                let state = &mut self.tensors[*id as usize];
                state.is_in_host = false;
                state.changed = at + 1;
            }
            self.candidates.extend(self.aside.drain(..));
            for id in operator.tensors() {
                self.record_use(id, at);
            }
        }
        Ok(())
    }

    /// Plans swap-ins for the operators behind `at` that begin until `until`, as far as memory allows. `from` and what is
    /// returned are the first operator for which none is planned yet.
    fn look_ahead(&mut self, schedule: &[OpId], at: u32, from: u32, until: u64) -> u32 {
        let graph = self.graph;
        let mut ahead = from.max(at);
        while let Some(op) = schedule.get(ahead as usize)
            && self.starts[ahead as usize] <= until
        {
            let operator = graph.operator(*op);
            for id in operator.inputs.iter().chain(&operator.updates).copied() {
                let state = &self.tensors[id as usize];
                // What is neither in GPU nor in host memory is made before that operator.
                if !state.is_in && state.is_in_host && !self.swap_in(id, ahead) {
                    return ahead;
                }
            }
            ahead += 1;
        }
        ahead
    }

    fn next_use(&self, id: TensorId) -> u32 {
        self.uses.place(id, self.tensors[id as usize].cursor)
    }

    /// The one with the greatest rank is evicted first.
    fn rank(&self, id: TensorId) -> u32 {
        match self.eviction {
            Eviction::Furthest => self.next_use(id),
            Eviction::LeastRecent => u32::MAX - self.tensors[id as usize].used,
        }
    }

    /// Takes chunks for a tensor. Tensors that are used up to the operator at `limit` are not evicted for it.
    fn take(&mut self, id: TensorId, limit: u32, is_copy: bool) -> Option<(Place, Waits)> {
        let missing = self.graph.tensor(id).bytes.div_ceil(self.chunk);
        while self.free.count() < missing {
            let victim = self.victim(limit)?;
            self.evict(victim);
        }
        let first = self.plan.extents.len() as u32;
        let waits = self.free.take(missing, is_copy, &mut self.plan.extents)?;
        let count = self.plan.extents.len() as u32 - first;
        let place = Place {
            tensor: id,
            first,
            count,
        };
        Some((place, waits))
    }

    /// The tensor of the greatest rank that is used behind `limit` only.
    fn victim(&mut self, limit: u32) -> Option<TensorId> {
        let mut victim = None;
        while let Some((rank, id)) = self.candidates.pop() {
            // What has been used or evicted since is a candidate of another rank, or none.
            if !self.tensors[id as usize].is_in || rank != self.rank(id) {
                continue;
            }
            if self.next_use(id) > limit {
                victim = Some(id);
                break;
            }
            if self.eviction == Eviction::Furthest {
                // All others are used even earlier.
                self.candidates.push((rank, id));
                break;
            }
            self.aside.push((rank, id));
        }
        victim
    }

    fn evict(&mut self, id: TensorId) {
        let state = &mut self.tensors[id as usize];
        state.is_in = false;
        let arrived = Waits::on(Queue::SwapIn, state.arrived);
        let mut waits = Waits::on(Queue::Compute, state.used).and(arrived);
        if state.used == 0 && state.is_resident {
            // It was not used yet: it need not be there before an iteration.
            state.is_resident = false;
            state.is_in_host = true;
        } else if !state.is_in_host {
            self.plan.swap_out.push(SwapOut {
                tensor: id,
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
            self.free.give(self.plan.extents[at as usize], waits);
        }
    }

    /// Plans a swap-in for the operator at `limit`; not where no memory can be made for it.
    fn swap_in(&mut self, id: TensorId, limit: u32) -> bool {
        let Some((place, free)) = self.take(id, limit, true) else {
            return false;
        };
        let state = &mut self.tensors[id as usize];
        // The same tensor may still be used where it was.
        let written = Waits::on(Queue::SwapOut, state.written);
        let waits = free.and(written).and(Waits::on(Queue::Compute, state.used));
        self.plan.swap_in.push(SwapIn { place, waits });
        (state.is_in, state.place) = (true, place);
        state.arrived = self.plan.swap_in.len() as u32;
        self.candidates.push((self.rank(id), id));
        true
    }

    /// The operator at `at` has used a tensor.
    fn record_use(&mut self, id: TensorId, at: u32) {
        let state = &mut self.tensors[id as usize];
        state.used = at + 1;
        state.cursor += 1;
        if state.cursor == self.uses.end(id) && !self.graph.tensor(id).kind.is_kept() {
            state.is_in = false;
            let place = state.place;
            self.release(place, Waits::on(Queue::Compute, at + 1));
        } else {
            self.candidates.push((self.rank(id), id));
        }
    }

    /// Leaves memory as the next iteration expects it.
    fn end(&mut self, schedule: &[OpId]) -> Result<(), Infeasible> {
        let ids = 0..self.tensors.len() as TensorId;
        for id in ids.clone() {
            let state = &self.tensors[id as usize];
            if self.graph.tensor(id).kind.is_kept() && state.is_in && !state.is_resident {
                self.evict(id);
            }
        }
        for id in ids {
            let State {
                is_in,
                is_resident,
                first,
                ..
            } = self.tensors[id as usize];
            if !is_resident {
                continue;
            }
            self.plan.residents.push(Place {
                tensor: id,
                first,
                count: 1,
            });
            // Nothing is evicted any more: the residents were all there before the iteration.
            if !is_in && !self.swap_in(id, u32::MAX) {
                let op = schedule.last().copied().unwrap_or_default();
                return Err(Infeasible { op });
            }
        }
        Ok(())
    }
}
