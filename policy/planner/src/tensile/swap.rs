//! One step of the greedy scheduling (the paper's Algorithm 1): a tensor that is in GPU memory at the peak is swapped
//! across it.

use alloc::vec;
use alloc::vec::Vec;

use super::gaps::Gaps;
use super::lane::Lane;
use super::timeline::Timeline;
use crate::graph::{Kind, TensorId};
use crate::machine::Link;
use crate::stays::{Gap, GapAt, Slot, Stays};

/// A job under planning.
#[derive(Clone, Debug)]
pub(super) struct Planning<'a> {
    pub(super) stays: Stays<'a>,
    pub(super) timeline: Timeline,
    lane: Lane,
    link: Link,
    /// Whether kept tensors may be in host memory between iterations.
    is_across: bool,
    /// Where the tensors that may swap could do so.
    gaps: Gaps,
    /// The slot of the peak.
    peak: Option<Slot>,
    /// What is taken there, in bytes.
    pub(super) peak_bytes: u64,
    /// For each tensor a gap that is too short: the link has no time for its copies, wherever the peak lies.
    hopeless: Vec<Option<u32>>,
    /// The tensors at the peak that were not tried there yet, the largest last.
    candidates: Vec<TensorId>,
    /// How many swaps there are.
    pub(super) swaps: u64,
}

/// A copy out and the copy back, as the lane has them.
struct Pair {
    out: Option<u64>,
    back: u64,
    leaves: Slot,
    comes: Slot,
}

impl<'a> Planning<'a> {
    /// Nothing swaps yet.
    pub(super) fn new(stays: Stays<'a>, timeline: Timeline, link: Link, is_across: bool) -> Self {
        let mut lane = Lane::default();
        let tensors = stays.graph().tensors().iter();
        let mut at = 0;
        for input in tensors.filter(|tensor| tensor.kind == Kind::Input) {
            let ns = link.copy_ns(input.bytes);
            lane.take(at, ns);
            at += ns;
        }
        let hopeless = vec![None; stays.graph().tensors().len()];
        Self {
            gaps: Gaps::new(&stays),
            stays,
            timeline,
            lane,
            link,
            is_across,
            peak: None,
            peak_bytes: 0,
            hopeless,
            candidates: Vec::new(),
            swaps: 0,
        }
    }

    /// The same job, of which only tensors of at most `most` bytes swap.
    pub(super) fn limited(&self, most: u64) -> Self {
        let mut planning = self.clone();
        planning.gaps.keep(&planning.stays, most);
        planning.look();
        planning
    }

    /// The largest tensor that stays in GPU memory at the peak, is not used there, and was not tried yet.
    pub(super) fn candidate(&self) -> Option<TensorId> {
        self.candidates.last().copied()
    }

    /// Finds the peak, and what may be swapped across it.
    fn look(&mut self) {
        let (peak, bytes) = self.stays.peak();
        self.peak_bytes = bytes;
        if self.peak == Some(peak) {
            // The link only fills: what was tried here in vain would be again.
            return;
        }
        self.peak = Some(peak);
        let at_peak = self.gaps.at(peak).filter(|(id, number)| {
            self.stays.gap(*id, *number) == Gap::Stays
                && self.hopeless[*id as usize] != Some(*number)
        });
        self.candidates.clear();
        self.candidates.extend(at_peak.map(|(id, _)| id));
    }

    /// Swaps the candidate so that it is not in GPU memory at the peak, if the link has time for it.
    pub(super) fn swap(&mut self) {
        let (Some(peak), Some(tensor)) = (self.peak, self.candidates.pop()) else {
            return;
        };
        let Some(gap) = self.stays.gap_at(tensor, peak) else {
            return;
        };
        if self.is_across && self.swap_across(gap, peak) || self.swap_within(gap, peak) {
            self.swaps += 1;
            self.look();
        } else if self.is_hopeless(gap) {
            self.hopeless[tensor as usize] = Some(gap.number);
        }
    }

    /// Whether the link has no time for the copies of a gap, wherever the peak is.
    fn is_hopeless(&mut self, gap: GapAt) -> bool {
        let whole = (self.timeline.end(gap.from), self.timeline.begin(gap.to));
        let uses = self.stays.uses(gap.tensor);
        let is_inside = gap.from > 0 && uses.last() != Some(&gap.from);
        // What is kept may go from one iteration to the next.
        if !is_inside {
            return false;
        }
        let is_out = !self.stays.is_in_host(gap.tensor, gap.number);
        let pair = self.pair(gap.tensor, is_out.then_some(whole), whole);
        if let Some(pair) = &pair {
            self.undo(gap.tensor, pair);
        }
        pair.is_none()
    }

