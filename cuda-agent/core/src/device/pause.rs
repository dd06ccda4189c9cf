//! What is done to the memory while a job's work is done and its gate is closed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Device, is_refused};
use crate::gate::{self, lock};
use crate::memory::Memory;
use crate::work::Work;

/// What came of [`Device::pause`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    /// No job runs, a stream captures, or work goes on: nothing was done.
    Not,
    /// Done, and the gate is open.
    Done,
    /// Not all of it: the job waits behind its gate.
    Closed,
}

impl Device {
    /// Closes the gate under the running job, waits for its calls and streams for at most `bound`,
    /// and does `act`, which may lock the memory. The gate opens again if it succeeds.
    pub(crate) fn pause(&self, work: &Work, bound: Duration, act: impl FnOnce() -> bool) -> Paused {
        let _one_at_a_time = lock(&self.closing);
        // Without a daemon there are no jobs, and the gate is open all the same.
        if !self.runs() && !self.alone.load(Ordering::Acquire) {
            return Paused::Not;
        }
        let mut paused = Paused::Not;
        self.drain(work, bound, |jobs| {
            jobs.draining = false;
            paused = if act() {
                self.memory().begin_work();
                gate::open(self.bit);
                Paused::Done
            } else {
                Paused::Closed
            };
        });
        paused
    }

    /// Asks for the budget that all of the task needs. True if there is none now.
    pub(crate) fn lacks_budget(&self) -> bool {
        let _one_question = lock(&self.wants);
        let (total, view) = {
            let memory = self.memory();
            let usage = memory.usage();
            let total = usage.resident_bytes.saturating_add(usage.swapped_bytes);
            (total, memory.view().clone())
        };
        is_refused(&view, total)
    }

    /// Takes the memory that fingerprints need, where the task is to have any: asks for budget, and
    /// does without them if it is refused.
    pub(crate) fn prepare_fingerprints(&self) {
        // A refusal changes nothing but the speed of the swaps to come.
        let _ = self.with_budget(Memory::prepare_fingerprints);
    }

    /// Learns which chunks changed, where the task is to know.
    pub(super) fn fingerprint(&self, work: &Work) {
        let mut memory = self.memory();
        if memory.fingerprints()
            && let Some(context) = work.context_on(self.ordinal)
        {
            memory.fingerprint(context);
        }
    }
}
