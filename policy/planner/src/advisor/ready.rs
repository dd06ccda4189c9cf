//! The operators that can run next.

use alloc::vec::Vec;

use crate::graph::{OpId, Order};

/// The operators of which all predecessors have run, and which have not.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    order: &'a Order,
    missing: Vec<u32>,
    ready: Vec<OpId>,
}

impl<'a> Ready<'a> {
    pub(super) fn new(order: &'a Order, count: usize) -> Self {
        let missing: Vec<u32> = (0..count as u32).map(|op| order.predecessors(op).len() as u32).collect();
        let ready = (0..count as u32).filter(|op| missing[*op as usize] == 0).collect();
        Self { order, missing, ready }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn take_at(&mut self, at: usize) -> OpId {
        self.ready.swap_remove(at)
    }

    /// The one that comes first in a schedule, of which `place` has each operator's place.
    pub(super) fn take_first(&mut self, place: &[u32]) -> OpId {
        let all = self.ready.iter().enumerate();
        let first = all.min_by_key(|(_, op)| place[**op as usize]).map_or(0, |(at, _)| at);
        self.ready.swap_remove(first)
    }

    /// An operator that was taken has run.
    pub(super) fn done(&mut self, op: OpId) {
        for next in self.order.successors(op) {
            let missing = &mut self.missing[*next as usize];
            *missing -= 1;
            if *missing == 0 {
                self.ready.push(*next);
            }
        }
    }
}
