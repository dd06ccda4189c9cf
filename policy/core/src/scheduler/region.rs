//! Realtime jobs: earliest deadline first, and from the start of a swap-in to the end of the
//! execution one region that nothing preempts.

use alloc::format;
use alloc::string::String;

use super::record::{Cause, Task};
use super::{Command, Direction, Scheduler, Sharing, SwapOutcome, ViolationKind};
use crate::scheduler::job::Place;
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

/// How long a job is put aside if its memory is not available. Before that it stays at the head for as
/// long, in case memory of dead processes is released: mostly the driver does that at once.
pub(super) const ASIDE: Nanos = Nanos(5_000_000);
/// Swap-ins of one job that may fail before it is put aside.
const FAILURES: u32 = 4;

impl Scheduler {
    /// Serves the region that waits, or else the head of the queue (rules 1 to 3), until nothing
    /// more can be done now.
    pub(super) fn serve_realtime(&mut self) {
        if !self.state.queue.is_empty() || self.state.region.is_some() {
            self.clear_best_effort();
        }
        loop {
            let on = match (self.state.region, self.state.queue.first()) {
                (Some(id), _) => self.serve_region(id),
                (None, Some((_, id))) => self.serve_head(id),
                (None, None) => return,
            };
            if !on {
                return;
            }
        }
    }

    /// Whether the GPU is free for a realtime job.
    fn gpu_free(&self) -> bool {
        match self.state.sharing {
            Sharing::Shared => !self.state.realtime_runs(),
            Sharing::Exclusive | Sharing::Auto => self.state.running.is_empty(),
        }
    }

    /// True if something changed that allows more.
    fn serve_region(&mut self, id: TaskId) -> bool {
        if self.wholly_resident(id) {
            let free = self.gpu_free();
            if free {
                self.grant(id);
            }
            return free;
        }
        // A swap-in failed: a chunk more each time must be free before the next.
        let failures = self.task(id).job.as_ref().map_or(0, |job| job.failures);
        if self.pipelined() && failures == 0 {
            return self.fill_region(id);
        }
        if self.task(id).op.is_some() {
            return false;
        }
        let extra = Bytes(self.config.chunk.0.saturating_mul(u64::from(failures)));
        self.bring_in(id, extra)
    }

    fn serve_head(&mut self, id: TaskId) -> bool {
        if self.task(id).op.as_ref().is_some_and(|op| op.overdue) {
            self.put_aside(id, ASIDE);
            return true;
        }
        if self.task(id).op.is_some() {
            return false;
        }
        if self.wholly_resident(id) {
            let free = self.gpu_free();
            if free {
                self.grant(id);
            }
            return free;
        }
        if self.pipelined() {
            return self.open_pipelined(id);
        }
        self.bring_in(id, Bytes::ZERO)
    }

    /// Makes room for `id` and opens its region once there is. True if something changed.
    fn bring_in(&mut self, id: TaskId, extra: Bytes) -> bool {
        let task = self.task(id);
        let (need, short) = (task.need(), task.short());
        let required = short + extra;
        if required > self.state.free() && required > Bytes::ZERO {
            if !self.evict(required, Cause::Realtime, Some(id)) && self.nothing_coming() {
                self.stall_for_memory(id, required);
                return true;
            }
            return false;
        }
        let inward = self.task(id).usage.swapped > Bytes::ZERO;
        if inward && self.state.in_.is_some() {
            return false;
        }
        if short > Bytes::ZERO {
            self.set_budget(id, need, None);
        }
        self.open_region(id, inward);
        if inward {
            self.start_swap(id, Direction::In, Bytes::ZERO, Cause::Realtime, Some(id));
        }
        true
    }

    /// The job of `id` lacks `required`, and nothing is left that may leave.
    pub(super) fn stall_for_memory(&mut self, id: TaskId, required: Bytes) {
        let state = self.state.settled();
        let (dying, free) = (state.sums().dying, state.free());
        let detail = format!(
            "lacks {required} with {free} free, {dying} of the dead not released yet, and nothing \
             left that may leave"
        );
        self.stall(id, detail);
    }

    /// From now on nothing overtakes the job of `id`.
    pub(super) fn open_region(&mut self, id: TaskId, inward: bool) {
        let now = self.state.now;
        if let Some(job) = &mut self.task_mut(id).job {
            let due = job.deadline.unwrap_or_default();
            job.place = Place::Region;
            job.opened = job.opened.or(Some(now));
            job.swap_ins += u32::from(inward);
            self.state.queue.remove((due, id));
            self.state.region = Some(id);
        }
    }

    /// Whether no event can be expected that would free memory.
    pub(super) fn nothing_coming(&mut self) -> bool {
        let state = self.state.settled();
        let moves = state.out.is_some() || state.in_.is_some();
        state.running.is_empty() && !moves && !state.awaits_release()
    }

    /// Puts aside a job that cannot get its memory, so that others may run. Reports a violation, once a
    /// job.
    fn stall(&mut self, id: TaskId, detail: String) {
        let before = self.task(id).job.as_ref().is_some_and(|job| job.stalled);
        if !before {
            self.violation(id, ViolationKind::Emergency, detail);
        }
        self.put_aside(id, ASIDE);
    }

    /// The swap-in of the region that waits did not reach its end.
    pub(super) fn swap_in_failed(&mut self, id: TaskId, outcome: SwapOutcome) {
        let Some(job) = &mut self.task_mut(id).job else {
            return;
        };
        job.failures += 1;
        let failures = job.failures;
        if failures > FAILURES {
            self.stall(
                id,
                format!("{failures} swap-ins failed, the last with {outcome:?}"),
            );
        }
    }

    /// Rule 5: a realtime job waits, so best-effort leaves the GPU and the copy engines.
    fn clear_best_effort(&mut self) {
        for id in [self.state.out, self.state.in_].into_iter().flatten() {
            let Some(op) = &self.task(id).op else {
                continue;
            };
            if op.cause == Cause::BestEffort && !op.aborting {
                self.abort(id);
            }
        }
        if self.state.settled().clears_best_effort() {
            self.revoke_best_effort();
        }
    }

    /// Takes the GPU from every best-effort job. True if one still has to leave.
    pub(super) fn revoke_best_effort(&mut self) -> bool {
        let mut leaving = false;
        for place in 0..self.state.running.len() {
            leaving |= self.revoke(self.state.running[place]);
        }
        leaving
    }

    /// Takes the GPU from the job of `id`, which runs, if it is best-effort. True if it is and
    /// still has to leave.
    pub(super) fn revoke(&mut self, id: TaskId) -> bool {
        let now = self.state.now;
        let job = self.task_mut(id).job.as_mut();
        let Some(job) = job.filter(|job| job.deadline.is_none()) else {
            return false;
        };
        let yielded = core::mem::replace(&mut job.yields, false);
        if yielded {
            // The bound counts from when realtime waits for it.
            job.revoked = Some(now);
        }
        if job.revoked.is_none() {
            job.revoked = Some(now);
            let job = job.seq;
            self.emit(Command::Revoke { task: id, job });
        }
        true
    }

    /// As [`Self::revoke`], for other best-effort jobs.
    pub(super) fn give_way(&mut self, id: TaskId) -> bool {
        let revoked = |task: &Task| task.job.as_ref().is_some_and(|job| job.revoked.is_some());
        let before = revoked(self.task(id));
        let leaves = before || self.revoke(id);
        if let Some(job) = self.task_mut(id).job.as_mut().filter(|_| !before && leaves) {
            job.yields = true;
        }
        leaves
    }
}
