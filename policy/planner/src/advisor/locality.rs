//! Schedules that run together what uses the same tensors, in as little memory as they can.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::uses::few;
use crate::graph::{Graph, OpId, Order, Starts, TensorId};

/// What an operator costs where several are ready; the one that costs least runs first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    /// For each byte that it reads and that is not in memory.
    pub load: f64,
    /// For each byte that it makes.
    pub make: f64,
    /// Given back for each byte that nobody uses after it.
    pub free: f64,
    /// For each place that it stands behind in the schedule that is followed, in bytes.
    pub order: f64,
    /// Given back for each operator that ran before it became ready, in bytes: what became ready last runs first.
    pub fresh: f64,
}

/// Makes such schedules for one graph.
#[derive(Debug)]
pub(super) struct Locality<'a> {
    graph: &'a Graph,
    order: &'a Order,
    users: &'a Starts,
}

/// How far a schedule is.
struct Progress<'a> {
    weights: Weights,
    places: &'a [u32],
    is_ready: Vec<bool>,
    /// How many operators ran before each became ready.
    since: Vec<u32>,
    /// How often the cost of an operator changed: only its last entry in `heap` counts.
    version: Vec<u32>,
    /// Cost, place, operator, version.
    heap: BinaryHeap<Reverse<(i64, u32, OpId, u32)>>,
    /// Uses of each tensor to come.
    left: Vec<u32>,
    is_in: Vec<bool>,
}

impl<'a> Locality<'a> {
    pub(super) fn new(graph: &'a Graph, order: &'a Order, users: &'a Starts) -> Self {
        Self {
            graph,
            order,
            users,
        }
    }

    /// A schedule by these weights in a memory of `budget` bytes that forgets what was used least recently. Operators that
    /// cost the same run in the order of `places`.
    pub(super) fn schedule(&self, places: &[u32], budget: u64, weights: Weights) -> Vec<OpId> {
        let operators = self.graph.operators();
        let tensors = self.graph.tensors();
        let ids = 0..tensors.len() as TensorId;
        let mut progress = Progress {
            weights,
            places,
            is_ready: vec![false; operators.len()],
            since: vec![0; operators.len()],
            version: vec![0; operators.len()],
            heap: BinaryHeap::new(),
            left: ids
                .map(|tensor| self.users.of(tensor).len() as u32)
                .collect(),
            is_in: vec![false; tensors.len()],
        };
        let ids = 0..operators.len() as OpId;
        let mut missing: Vec<u32> = ids
            .clone()
            .map(|op| self.order.predecessors(op).len() as u32)
            .collect();
        for op in ids.filter(|op| missing[*op as usize] == 0) {
            progress.is_ready[op as usize] = true;
            self.enter(&mut progress, op);
        }
        let mut used_at = vec![0_u32; tensors.len()];
        let mut recent: VecDeque<(u32, TensorId)> = VecDeque::new();
        let mut bytes_in = 0_u64;
        let mut schedule = Vec::with_capacity(operators.len());
        let mut changed = Vec::new();
        let mut entered: Vec<OpId> = Vec::new();
        while let Some(Reverse((_, _, op, version))) = progress.heap.pop() {
            if !progress.is_ready[op as usize] || progress.version[op as usize] != version {
                continue;
            }
            progress.is_ready[op as usize] = false;
            schedule.push(op);
            let now = schedule.len() as u32;
            for id in operators[op as usize].tensors() {
                let (at, tensor) = (id as usize, self.graph.tensor(id));
                progress.left[at] -= 1;
                used_at[at] = now;
                if !progress.is_in[at] {
                    progress.is_in[at] = true;
                    bytes_in += tensor.bytes;
                    changed.push(id);
                }
                match progress.left[at] {
                    0 if !tensor.kind.is_kept() => {
                        progress.is_in[at] = false;
                        bytes_in -= tensor.bytes;
                        continue;
                    }
                    1 => changed.push(id),
                    _ => {}
                }
                recent.push_back((now, id));
            }
            while bytes_in > budget
                && let Some((used, id)) = recent.pop_front()
            {
                let at = id as usize;
                if progress.is_in[at] && used_at[at] == used && used < now {
                    progress.is_in[at] = false;
                    bytes_in -= self.graph.tensor(id).bytes;
                    changed.push(id);
                }
            }
            for id in changed.drain(..) {
                let users = few(self.users.of(id)).iter();
                entered.extend(users.filter(|user| progress.is_ready[**user as usize]));
            }
            entered.sort_unstable();
            entered.dedup();
            for user in entered.drain(..) {
                self.enter(&mut progress, user);
            }
            for next in self.order.successors(op).iter().copied() {
                missing[next as usize] -= 1;
                if missing[next as usize] == 0 {
                    progress.is_ready[next as usize] = true;
                    progress.since[next as usize] = now;
                    self.enter(&mut progress, next);
                }
            }
        }
        schedule
    }

    /// Enters an operator that is ready into the heap with what it costs now.
    fn enter(&self, progress: &mut Progress<'_>, op: OpId) {
        let Weights {
            load,
            make,
            free,
            order,
            fresh,
        } = progress.weights;
        let operator = self.graph.operator(op);
        let bytes = |id: TensorId| self.graph.tensor(id).bytes as f64;
        let is_out = |id: &&TensorId| !progress.is_in[**id as usize];
        let read = operator
            .inputs
            .iter()
            .chain(&operator.updates)
            .filter(is_out);
        let read: f64 = read.map(|id| bytes(*id)).sum();
        let made: f64 = operator.outputs.iter().map(|id| bytes(*id)).sum();
        let ends = |id: &TensorId| {
            progress.left[*id as usize] == 1 && !self.graph.tensor(*id).kind.is_kept()
        };
        let freed: f64 = operator.tensors().filter(ends).map(bytes).sum();
        let place = progress.places[op as usize];
        let since = progress.since[op as usize];
        let bytes = load * read + make * made - free * freed;
        let cost = bytes + order * f64::from(place) - fresh * f64::from(since);
        let version = &mut progress.version[op as usize];
        *version += 1;
        progress
            .heap
            .push(Reverse((cost as i64, place, op, *version)));
    }
}
