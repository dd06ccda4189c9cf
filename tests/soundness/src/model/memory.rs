//! Chunks on their way.

use super::run::{Gpu, NEVER, Op, Place, Run};
use crate::case::Cost;

impl Run<'_> {
    /// Whether an operation moves chunks of this task.
    pub(super) fn moves(&self, place: usize) -> bool {
        self.out.is_some_and(|op| op.task == place) || self.in_.is_some_and(|op| op.task == place)
    }

    pub(super) fn resident(&self, place: usize) -> bool {
        self.states[place].swapped == 0 && !self.moves(place)
    }

    /// What is missing for `required` chunks, with all that is on its way.
    pub(super) fn lacking(&self, required: i64) -> i64 {
        let leaving = self.out.filter(|op| !op.aborting).map_or(0, |op| op.count);
        (required - self.free - leaving).max(0)
    }

    fn evictable(&self, place: usize, beneficiary: usize, best_effort: bool) -> i64 {
        let state = &self.states[place];
        let runs = match self.gpu {
            Gpu::Free => false,
            Gpu::Runs { task, .. } => task == place,
            Gpu::BestEffort { .. } => self.best_effort() == Some(place),
        };
        let region = state.job.is_some_and(|job| job.place == Place::Region);
        if !state.there || place == beneficiary || runs || region || self.moves(place) {
            return 0;
        }
        let limit = if best_effort && self.pending && place < self.case.tasks.len() {
            state.volume.min(self.case.tasks[place].volume_after)
        } else {
            state.volume
        };
        (limit - state.swapped).max(0)
    }

    /// Everything that may leave now.
    pub(super) fn all_evictable(&self, beneficiary: usize, best_effort: bool) -> i64 {
        let places = 0..self.states.len();
        places
            .map(|place| self.evictable(place, beneficiary, best_effort))
            .sum()
    }

    /// Starts one eviction of the victim with the latest next release, if the engine is free.
    pub(super) fn evict(&mut self, required: i64, beneficiary: usize, best_effort: bool) {
        let lacking = self.lacking(required);
        if lacking == 0 || self.out.is_some() {
            return;
        }
        if best_effort && self.all_evictable(beneficiary, true) < lacking {
            return;
        }
        let mut victim: Option<(usize, i64)> = None;
        for place in 0..self.states.len() {
            let may = self.evictable(place, beneficiary, best_effort);
            if may == 0 {
                continue;
            }
            let state = &self.states[place];
            let before = victim.is_none_or(|(other, _)| {
                let other = &self.states[other];
                state.ready > other.ready
                    || (state.ready == other.ready && state.granted < other.granted)
            });
            if before {
                victim = Some((place, may));
            }
        }
        let Some((task, may)) = victim else {
            return;
        };
        let count = may.min(lacking);
        self.out = Some(Op {
            task,
            beneficiary,
            count,
            start: self.now,
            end: self.now + self.case.out.span(count),
            best_effort,
            aborting: false,
            waiting: 0,
            busy_until: 0,
        });
        self.feed(count);
    }

    /// The chunks of the eviction that has just started will be filled, one by one, by the
    /// pipelined swap-in under way.
    fn feed(&mut self, count: i64) {
        let (out, in_) = (self.case.out, self.case.in_);
        let Some(op) = &mut self.in_ else {
            return;
        };
        for chunk in 1..=count.min(op.waiting) {
            let free = self.now + out.base + out.chunk * chunk;
            op.busy_until = op.busy_until.max(free) + in_.chunk;
            op.waiting -= 1;
        }
        if op.waiting == 0 && op.end == NEVER {
            op.end = op.busy_until;
        }
    }

    /// Starts to swap `count` chunks in; their memory is reserved at once.
    pub(super) fn swap_in(&mut self, task: usize, count: i64, best_effort: bool) {
        let there = self.free.clamp(0, count);
        let cost = self.case.in_;
        let busy_until = self.now + cost.base + there * cost.chunk;
        let waiting = count - there;
        self.free -= count;
        self.states[task].held += count;
        self.in_ = Some(Op {
            task,
            beneficiary: task,
            count,
            start: self.now,
            end: if waiting == 0 { busy_until } else { NEVER },
            best_effort,
            aborting: false,
            waiting,
            busy_until,
        });
    }

    pub(super) fn out_ends(&mut self) {
        let Some(op) = self.out.take() else {
            return;
        };
        let state = &mut self.states[op.task];
        state.held -= op.count;
        state.swapped += op.count;
        self.free += op.count;
        self.go_if_departed(op.task);
    }

    pub(super) fn in_ends(&mut self) {
        let Some(op) = self.in_.take() else {
            return;
        };
        // Of an aborted one, `waiting` chunks have not come.
        let state = &mut self.states[op.task];
        state.swapped -= op.count - op.waiting;
        state.held -= op.waiting;
        self.free += op.waiting;
        self.go_if_departed(op.task);
    }

    /// Stops the operations of best-effort at the next chunk.
    pub(super) fn abort_best_effort(&mut self) {
        let now = self.now;
        let stop = |op: &mut Op, cost: Cost| -> Option<i64> {
            if !op.best_effort || op.aborting {
                return None;
            }
            let past = (now - op.start - cost.base).max(0);
            let begun = ((past + cost.chunk - 1) / cost.chunk).min(op.count);
            op.aborting = true;
            op.end = (op.start + cost.base + begun * cost.chunk).max(now);
            Some(begun)
        };
        if let Some(op) = &mut self.out
            && let Some(begun) = stop(op, self.case.out)
        {
            op.count = begun;
        }
        if let Some(op) = &mut self.in_
            && let Some(begun) = stop(op, self.case.in_)
        {
            op.waiting = op.count - begun;
        }
    }
}
