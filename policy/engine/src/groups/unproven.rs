//! What a process says to hold beyond what anybody else knows of.
//!
//! An agent's word counts up to its budget, which the scheduler made room for, and up to what NVML or
//! the probes show. What it says beyond is charged to nobody, otherwise a lie would lock others out.
//! It may be true all the same, after a crash of the daemon for example: so the process runs no job
//! until its budget covers what it says, and the group requests that budget as for an allocation.

use rtswap_policy::scheduler::{OpenJob, Usage};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::process::{BudgetRequest, Process};
use super::{ProcessGroup, ProcessId};

/// How long after a refusal the budget for unproven memory is requested again.
const RETRY: Nanos = Nanos(1_000_000_000);

impl ProcessGroup {
    /// Records that another witness than its agent shows `shown` bytes of a process. Returns whether
    /// more may follow from it.
    pub fn record_shown(&mut self, now: Time, id: ProcessId, shown: Bytes) -> bool {
        let Some(at) = self.find(id) else {
            return false;
        };
        let process = &mut self.processes[at];
        process.shown = shown;
        let Some(said) = process.unproven else {
            return false;
        };
        if process.has_brought && shown > process.budget && process.part.is_none() {
            self.take_back_proven(now, at, said);
        } else {
            self.prove(at);
        }
        self.mark_dirty(now);
        true
    }

    /// Attaches a process anew after its Hello has proved true: to have brought memory is no violation.
    fn take_back_proven(&mut self, now: Time, at: usize, said: Usage) {
        let Process {
            id, job, request, ..
        } = self.processes[at];
        let open = job.map(|job| OpenJob {
            job: job.seq,
            running: job.granted,
            kind: job.kind,
        });
        let pinned = self.processes[at].store.pinned;
        let taken = self.attach(now, id, said, pinned, open, Bytes::ZERO);
        debug_assert_eq!(taken, Ok(()), "it was taken in with the same before");
        // It waits for the answer on its page.
        self.processes[at].request = request.filter(|request| request.seq.is_some());
    }

    /// The bytes that a process says to hold on the GPU, if they are more than is known of.
    pub fn unproven(&self, id: ProcessId) -> Option<Bytes> {
        let process = &self.processes[self.find(id)?];
        process.unproven.map(|usage| usage.resident)
    }

    /// Takes what a process said once more, by what is known now.
    pub(super) fn prove(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some(said) = process.unproven else {
            return;
        };
        process.take_usage(said);
        if process.unproven.is_none() {
            process.request.take_if(|request| request.seq.is_none());
        }
        self.told.stale |= process.is_present();
    }

    /// The budget for unproven memory was refused.
    pub(super) fn defer_proof(&mut self, now: Time, at: usize) {
        self.processes[at].retry_at = now + RETRY;
    }

    /// Requests, in their names, the budget that processes need for what is unproven.
    pub(super) fn request_proof(&mut self) {
        let now = self.agenda.now;
        for process in &mut self.processes {
            if process.request.is_none()
                && process.retry_at <= now
                && let Some(said) = process.unproven
            {
                let total = said.resident + said.swapped;
                process.request = Some(BudgetRequest { seq: None, total });
            }
        }
    }

    /// When [`Self::request_proof`] has something to do that was refused before.
    pub(super) fn proof_timeout(&self) -> Option<Time> {
        let deferred = |process: &&Process| process.unproven.is_some() && process.request.is_none();
        let deferred = self.present().filter(deferred);
        deferred.map(|process| process.retry_at).min()
    }
}

impl Process {
    /// Takes in what the process says to use, as far as it is explained.
    pub(super) fn take_usage(&mut self, said: Usage) {
        let most = self.budget.max(self.inherited).max(self.shown);
        self.unproven = (said.resident > most).then_some(said);
        self.has_brought &= self.unproven.is_some();
        let resident = said.resident.min(most);
        self.usage = Usage {
            resident,
            swapped: said.swapped,
            arena: said.arena.min(resident + said.swapped),
        };
    }
}
