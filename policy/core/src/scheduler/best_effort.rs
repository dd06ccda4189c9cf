//! Best-effort: first come first, and only while no realtime job waits or runs (rule 5). Requests for
//! memory are answered from here too, those of realtime tasks included: see `wants`.

use super::record::Cause;
use super::{Direction, Scheduler, Sharing};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos, Time};

/// When to look again at best-effort jobs for which nothing can move.
const RETRY: Nanos = Nanos(100_000_000);

impl Scheduler {
    pub(super) fn serve_best_effort(&mut self) {
        self.state.retry = None;
        let wants_wait = self.serve_wants();
        if self.state.sharing == Sharing::Shared && !self.state.settled().clears_best_effort() {
            self.grant_resident(wants_wait);
        }
        if self.state.realtime_active() || wants_wait || self.restore() {
            return;
        }
        let mut place = 0;
        while let Some(&id) = self.state.best_effort.get(place) {
            if self.holds_off(id) {
                continue;
            }
            if self.serve_next(id) {
                return;
            }
            place += 1;
            if self.state.sharing == Sharing::Shared && self.state.running.is_empty() {
                self.let_pass(id);
            }
        }
        for place in 0..self.state.best_effort.len() {
            let id = self.state.best_effort[place];
            if self.state.running.is_empty() && self.finds_room(id) {
                break;
            }
        }
        if !self.state.best_effort.is_empty() {
            self.retry_by(self.state.now + RETRY);
        }
    }

    /// Looks at best-effort again at `at`, or earlier.
    pub(super) fn retry_by(&mut self, at: Time) {
        let known = self.state.retry.unwrap_or(at);
        self.state.retry = Some(known.min(at));
    }

    /// In `Shared` mode: lets every job run that is wholly resident. While memory can move, one that
    /// has run since another began to wait for memory lets that one go first: jobs that take turns
    /// would keep the memory from it for ever.
    fn grant_resident(&mut self, wants_wait: bool) {
        let moves = !self.state.realtime_active();
        let wants = self.state.wants.iter().filter(|_| moves && wants_wait);
        let since = |id: &TaskId| Some(self.task(*id).want?.since);
        let mut waits_since = wants.filter_map(since).min();
        let mut place = 0;
        while let Some(&id) = self.state.best_effort.get(place) {
            if self.holds_off(id) {
                continue;
            }
            let task = self.task(id);
            let resident = self.wholly_resident(id);
            let asks = task.want.is_some();
            let ran = waits_since.is_some_and(|since| since < task.last_left);
            if resident && (asks || !ran) {
                self.grant(id);
                continue;
            }
            let waiting = task.job.as_ref().filter(|job| !job.stalled);
            if let Some(job) = waiting.filter(|_| moves && !resident) {
                let since = waits_since.unwrap_or(job.eligible);
                waits_since = Some(since.min(job.eligible));
            }
            place += 1;
        }
    }

    /// Nothing can be done for the job of `id` though nobody runs: it holds nobody back.
    fn let_pass(&mut self, id: TaskId) {
        if let Some(job) = &mut self.task_mut(id).job {
            job.stalled = true;
        }
    }

    /// Brings the memory of `id` in and lets it run. False if nothing can be done for it, so
    /// that the next may be served.
    fn serve_next(&mut self, id: TaskId) -> bool {
        let task = self.task(id);
        if let Some(op) = &task.op {
            return !op.overdue;
        }
        if self.wholly_resident(id) {
            if self.state.running.is_empty() {
                self.grant(id);
            }
            return true;
        }
        let (need, short) = (task.need(), task.short());
        let inward = task.usage.swapped > Bytes::ZERO;
        if short > Bytes::ZERO && short > self.state.free() {
            return self.evict(short, Cause::BestEffort, Some(id));
        }
        if inward && self.state.in_.is_some() {
            return true;
        }
        if short > Bytes::ZERO {
            self.set_budget(id, need, None);
        }
        if inward {
            self.start_swap(id, Direction::In, Bytes::ZERO, Cause::BestEffort, Some(id));
            return true;
        }
        self.serve_next(id)
    }
}
