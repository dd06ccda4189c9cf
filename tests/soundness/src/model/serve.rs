//! What the rules allow now.

use super::run::{Gpu, Place, Run};
use super::{Compute, Early, Mode, Opens, Transition};
use crate::case::Stay;

impl Run<'_> {
    pub(super) fn decide(&mut self) {
        self.change_plan();
        if self.head().is_some() || !self.regions.is_empty() {
            self.clear_best_effort();
            while self.start_computation() {}
            self.move_memory();
            while self.start_computation() {}
        }
        self.serve_best_effort();
    }

    /// The waiting job with the earliest deadline.
    fn head(&self) -> Option<usize> {
        self.first(|_| true)
    }

    fn first(&self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut first: Option<(i64, usize)> = None;
        for (place, state) in self.states.iter().enumerate() {
            let Some(job) = &state.job else { continue };
            let earlier = first.is_none_or(|(due, _)| job.due < due);
            if job.place == Place::Queue && earlier && fits(place) {
                first = Some((job.due, place));
            }
        }
        first.map(|(_, place)| place)
    }

    /// True if a job was granted.
    fn start_computation(&mut self) -> bool {
        if !matches!(self.gpu, Gpu::Free) {
            return false;
        }
        let ready = self
            .regions
            .iter()
            .copied()
            .filter(|&place| self.resident(place));
        let due = |place: &usize| self.states[*place].job.map_or(0, |job| job.due);
        let region = ready.min_by_key(due);
        let next = if region.is_some() && self.rules.compute != Compute::Anybody {
            region
        } else {
            let queued = match self.rules.compute {
                Compute::Anybody => self.first(|place| self.resident(place)),
                _ if !self.regions.is_empty() => None,
                Compute::RegionOrHead => self.head().filter(|&place| self.resident(place)),
                Compute::UnlessHeadIsSwapped => self
                    .first(|place| self.resident(place))
                    .filter(|&place| Some(place) == self.head() || !self.head_is_swapped()),
            };
            // Work-conserving: whoever is due first of all that could run.
            match (region, queued) {
                (Some(one), Some(other)) if due(&other) < due(&one) => Some(other),
                (None, other) => other,
                (one, _) => one,
            }
        };
        let Some(place) = next else {
            return false;
        };
        let now = self.now;
        self.regions.retain(|other| *other != place);
        let state = &mut self.states[place];
        state.granted = now;
        let Some(job) = &mut state.job else {
            return false;
        };
        job.place = Place::Running;
        job.granted = now;
        let end = now + self.case.tasks[place].execution(job.number);
        self.gpu = Gpu::Runs { task: place, end };
        true
    }

    fn head_is_swapped(&self) -> bool {
        let head = self.head();
        self.out.is_some_and(|op| Some(op.beneficiary) == head)
    }

    /// Swap operations for the head, or for the region that is open.
    fn move_memory(&mut self) {
        if self.rules.mode == Mode::Pipelined
            && let Some(op) = self.in_.filter(|op| !op.best_effort)
        {
            self.evict(0, op.task, false);
        }
        if self.regions.len() >= self.rules.regions {
            return;
        }
        let Some(head) = self.head() else {
            return;
        };
        if !self.resident(head) {
            self.bring_in(head);
        } else if self.rules.early == Early::EvictionsForAny
            && let Some(other) = self.first(|place| !self.resident(place))
            && !self.moves(other)
        {
            self.evict(self.states[other].swapped, other, false);
        }
    }

    fn bring_in(&mut self, head: usize) {
        let need = self.states[head].swapped;
        if self.moves(head) {
            return;
        }
        let pipelined = self.rules.mode == Mode::Pipelined;
        let available = match (pipelined, self.rules.opens) {
            (false, _) => self.free,
            (true, Opens::WhenAvailable) => self.free + self.all_evictable(head, false),
            (true, Opens::AtOnce) => need,
        };
        if need > available {
            if !pipelined {
                self.evict(need, head, false);
            }
            return;
        }
        if self.in_.is_some() || (pipelined && self.out.is_some()) {
            return;
        }
        if let Some(job) = &mut self.states[head].job {
            job.place = Place::Region;
        }
        self.regions.push(head);
        self.swap_in(head, need, false);
        if pipelined {
            self.evict(0, head, false);
        }
    }

    /// Rule 5.
    fn clear_best_effort(&mut self) {
        self.abort_best_effort();
        if let (Gpu::BestEffort { end, leaving }, Some(task)) =
            (&mut self.gpu, self.case.best_effort.first())
            && !*leaving
        {
            *leaving = true;
            *end = (*end).min(self.now + task.leaves);
        }
    }

    /// No realtime job eligible, in a region or running.
    pub(super) fn idle(&self) -> bool {
        self.states.iter().all(|state| state.job.is_none())
    }

    fn serve_best_effort(&mut self) {
        if !self.idle() || self.restore() {
            return;
        }
        let Some(place) = self.best_effort() else {
            return;
        };
        let Some(task) = self.case.best_effort.first() else {
            return;
        };
        if self.moves(place) || !matches!(self.gpu, Gpu::Free) {
            return;
        }
        let need = self.states[place].swapped;
        if need == 0 {
            self.states[place].granted = self.now;
            // One job after the other, until something else happens.
            let jobs = match self.next_event() {
                Some(at) => (at - self.now + task.runs - 1) / task.runs,
                None => 1,
            };
            let end = self.now + task.runs * jobs.max(1);
            self.gpu = Gpu::BestEffort {
                end,
                leaving: false,
            };
        } else if need > self.free {
            self.evict(need, place, true);
        } else if self.in_.is_none() {
            self.swap_in(place, need, true);
        }
    }

    /// While a plan waits for tasks that are out by more than it allows, brings them in. True if
    /// memory moves for that.
    fn restore(&mut self) -> bool {
        if !self.pending || self.rules.transition != Transition::TwoPhase {
            return false;
        }
        for place in 0..self.case.tasks.len() {
            let task = &self.case.tasks[place];
            let state = &self.states[place];
            let beyond = state.swapped - task.volume_after;
            if !state.planned || self.moves(place) || beyond <= 0 {
                continue;
            }
            if beyond > self.free {
                self.evict(beyond, place, true);
                return self.out.is_some();
            }
            if self.in_.is_none() {
                self.swap_in(place, beyond, true);
            }
            return true;
        }
        false
    }

    /// Lets the plan to come take effect if it may.
    fn change_plan(&mut self) {
        if !self.pending {
            return;
        }
        let departed = self
            .states
            .iter()
            .zip(&self.case.tasks)
            .filter(|(state, task)| task.stay == Stay::Departs && state.there);
        let left: i64 = departed.map(|(state, _)| state.held).sum();
        let room = self.case.room_after(left);
        let quiet = self.idle() && self.out.is_none() && self.in_.is_none();
        let back = self
            .states
            .iter()
            .zip(&self.case.tasks)
            .all(|(state, task)| !state.planned || state.swapped <= task.volume_after);
        let may = match self.rules.transition {
            Transition::TwoPhase => self.union_passes || (quiet && back),
            Transition::AtOnce => true,
            Transition::LastDeadline => self.now >= self.last_deadline,
        };
        if !(may && room) {
            return;
        }
        self.pending = false;
        for place in 0..self.case.tasks.len() {
            let task = &self.case.tasks[place];
            let state = &mut self.states[place];
            if task.stay == Stay::Departs {
                continue;
            }
            state.volume = task.volume_after;
            if task.stay == Stay::Arrives {
                state.there = true;
                state.planned = true;
                state.next = self.now + task.first;
                state.ready = self.now;
            }
        }
    }
}
