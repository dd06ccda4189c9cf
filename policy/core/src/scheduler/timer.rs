//! Bounds that pass without an event: WCETs, swap operations, quanta, wants.

use alloc::format;

use super::state::Settled;
use super::swap::allowance;
use super::wants::REQUEST_TIMEOUT;
use super::{Overrun, Scheduler, ViolationKind};
use crate::scheduler::job::Place;
use crate::task::TaskId;
use crate::units::{Nanos, Time};

impl Scheduler {
    /// Does what is due by now.
    pub(super) fn check_bounds(&mut self) {
        for place in 0..self.state.running.len() {
            let id = self.state.running[place];
            if self.wcet_passes(id).is_some_and(|at| at < self.state.now) {
                self.overran(id);
            }
        }
        while let Some((at, id)) = self.stray_passes()
            && at <= self.state.now
        {
            self.strays(id);
        }
        for id in [self.state.out, self.state.in_].into_iter().flatten() {
            let op = self.task(id).op.as_ref();
            if op.is_some_and(|op| op.due <= self.state.now) {
                self.overdue(id);
            }
        }
        for place in 0..self.state.running.len() {
            let id = self.state.running[place];
            if self
                .quantum_expires(id)
                .is_some_and(|at| at <= self.state.now)
            {
                self.revoke(id);
            }
        }
    }

    /// When the realtime job of `id` that runs has had its C + ε; not once that was said.
    fn wcet_passes(&self, id: TaskId) -> Option<Time> {
        let task = self.task(id);
        let job = task.job.as_ref()?;
        job.deadline.filter(|_| !job.overrun)?;
        let bound = self.config.platform().execution(&task.timing()?);
        Some(job.granted? + bound)
    }

    fn overran(&mut self, id: TaskId) {
        let policy = self.config.overrun;
        let task = self.task_mut(id);
        let wcet = task.timing().map_or(Nanos::ZERO, |timing| timing.wcet);
        let Some(job) = &mut task.job else {
            return;
        };
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

    /// Which revoked job is to have left the GPU next, and when.
    fn stray_passes(&self) -> Option<(Time, TaskId)> {
        let bound = allowance(self.config.drain);
        let due = |id: &TaskId| Some((self.task(*id).job.as_ref()?.revoked? + bound, *id));
        self.state.running.iter().filter_map(due).min()
    }

    /// A revoked job does not leave the GPU: others go on beside it, and its memory stays.
    fn strays(&mut self, id: TaskId) {
        self.state.running.retain(|other| *other != id);
        let now = self.state.now;
        let Some(job) = &mut self.task_mut(id).job else {
            return;
        };
        job.place = Place::Stray;
        let (seq, since) = (job.seq.0, now - job.revoked.unwrap_or(now));
        let held_since = job.granted.unwrap_or(now);
        self.state.holders.note(id, held_since, now);
        let detail = format!(
            "job {seq} has not left the GPU {since} after it was revoked: others go on beside it"
        );
        self.violation(id, ViolationKind::Undrainable, detail);
    }

    /// An operation is not acknowledged in time: its engine is used by others again, the task
    /// keeps its memory and is left alone until its agent answers.
    fn overdue(&mut self, id: TaskId) {
        let now = self.state.now;
        let Some(op) = &mut self.task_mut(id).op else {
            return;
        };
        op.overdue = true;
        let (seq, since) = (op.seq.0, now - op.started);
        for engine in [&mut self.state.out, &mut self.state.in_] {
            if *engine == Some(id) {
                *engine = None;
            }
        }
        let detail = format!("swap operation {seq} is not acknowledged after {since}");
        self.violation(id, ViolationKind::SwapOverdue, detail);
        if self
            .task(id)
            .job
            .as_ref()
            .is_some_and(|job| job.place == Place::Region)
        {
            self.put_aside(id, super::region::ASIDE);
        }
    }

    /// When the best-effort job of `id`, which runs, must give way to others that wait.
    fn quantum_expires(&self, id: TaskId) -> Option<Time> {
        let state = &self.state;
        if state.best_effort.is_empty() && state.wants.iter().all(|waiting| *waiting == id) {
            return None;
        }
        let job = self.task(id).job.as_ref()?;
        let best_effort = job.deadline.is_none() && job.revoked.is_none();
        Some(job.granted.filter(|_| best_effort)? + self.config.best_effort_quantum)
    }

    pub(super) fn next_timeout(&mut self) -> Option<Time> {
        let memory_frees = self.state.settled().memory_frees();
        let state = &self.state;
        let released = state.later.first().map(|(at, _)| at);
        let overruns = state
            .running
            .iter()
            .filter_map(|id| Some(self.wcet_passes(*id)? + Nanos(1)));
        let quanta = state
            .running
            .iter()
            .filter_map(|id| self.quantum_expires(*id));
        let engines = [state.out, state.in_];
        let ops = engines
            .iter()
            .flatten()
            .filter_map(|id| Some(self.task(*id).op.as_ref()?.due));
        let requests = state
            .wants
            .iter()
            .filter_map(|id| Some(self.task(*id).want?.since + REQUEST_TIMEOUT));
        released
            .into_iter()
            .chain(memory_frees)
            .chain(overruns)
            .chain(self.stray_passes().map(|(at, _)| at))
            .chain(ops)
            .chain(requests)
            .chain(quanta)
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
