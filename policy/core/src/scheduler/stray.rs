//! Processes that do not do as they are told, and what that costs the others: at most the drain bound S,
//! which the admission tests charge. `barred_until` keeps those away from realtime that did so before.

use alloc::format;
use alloc::string::String;

use super::record::{Op, Phase};
use super::swap::allowance;
use super::{Command, Direction, EventError, Scheduler, Undrained, ViolationKind};
use crate::scheduler::job::Place;
use crate::task::TaskId;
use crate::units::{Nanos, Time};

/// How far a realtime job may be past its C before others go on beside it: this or 4·C, whichever is
/// more. Nothing that is charged depends on it.
const OVERRUN_FLOOR: Nanos = Nanos(1_000_000_000);

/// How long a job may take to leave the GPU for other best-effort jobs: nothing is promised to them.
const PATIENCE: Nanos = Nanos(1_000_000_000);

/// How long a barred job is put aside at a time: the realtime tasks may leave meanwhile.
const BARRED: Nanos = Nanos(1_000_000_000);

impl Scheduler {
    /// Has the swap operation of `id` stop at the next chunk, within the drain bound.
    pub(super) fn abort(&mut self, id: TaskId) {
        let within = self.state.now + self.leaving_bound() + Nanos(1);
        let Some(op) = &mut self.task_mut(id).op else {
            return;
        };
        op.aborting = true;
        op.due = op.due.min(within);
        let op = op.seq;
        self.emit(Command::Abort { task: id, op });
    }

    /// How long a job or an operation may take to end once it is to leave. With a drain bound of zero,
    /// nothing is promised beside best-effort, and this is what any agent gets.
    pub(super) fn leaving_bound(&self) -> Nanos {
        match self.config.drain {
            Nanos::ZERO => allowance(Nanos::ZERO),
            drain => drain,
        }
    }

    /// Goes on beside the jobs that have not left the GPU in time.
    pub(super) fn check_drains(&mut self) {
        while let Some((at, id)) = self.drain_passes()
            && at <= self.state.now
        {
            self.undrained(id);
        }
    }

    /// Which job is to have left the GPU next, and when: the first instant past its bound.
    pub(super) fn drain_passes(&self) -> Option<(Time, TaskId)> {
        let running = self.state.running.iter();
        let due = running.filter_map(|id| Some((self.drain_bound(*id)? + Nanos(1), *id)));
        due.min()
    }

    /// Until when the job of `id`, which runs, may hold the GPU.
    fn drain_bound(&self, id: TaskId) -> Option<Time> {
        let job = self.task(id).job.as_ref()?;
        if let Some(timing) = job.bounds() {
            let run = self.config.platform().execution(&timing);
            let past = Nanos(timing.wcet.0.saturating_mul(4)).max(OVERRUN_FLOOR);
            return Some(job.granted? + run + past);
        }
        let leaves = if job.yields {
            PATIENCE.max(self.leaving_bound())
        } else {
            self.leaving_bound()
        };
        let killed = match self.config.undrained {
            Undrained::Kill(bound) if job.undrained => bound,
            Undrained::Kill(_) | Undrained::Beside => Nanos::ZERO,
        };
        Some(job.revoked? + leaves + killed)
    }

    /// A job has not left the GPU in time.
    fn undrained(&mut self, id: TaskId) {
        let now = self.state.now;
        let kills = matches!(self.config.undrained, Undrained::Kill(_));
        let Some(job) = &mut self.task_mut(id).job else {
            return;
        };
        let seq = job.seq.0;
        if job.deadline.is_some() {
            let since = now - job.granted.unwrap_or(now);
            let detail = format!(
                "job {seq} has held the GPU for {since}: others go on beside it, and its task is \
                 best-effort now"
            );
            return self.strays(id, ViolationKind::Undrainable, detail);
        }
        let since = now - job.revoked.unwrap_or(now);
        if !core::mem::replace(&mut job.undrained, true) && kills {
            let detail = format!("job {seq} has not left the GPU {since} after it was revoked");
            return self.violation(id, ViolationKind::Undrainable, detail);
        }
        let detail = format!(
            "job {seq} has not left the GPU {since} after it was revoked: others go on beside it, and \
             no promise holds while it computes"
        );
        self.strays(id, ViolationKind::Undrainable, detail);
    }

    /// Others go on beside the job of `id`, and its memory stays.
    fn strays(&mut self, id: TaskId, kind: ViolationKind, detail: String) {
        self.state.running.retain(|other| *other != id);
        let now = self.state.now;
        let Some(job) = &mut self.task_mut(id).job else {
            return;
        };
        job.place = Place::Stray;
        let was_realtime = job.deadline.take().is_some();
        let held_since = job.granted.unwrap_or(now);
        self.state.holders.note(id, held_since, now);
        self.violation(id, kind, detail);
        if was_realtime {
            self.leave_plan(id);
        }
    }

    /// The processes of a task are stopped: nobody waits for what they were told.
    pub(super) fn stopped(&mut self, id: TaskId) -> Result<(), EventError> {
        let now = self.state.now;
        let task = self.known(id)?;
        let is_realtime = task.phase == Phase::Ready;
        // One that was asked to leave has its bound, and what follows from that.
        let own = |op: &Op| op.direction == Direction::In && !op.overdue;
        if task.op.as_ref().is_some_and(own) {
            self.overdue(id, ViolationKind::Stopped);
        }
        let runs = self.state.running.contains(&id);
        if runs && !is_realtime {
            self.revoke(id);
            let seq = self.task(id).job.as_ref().map_or(0, |job| job.seq.0);
            let since = now - self.task(id).last_granted;
            let detail = format!(
                "its process is stopped {since} after job {seq} was granted: others go on beside it"
            );
            self.strays(id, ViolationKind::Stopped, detail);
        }
        Ok(())
    }

    pub(super) fn bar(
        &mut self,
        id: TaskId,
        until: Time,
        while_loading: bool,
    ) -> Result<(), EventError> {
        self.known(id)?;
        let task = self.task_mut(id);
        task.barred_until = task.barred_until.max(until);
        if while_loading {
            task.barred_loading_until = task.barred_loading_until.max(until);
        }
        if self.state.barred_until(id).is_some() && self.state.running.contains(&id) {
            self.revoke(id);
        }
        Ok(())
    }

    /// A task has become ready: those that are barred beside it leave the GPU.
    pub(super) fn revoke_barred(&mut self) {
        for place in 0..self.state.running.len() {
            let id = self.state.running[place];
            if self.state.barred_until(id).is_some() {
                self.revoke(id);
            }
        }
    }

    /// Puts the best-effort job of `id` aside if it is barred; returns whether it is.
    pub(super) fn holds_off(&mut self, id: TaskId) -> bool {
        let Some(until) = self.state.barred_until(id) else {
            return false;
        };
        self.put_aside(id, (until - self.state.now).min(BARRED));
        true
    }
}
