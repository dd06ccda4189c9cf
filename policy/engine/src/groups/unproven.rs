//! What a process says to hold beyond what anybody else knows of.
//!
//! An agent's word counts up to its budget, which the scheduler made room for, and up to what NVML or
//! the probes show. What it says beyond is charged to nobody, otherwise a lie would lock others out.
//! It may be true all the same, after a crash of the daemon for example: so the process runs no job
//! until its budget covers what it says, and the group requests that budget as for an allocation.
//!
//! Where there is no room, what a process has brought with its Hello leaves the GPU. If some of it
//! counts, the scheduler orders that out where it is short of memory, and the budget then falls only to
//! what is left, which so counts in turn. If none does, the scheduler has nothing to order: the group
//! orders it, and sets the process aside meanwhile, which withholds nothing from others.

use rtswap_policy::scheduler::{Direction, OpenJob, SwapSeq, Usage};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::process::{BudgetRequest, Presence, Process, SwapPart};
use super::{Order, ProcessGroup, ProcessId};

/// How long after a refusal the budget for unproven memory is requested again, and how long witnesses
/// have to show what a process brought before it leaves.
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
        if process.brought.is_some() && shown > process.budget && process.part.is_none() {
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
        self.told.stale |= process.is_present();
    }

    /// The budget for unproven memory was refused.
    pub(super) fn defer_proof(&mut self, now: Time, at: usize) {
        let process = &mut self.processes[at];
        process.retry_at = now + RETRY;
        process.must_leave = process
            .brought
            .is_some_and(|brought| brought + RETRY <= now);
    }

    /// Requests, in their names, the budget that processes need for what is unproven.
    pub(super) fn request_proof(&mut self) {
        let now = self.agenda.now;
        for process in &mut self.processes {
            if process.request.is_none()
                && process.retry_at <= now
                && let Some(said) = process.unproven
            {
                process.request = Some(BudgetRequest::for_proof(said));
            }
        }
    }

    /// When [`Self::request_proof`] has something to do that was refused before.
    pub(super) fn proof_timeout(&self) -> Option<Time> {
        let deferred = |process: &&Process| process.unproven.is_some() && process.request.is_none();
        let deferred = self.present().filter(deferred);
        deferred.map(|process| process.retry_at).min()
    }

    /// Swaps out each process with brought memory that is wholly unproven and was refused a budget, once
    /// nothing of the task moves and the process runs no job. It is set aside until it has followed, and
    /// then attaches anew.
    pub(super) fn evict_unproven(&mut self) {
        if self.swap.is_some() || self.budget.round.is_some() {
            return;
        }
        for at in 0..self.processes.len() {
            let process = &mut self.processes[at];
            if !process.is_present() || !process.must_leave {
                continue;
            }
            let target = process.eviction(self.chunk);
            let runs = process.runs();
            process.must_leave = target.is_some() && runs;
            match target {
                Some(target) if !runs => self.evict(at, target),
                // A best-effort job lasts until it is revoked.
                Some(_) if !self.realtime => self.revoke(at),
                _ => {}
            }
        }
    }

    /// Sets a process aside until `target` bytes are in its backing store.
    fn evict(&mut self, at: usize, target: Bytes) {
        // The scheduler numbers its operations upwards from 1: these count down from the largest number.
        self.evictions = self.evictions.wrapping_add(1);
        let op = SwapSeq(self.evictions.wrapping_neg());
        let process = &mut self.processes[at];
        process.part = Some(SwapPart {
            seq: op,
            from: process.usage.swapped,
            target,
            credit: Some(target),
            aborted: false,
            ended: None,
        });
        process.presence = Presence::Missing;
        // One that does not follow is asked again, and not at the pace at which it says so.
        process.brought = Some(self.agenda.now);
        // Once it is back it is told what is left to it, and asks at once for what it cannot do without.
        process.unbudgeted = true;
        process.retry_at = Time::ZERO;
        self.note_missing(self.agenda.now);
        let (direction, credit) = (Direction::Out, target);
        let order = Order::Swap {
            op,
            direction,
            target,
            credit,
        };
        self.order(at, order);
    }
}

impl BudgetRequest {
    /// The request for the budget that covers what a process said.
    fn for_proof(said: Usage) -> Self {
        let total = said.resident + said.swapped;
        Self { seq: None, total }
    }
}

impl Process {
    /// Takes in what the process says to use, as far as it is explained.
    pub(super) fn take_usage(&mut self, said: Usage) {
        let most = self.budget.max(self.inherited).max(self.shown);
        self.unproven = (said.resident > most).then_some(said);
        self.brought.take_if(|_| said.resident <= most);
        self.must_leave &= self.unproven.is_some();
        if self.request.is_some_and(|request| request.seq.is_none()) {
            self.request = self.unproven.map(BudgetRequest::for_proof);
        }
        let resident = said.resident.min(most);
        self.usage = Usage {
            resident,
            swapped: said.swapped,
            arena: said.arena.min(resident + said.swapped),
        };
    }

    /// The most bytes that it can have on the GPU: by its budget, by another witness or by its own word.
    pub(super) fn most_resident(&self) -> Bytes {
        let said = self.unproven.map_or(Bytes::ZERO, |said| said.resident);
        self.budget.max(self.shown).max(said)
    }

    /// The bytes in its backing store once all has left that can, in swap chunks of `chunk` bytes; none
    /// where some of it counts or nothing can.
    fn eviction(&self, chunk: Bytes) -> Option<Bytes> {
        let said = self.unproven.filter(|_| self.held() == Bytes::ZERO)?;
        let arena = said.arena.saturating_sub(said.swapped).min(said.resident);
        let room = self.store.pinned.saturating_sub(said.swapped);
        let leaves = arena.min(room).round_down(chunk);
        (leaves > Bytes::ZERO).then_some(said.swapped + leaves)
    }
}
