//! The gaps of a job in which tensors could swap.

use alloc::vec::Vec;

use crate::graph::TensorId;
use crate::stays::{Slot, Stays};

/// All gaps that have a slot which does not use the tensor, the smallest tensors first. The search for the tensors at a peak
/// goes through this list after each swap, so it has what the search needs in one piece of memory.
#[derive(Clone, Debug)]
pub(super) struct Gaps(Vec<Span>);

/// The slots of one gap.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The first slot that does not use the tensor.
    from: Slot,
    /// The slot behind the last such slot.
    to: Slot,
    tensor: TensorId,
    /// The number of the gap.
    number: u32,
}

impl Gaps {
    /// The gaps of all tensors.
    pub(super) fn new(stays: &Stays<'_>) -> Self {
        let mut spans = Vec::new();
        for (tensor, of) in (0..).zip(stays.graph().tensors()) {
            let uses = stays.uses(tensor);
            for number in 0..=uses.len() as u32 {
                let (is_head, is_tail) = (number == 0, number as usize == uses.len());
                if is_head && !of.kind.is_given() || is_tail && !of.kind.is_kept() {
                    continue;
                }
                let from = number.checked_sub(1).map_or(0, |at| uses[at as usize] + 1);
                let behind = uses.get(number as usize).copied();
                let to = behind.unwrap_or(stays.end() + 1);
                if from < to {
                    spans.push(Span {
                        from,
                        to,
                        tensor,
                        number,
                    });
                }
            }
        }
        let bytes = |span: &Span| stays.graph().tensor(span.tensor).bytes;
        spans.sort_by_key(bytes);
        Self(spans)
    }

    /// Keeps the gaps of tensors that have at most `most` bytes.
    pub(super) fn keep(&mut self, stays: &Stays<'_>, most: u64) {
        let bytes = |span: &Span| stays.graph().tensor(span.tensor).bytes;
        let count = self.0.partition_point(|span| bytes(span) <= most);
        self.0.truncate(count);
    }

    /// The tensors with a gap in which a slot lies, and the number of that gap: the smallest first.
    pub(super) fn at(&self, slot: Slot) -> impl Iterator<Item = (TensorId, u32)> {
        let spans = self.0.iter();
        let at = spans.filter(move |span| (span.from..span.to).contains(&slot));
        at.map(|span| (span.tensor, span.number))
    }
}