    /// Out behind the use before the peak, and back before the use behind it.
    fn swap_within(&mut self, gap: GapAt, peak: Slot) -> bool {
        // At the beginning all residents are there.
        if peak == 0 {
            return false;
        }
        let begin = self.timeline.end(gap.from);
        let end = self.timeline.begin(gap.to);
        let is_out = !self.stays.is_in_host(gap.tensor, gap.number);
        let out = (begin, self.timeline.begin(peak));
        let back = (self.timeline.end(peak), end);
        let Some(pair) = self.pair(gap.tensor, is_out.then_some(out), back) else {
            return false;
        };
        let leaves = if gap.from == 0 {
            pair.leaves
        } else {
            pair.leaves.max(gap.from + 1)
        };
        if leaves > peak || pair.comes <= peak || pair.comes > gap.to {
            self.undo(gap.tensor, &pair);
            return false;
        }
        let comes = pair.comes;
        self.stays
            .set(gap.tensor, gap.number, Gap::Swaps { leaves, comes });
        self.begin_out(gap.tensor, gap.number, &pair);
        true
    }

    /// Out behind the last use of an iteration, and back before the first one of the next.
    fn swap_across(&mut self, gap: GapAt, peak: Slot) -> bool {
        let uses = self.stays.uses(gap.tensor);
        let (Some(first), Some(last)) = (uses.first().copied(), uses.last().copied()) else {
            return false;
        };
        let count = uses.len() as u32;
        let (is_head, is_tail) = (gap.number == 0, gap.number == count);
        let stays = &self.stays;
        let is_free = [0, count]
            .iter()
            .all(|number| stays.gap(gap.tensor, *number) == Gap::Stays);
        if !(is_head || is_tail) || !stays.is_resident(gap.tensor) || !is_free {
            return false;
        }
        let until = if is_tail { peak } else { stays.end() };
        let from = if is_head { self.timeline.end(peak) } else { 0 };
        let out = (self.timeline.end(last), self.timeline.begin(until));
        let back = (from, self.timeline.begin(first));
        let is_out = stays.is_changed(gap.tensor) && !stays.is_in_host(gap.tensor, count);
        let Some(pair) = self.pair(gap.tensor, is_out.then_some(out), back) else {
            return false;
        };
        let leaves = if is_out {
            pair.leaves.max(last + 1)
        } else {
            last + 1
        };
        let is_late = is_tail && leaves > peak;
        if is_late || is_head && pair.comes <= peak {
            self.undo(gap.tensor, &pair);
            return false;
        }
        self.stays.set_absent(gap.tensor, leaves, pair.comes);
        self.begin_out(gap.tensor, count, &pair);
        true
    }

    /// Takes the earliest time for a copy out, if there is one to make, and the latest one for the copy back.
    fn pair(
        &mut self,
        tensor: TensorId,
        out: Option<(u64, u64)>,
        back: (u64, u64),
    ) -> Option<Pair> {
        let ns = self.link.copy_ns(self.stays.graph().tensor(tensor).bytes);
        let out_at = match out {
            Some((from, to)) => Some(self.lane.earliest(from, to, ns)?),
            None => None,
        };
        if let Some(at) = out_at {
            self.lane.take(at, ns);
        }
        let Some(back_at) = self.lane.latest(back.0, back.1, ns) else {
            if let Some(at) = out_at {
                self.lane.give(at, ns);
            }
            return None;
        };
        self.lane.take(back_at, ns);
        Some(Pair {
            out: out_at,
            back: back_at,
            leaves: out_at.map_or(0, |at| self.timeline.first_from(at + ns)),
            comes: self.timeline.last_until(back_at),
        })
    }

    /// The copy out of a gap begins in the slot under way at its time.
    fn begin_out(&mut self, tensor: TensorId, number: u32, pair: &Pair) {
        if let Some(at) = pair.out {
            let begins = self.timeline.last_until(at);
            self.stays.begin_out_at(tensor, number, begins);
        }
    }

    fn undo(&mut self, tensor: TensorId, pair: &Pair) {
        let ns = self.link.copy_ns(self.stays.graph().tensor(tensor).bytes);
        for at in pair.out.into_iter().chain([pair.back]) {
            self.lane.give(at, ns);
        }
    }
}
