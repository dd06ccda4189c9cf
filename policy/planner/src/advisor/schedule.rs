//! Schedules: at random, and as SwapAdvisor's section 5.2 crosses and mutates them.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::rng::Rng;
use crate::graph::{OpId, Order};

/// The operators that can run next: all their predecessors have run.
struct Ready<'a> {
    order: &'a Order,
    /// Predecessors of each operator that have not run.
    missing: Vec<u32>,
    ops: Vec<OpId>,
    /// Where in `ops` each operator is.
    index: Vec<u32>,
}

/// The index of an operator that is not ready, or was taken.
const ABSENT: u32 = u32::MAX;

impl<'a> Ready<'a> {
    fn new(order: &'a Order) -> Self {
        let count = order.count();
        let missing = (0..count as u32).map(|op| order.predecessors(op).len() as u32);
        let mut new = Self {
            order,
            missing: missing.collect(),
            ops: Vec::new(),
            index: vec![ABSENT; count],
        };
        for op in 0..count as u32 {
            if new.missing[op as usize] == 0 {
                new.add(op);
            }
        }
        new
    }

    fn add(&mut self, op: OpId) {
        self.index[op as usize] = self.ops.len() as u32;
        self.ops.push(op);
    }

    /// Takes an operator out; what it was the last predecessor of becomes ready. Tells of each.
    fn run(&mut self, op: OpId, mut tell: impl FnMut(OpId)) {
        let at = core::mem::replace(&mut self.index[op as usize], ABSENT) as usize;
        self.ops.swap_remove(at);
        if let Some(moved) = self.ops.get(at) {
            self.index[*moved as usize] = at as u32;
        }
        for next in self.order.successors(op) {
            let missing = &mut self.missing[*next as usize];
            *missing -= 1;
            if *missing == 0 {
                self.add(*next);
                tell(*next);
            }
        }
    }
}

/// The place of each operator in a schedule.
pub(super) fn places(schedule: &[OpId]) -> Vec<u32> {
    let mut places = vec![0; schedule.len()];
    for (at, op) in (0..).zip(schedule) {
        places[*op as usize] = at;
    }
    places
}

/// Runs any operator that is ready, each with the same chance.
pub(super) fn random(order: &Order, rng: &mut Rng) -> Vec<OpId> {
    let mut ready = Ready::new(order);
    let mut schedule = Vec::with_capacity(order.count());
    while !ready.ops.is_empty() {
        let op = ready.ops[rng.below(ready.ops.len())];
        ready.run(op, |_| ());
        schedule.push(op);
    }
    schedule
}

/// Follows a schedule; with a chance of `mutation` for each place, runs a random operator that is ready.
pub(super) fn mutate(order: &Order, schedule: &[OpId], mutation: f64, rng: &mut Rng) -> Vec<OpId> {
    let places = places(schedule);
    let mut ready = Ready::new(order);
    let first = |op: &OpId| Reverse((places[*op as usize], *op));
    // An operator that ran out of order stays in the heap until it comes to its top.
    let mut heap: BinaryHeap<_> = ready.ops.iter().map(first).collect();
    let mut mutated = Vec::with_capacity(schedule.len());
    while !ready.ops.is_empty() {
        let op = if rng.chance(mutation) {
            Some(ready.ops[rng.below(ready.ops.len())])
        } else {
            let mut by_place = core::iter::from_fn(|| heap.pop().map(|Reverse((_, op))| op));
            by_place.find(|op| ready.index[*op as usize] != ABSENT)
        };
        let Some(op) = op else {
            break;
        };
        ready.run(op, |next| heap.push(first(&next)));
        mutated.push(op);
    }
    mutated
}

/// The first `at` operators of `front`, and the others in the order of `back`.
pub(super) fn cross(front: &[OpId], back: &[OpId], at: usize) -> Vec<OpId> {
    let mut is_taken = vec![false; front.len()];
    let mut child = Vec::with_capacity(front.len());
    child.extend_from_slice(&front[..at]);
    for op in &child {
        is_taken[*op as usize] = true;
    }
    child.extend(back.iter().filter(|op| !is_taken[**op as usize]));
    child
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SwapAdvisor's Fig. 4, which counts from 1: the crossover point is 3.
    #[test]
    fn figure_4() {
        // The second schedule and the first child are the figure's; it shows the first schedule in part.
        let (one, other) = ([0, 1, 3, 2, 4], [1, 2, 3, 0, 4]);
        assert_eq!(cross(&other, &one, 3), [1, 2, 3, 0, 4]);
        assert_eq!(cross(&one, &other, 3), [0, 1, 3, 2, 4]);
        assert_eq!(cross(&one, &other, 1), [0, 1, 2, 3, 4]);
    }
}
