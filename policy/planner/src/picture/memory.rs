//! The bytes of the budget that a run has in use.

use alloc::vec;
use alloc::vec::Vec;

use super::Span;
use crate::graph::{Graph, TensorId};
use crate::plan::{Place, Plan, Queue};

/// A tensor that is in GPU memory.
#[derive(Clone, Copy, Debug)]
struct Stay {
    bytes: u64,
    /// From the beginning of the step that put it there to the end of the last one that used it there.
    span: Span,
}

/// Bytes that are in use from an instant on, or no more.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: f64,
    is_taken: bool,
    bytes: u64,
}

/// Follows the steps of a run in the order in which they end.
pub(super) struct Memory<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    stays: Vec<Option<Stay>>,
    changes: Vec<Change>,
    end: f64,
}

impl<'a> Memory<'a> {
    /// The memory before the first step.
    pub(super) fn before(graph: &'a Graph, plan: &'a Plan) -> Self {
        let mut memory = Self {
            graph,
            plan,
            stays: vec![None; graph.tensors().len()],
            changes: Vec::new(),
            end: 0.0,
        };
        for place in &plan.residents {
            memory.put(
                *place,
                Span {
                    from: 0.0,
                    until: 0.0,
                },
            );
        }
        memory
    }

    /// A step has run.
    pub(super) fn follow(&mut self, queue: Queue, at: usize, span: Span) {
        self.end = span.until;
        let plan = self.plan;
        match queue {
            Queue::Compute => {
                let operator = self.graph.operator(plan.compute[at].op);
                for tensor in operator.inputs.iter().chain(&operator.updates) {
                    self.used(*tensor, span.until);
                }
                for place in plan.outputs_of(at) {
                    self.put(*place, span);
                }
            }
            Queue::SwapIn => self.put(plan.swap_in[at].place, span),
            Queue::SwapOut => self.used(plan.swap_out[at].tensor, span.until),
        }
    }

    fn put(&mut self, place: Place, span: Span) {
        let bytes = self
            .plan
            .extents_of(place)
            .iter()
            .map(|extent| extent.bytes)
            .sum();
        let before = self.stays[place.tensor as usize].replace(Stay { bytes, span });
        if let Some(before) = before {
            self.count(before);
        }
    }

    fn used(&mut self, tensor: TensorId, until: f64) {
        if let Some(stay) = &mut self.stays[tensor as usize] {
            stay.span.until = stay.span.until.max(until);
        }
    }

    fn count(&mut self, Stay { bytes, span }: Stay) {
        if span.from < span.until {
            let change = |at, is_taken| Change {
                at,
                is_taken,
                bytes,
            };
            self.changes
                .extend([change(span.from, true), change(span.until, false)]);
        }
    }

    /// The bytes in use from each instant at which they change, and the most of them.
    pub(super) fn usage(mut self) -> (Vec<(f64, u64)>, u64) {
        // The next iteration begins with the residents.
        for place in &self.plan.residents {
            self.used(place.tensor, self.end);
        }
        let stays = core::mem::take(&mut self.stays);
        for stay in stays.into_iter().flatten() {
            self.count(stay);
        }
        // At the same instant memory is left before it is taken again.
        let order = |one: &Change, other: &Change| {
            let at = one.at.total_cmp(&other.at);
            at.then(one.is_taken.cmp(&other.is_taken))
        };
        self.changes.sort_unstable_by(order);
        let mut usage: Vec<(f64, u64)> = Vec::new();
        let mut bytes = 0_u64;
        for change in self.changes {
            bytes = if change.is_taken {
                bytes.saturating_add(change.bytes)
            } else {
                bytes.saturating_sub(change.bytes)
            };
            match usage.last_mut() {
                Some((at, known)) if at.total_cmp(&change.at).is_eq() => *known = bytes,
                _ => usage.push((change.at, bytes)),
            }
        }
        let peak = usage.iter().map(|(_, bytes)| *bytes).max();
        (usage, peak.unwrap_or_default())
    }
}
