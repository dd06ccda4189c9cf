//! Schedules that run early what frees memory.

use alloc::vec;
use alloc::vec::Vec;

use super::uses::few;
use crate::graph::{Graph, OpId, Order, Starts, TensorId};

/// Makes such schedules for one graph.
#[derive(Debug)]
pub(super) struct Early<'a> {
    graph: &'a Graph,
    order: &'a Order,
    users: &'a Starts,
}

/// How far a schedule is.
struct Progress {
    schedule: Vec<OpId>,
    has_run: Vec<bool>,
    /// Predecessors of each operator that have not run.
    missing: Vec<u32>,
    /// Uses of each tensor to come.
    left: Vec<u32>,
    /// Operators that ran: other operators may now be able to free memory.
    fresh: Vec<OpId>,
    /// How often each tensor is used by the operators in question; all 0 between two questions.
    uses: Vec<u32>,
}

impl<'a> Early<'a> {
    pub(super) fn new(graph: &'a Graph, order: &'a Order, users: &'a Starts) -> Self {
        Self {
            graph,
            order,
            users,
        }
    }

    /// Follows `schedule`, but runs as soon as it can each group of at most `limit` operators that leaves less memory in use
    /// than before, or as much where it ends in an update of what is kept.
    pub(super) fn schedule(&self, schedule: &[OpId], places: &[u32], limit: usize) -> Vec<OpId> {
        let tensors = self.graph.tensors().len();
        let mut progress = Progress {
            schedule: Vec::with_capacity(schedule.len()),
            has_run: vec![false; schedule.len()],
            missing: (0..schedule.len() as OpId)
                .map(|op| self.order.predecessors(op).len() as u32)
                .collect(),
            left: (0..tensors as TensorId)
                .map(|id| self.users.of(id).len() as u32)
                .collect(),
            fresh: Vec::new(),
            uses: vec![0; tensors],
        };
        let mut group = Vec::new();
        for op in schedule.iter().copied() {
            if progress.has_run[op as usize] {
                continue;
            }
            self.run(&mut progress, op);
            while let Some(op) = progress.fresh.pop() {
                let operator = self.graph.operator(op);
                for id in operator.outputs.iter().chain(&operator.updates).copied() {
                    for user in few(self.users.of(id)).iter().copied() {
                        if !progress.has_run[user as usize]
                            && self.collect(&progress, user, limit, &mut group)
                            && self.frees(&mut progress, &group, id)
                        {
                            group.sort_unstable_by_key(|op| places[*op as usize]);
                            for op in group.iter().copied() {
                                self.run(&mut progress, op);
                            }
                        }
                    }
                }
            }
        }
        progress.schedule
    }

    fn run(&self, progress: &mut Progress, op: OpId) {
        progress.has_run[op as usize] = true;
        progress.schedule.push(op);
        progress.fresh.push(op);
        for next in self.order.successors(op) {
            progress.missing[*next as usize] -= 1;
        }
        for id in self.graph.operator(op).tensors() {
            progress.left[id as usize] -= 1;
        }
    }

    /// Collects what must run for `op` to run, itself included; not where that is more than `limit`.
    fn collect(&self, progress: &Progress, op: OpId, limit: usize, group: &mut Vec<OpId>) -> bool {
        group.clear();
        group.push(op);
        let mut at = 0;
        while at < group.len() {
            if progress.missing[group[at] as usize] as usize >= limit {
                return false;
            }
            for before in self.order.predecessors(group[at]).iter().copied() {
                if !progress.has_run[before as usize] && !group.contains(&before) {
                    group.push(before);
                }
            }
            if group.len() > limit {
                return false;
            }
            at += 1;
        }
        true
    }

    /// Whether less memory is in use once a group has run; as much suffices where it only changes what is kept.
    fn frees(&self, progress: &mut Progress, group: &[OpId], through: TensorId) -> bool {
        let (mut made, mut freed) = (0, 0);
        for op in group {
            let operator = self.graph.operator(*op);
            made += operator
                .outputs
                .iter()
                .map(|id| self.graph.tensor(*id).bytes)
                .sum::<u64>();
            for id in operator.tensors() {
                progress.uses[id as usize] += 1;
            }
        }
        for op in group {
            for id in self.graph.operator(*op).tensors() {
                let uses = core::mem::take(&mut progress.uses[id as usize]);
                let tensor = self.graph.tensor(id);
                if uses > 0 && uses == progress.left[id as usize] && !tensor.kind.is_kept() {
                    freed += tensor.bytes;
                }
            }
        }
        let is_update = made == 0 && self.graph.tensor(through).kind.is_kept();
        freed > made || freed == made && is_update
    }
}
