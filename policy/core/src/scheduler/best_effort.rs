//! Best-effort: first come first, and only while no realtime job waits or runs (rule 5).

use super::record::Cause;
use super::{Direction, Scheduler, Sharing};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

/// When to look again at best-effort jobs for which nothing can move.
const RETRY: Nanos = Nanos(100_000_000);

impl Scheduler {
    pub(super) fn serve_best_effort(&mut self) {
        self.state.retry = None;
        let wants_wait = self.serve_wants();
        if self.state.sharing == Sharing::Shared && !self.state.settled().clears_best_effort() {
            let mut place = 0;
            while let Some(&id) = self.state.best_effort.get(place) {
                if self.wholly_resident(id) {
                    self.grant(id);
                } else {
                    place += 1;
                }
            }
        }
        if self.state.realtime_active() || wants_wait || self.restore() {
            return;
        }
        for place in 0..self.state.best_effort.len() {
            let id = self.state.best_effort[place];
            if self.serve_next(id) {
                return;
            }
        }
        if !self.state.best_effort.is_empty() {
            self.state.retry = Some(self.state.now + RETRY);
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
