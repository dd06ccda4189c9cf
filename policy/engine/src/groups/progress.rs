//! How far a swap operation has come, and how it ends.

use rtswap_policy::scheduler::{Event, EventError, SwapOutcome, SwapSeq};
use rtswap_policy::units::{Bytes, Nanos};

use super::ProcessGroup;
use super::process::{Presence, Process, SwapPart};

impl ProcessGroup {
    /// Takes in that `swapped` bytes are in the backing store of a process by operation `op`, and how and
    /// after what time that `ended`.
    pub(super) fn record_swap(
        &mut self,
        at: usize,
        op: SwapSeq,
        swapped: Bytes,
        ended: Option<(SwapOutcome, Nanos)>,
    ) -> Result<(), EventError> {
        self.check_part(at, op, swapped)?;
        let process = &mut self.processes[at];
        process.record_swapped(swapped);
        if ended.is_none() {
            if process.is_present() && self.swap.is_some_and(|swap| swap.seq == op) {
                let (task, swapped) = (self.task, self.swapped());
                self.tell(Event::SwapProgress { task, op, swapped });
            }
            return Ok(());
        }
        if let Some(part) = &mut process.part {
            // Nobody told it to stop.
            let gave_up = |outcome| outcome == SwapOutcome::Aborted && !part.aborted;
            part.ended = ended.map(|(outcome, took)| match outcome {
                outcome if gave_up(outcome) => (SwapOutcome::Failed, took),
                outcome => (outcome, took),
            });
        }
        if process.presence == Presence::Missing {
            // It was set aside, and is back.
            process.part = None;
            process.presence = Presence::Returning;
        }
        Ok(())
    }

    /// Checks that a process takes part in operation `op`, and can have come to `swapped` bytes.
    fn check_part(&self, at: usize, op: SwapSeq, swapped: Bytes) -> Result<(), EventError> {
        let task = self.task;
        let process = &self.processes[at];
        let under_way = |part: &SwapPart| part.seq == op && part.ended.is_none();
        let part = process.part.filter(under_way);
        let part = part.ok_or(EventError::NoOperation { task, op })?;
        let left = swapped.saturating_sub(process.usage.swapped);
        let what = if swapped > part.from.max(part.target) {
            "swapped, which its operation cannot have reached"
        } else if swapped.round_down(self.chunk) != swapped {
            "swapped, not a multiple of the chunk size"
        } else if left > process.most_resident() {
            "swapped, more than it may hold"
        } else {
            return Ok(());
        };
        let bytes = swapped;
        Err(EventError::Impossible { task, what, bytes })
    }

    /// Ends the operation of the task once no present process moves any more.
    pub(super) fn end_swap(&mut self) {
        let Some(swap) = self.swap.filter(|swap| swap.begun) else {
            return;
        };
        if self.present().any(Process::moves) {
            return;
        }
        self.swap = None;
        let failed = |process: &&Process| {
            let swapped = process.usage.swapped;
            process.part.is_some_and(|part| part.has_failed(swapped))
        };
        self.failed = self.present().filter(failed).map(|it| it.id).collect();
        let ours = |part: &mut SwapPart| part.seq == swap.seq && part.ended.is_some();
        let parts = self.processes.iter_mut();
        let ends = parts.filter_map(|process| process.part.take_if(ours)?.ended);
        let end = ends.reduce(|(worst, longest), (outcome, took)| {
            let is_worse = badness(outcome) > badness(worst);
            (if is_worse { outcome } else { worst }, longest.max(took))
        });
        // Without an end, all processes that took part are gone.
        let (outcome, took) = end.unwrap_or((SwapOutcome::Aborted, Nanos::ZERO));
        let (task, op, swapped) = (self.task, swap.seq, self.swapped());
        self.tell(Event::SwapEnded {
            task,
            op,
            swapped,
            took,
            outcome,
        });
    }
}

/// Ranks outcomes: the worst of any part is that of the operation.
fn badness(outcome: SwapOutcome) -> u8 {
    match outcome {
        SwapOutcome::Done => 0,
        SwapOutcome::Aborted => 1,
        SwapOutcome::OutOfMemory => 2,
        SwapOutcome::Failed => 3,
        SwapOutcome::Undrainable => 4,
    }
}
