//! Bounds that pass without an event: WCETs, swap operations, quanta, wants; `stray` has those of jobs that
//! do not leave the GPU.

use alloc::format;

use super::best_effort::LOOK;
use super::state::Settled;
use super::{Command, Overrun, Scheduler, Sharing, ViolationKind};
use crate::scheduler::job::Place;
use crate::task::TaskId;
use crate::units::{Nanos, Time};

/// How long a best-effort job keeps the GPU when another task asks for memory.
const WANT_QUANTUM: Nanos = Nanos(100_000_000);

impl Scheduler {
    /// Does what is due by now.
    pub(super) fn check_bounds(&mut self) {
        for place in 0..self.state.running.len() {
            let id = self.state.running[place];
            if self.wcet_passes(id).is_some_and(|at| at < self.state.now) {
                self.overran(id);
            }
        }
        self.check_drains();
        for id in [self.state.out, self.state.in_].into_iter().flatten() {
            let op = self.task(id).op.as_ref();
            if op.is_some_and(|op| op.due <= self.state.now) {
                self.overdue(id, ViolationKind::SwapOverdue);
            }
        }
        for place in 0..self.state.running.len() {
            let id = self.state.running[place];
            if self.gives_way(id).is_some_and(|at| at <= self.state.now) {
                self.give_way(id);
            }
        }
    }

    /// When the realtime job of `id` that runs has had its C + ε; not once that was said.
    fn wcet_passes(&self, id: TaskId) -> Option<Time> {
        let job = self.task(id).job.as_ref()?;
        let timing = job.bounds().filter(|_| !job.overrun)?;
        Some(job.granted? + self.config.platform().execution(&timing))
    }

    fn overran(&mut self, id: TaskId) {
        let policy = self.config.overrun;
        let Some(job) = &mut self.task_mut(id).job else {
            return;
        };
        let wcet = job.timing.map_or(Nanos::ZERO, |timing| timing.wcet);
        job.overrun = true;
        let seq = job.seq.0;
        let what = match policy {
            Overrun::Continue => "it goes on, and no guarantee holds for this busy period",
            Overrun::Demote => {
                job.deadline = None;
                "its task is best-effort now, which costs the others one drain"
            }
        };
        let detail = format!("job {seq} ran past its WCET of {wcet}: {what}");
        self.violation(id, ViolationKind::Overrun, detail);
        if policy == Overrun::Demote {
            self.leave_plan(id);
        }
    }

    /// An operation is not acknowledged in time: its engine is used by others again, the task
    /// keeps its memory and is left alone until its agent answers.
    pub(super) fn overdue(&mut self, id: TaskId, kind: ViolationKind) {
        let now = self.state.now;
        let Some(op) = &mut self.task_mut(id).op else {
            return;
        };
        op.overdue = true;
        let (seq, since) = (op.seq.0, now - op.started);
        if op.pipelined && !op.aborting {
            // Its agent may be waiting for chunks of others, and would never answer.
            op.aborting = true;
            let op = op.seq;
            self.emit(Command::Abort { task: id, op });
        }
        for engine in [&mut self.state.out, &mut self.state.in_] {
            if *engine == Some(id) {
                *engine = None;
            }
        }
        // A change of turns that waited for it says nothing of how long others take.
        self.state.turns.change = None;
        let detail = format!("swap operation {seq} is not acknowledged after {since}");
        self.violation(id, kind, detail);
        if self
            .task(id)
            .job
            .as_ref()
            .is_some_and(|job| job.place == Place::Region)
        {
            self.put_aside(id, super::region::ASIDE);
        }
    }

    /// When the best-effort job of `id`, which runs, must give way to another that waits and needs nothing
    /// but the GPU, or to a request for memory; at once if its task is parked.
    fn gives_way(&self, id: TaskId) -> Option<Time> {
        let state = &self.state;
        let job = self.task(id).job.as_ref()?;
        let best_effort = job.deadline.is_none() && job.revoked.is_none();
        let granted = job.granted.filter(|_| best_effort)?;
        if self.task(id).parked {
            return Some(granted);
        }
        let asked = state.open_wants().any(|waiting| waiting != id);
        let asked = asked.then_some(granted + WANT_QUANTUM);
        let others = self
            .next_ones()
            .filter(|other| self.wholly_resident(*other));
        let others = others.filter(|_| state.sharing == Sharing::Exclusive);
        others
            .map(|other| self.turn_ends(id, other))
            .chain(asked)
            .min()
    }

    /// The first of those that wait for a turn, and the oldest.
    pub(super) fn next_ones(&self) -> impl Iterator<Item = TaskId> + '_ {
        let oldest = self.state.turns.ages.first().map(|(_, id)| id);
        let first = self.state.best_effort.iter().map(|(_, id)| id);
        first.take(LOOK).chain(oldest)
    }

    /// When the next turn may begin for a task that is not wholly resident.
    fn turn_comes(&self) -> Option<Time> {
        if self.state.best_effort.is_empty() || self.state.realtime_active() {
            return None;
        }
        let waits = |id: &TaskId| !self.wholly_resident(*id) && self.task(*id).op.is_none();
        let due = |id: TaskId| {
            let wakes = self
                .task(id)
                .job
                .as_ref()
                .map_or(Time::ZERO, |job| job.wakes);
            self.turn_due(id).max(wakes)
        };
        let times = self.next_ones().filter(waits).map(due);
        times.filter(|at| *at > self.state.now).min()
    }

    pub(super) fn next_timeout(&mut self) -> Option<Time> {
        let settled = self.state.settled();
        let (memory_frees, idles_out) = (settled.memory_frees(), settled.idles_out());
        let state = &self.state;
        let released = state.later.first().map(|(at, _)| at);
        let overruns = state
            .running
            .iter()
            .filter_map(|id| Some(self.wcet_passes(*id)? + Nanos(1)));
        let quanta = state.running.iter().filter_map(|id| self.gives_way(*id));
        let engines = [state.out, state.in_];
        let ops = engines
            .iter()
            .flatten()
            .filter_map(|id| Some(self.task(*id).op.as_ref()?.due));
        let requests = state
            .open_wants()
            .filter_map(|id| self.task(id).request_ends());
        released
            .into_iter()
            .chain(memory_frees)
            .chain(idles_out)
            .chain(overruns)
            .chain(self.drain_passes().map(|(at, _)| at))
            .chain(ops)
            .chain(requests)
            .chain(quanta)
            .chain(self.turn_comes())
            .chain(state.retry)
            .min()
    }
}

impl Settled<'_> {
    /// When more memory may be had than now, as time alone passes.
    pub(super) fn memory_frees(self) -> Option<Time> {
        let waits = self.region.is_some() || !self.queue.is_empty();
        let release = (waits && self.awaits_release()).then_some(self.released_by);
        let fresh = self.fresh_passes().filter(|_| !self.wants.is_empty());
        let times = [self.spared_passes(), fresh, release];
        times.into_iter().flatten().min()
    }
}
