//! Tasks that leave the GPU before others need their memory: parked tasks, which run nothing until they are resumed, and
//! idle best-effort tasks.
//!
//! A parked realtime task keeps its place in the plan, so its return needs no admission, but it is treated as
//! one that loads. All of this has the priority of best-effort, so realtime tasks do not notice it.

use super::record::{Cause, Op, Phase};
use super::{Direction, EventError, Scheduler};
use crate::scheduler::job::{Job, Place};
use crate::task::TaskId;
use crate::units::Bytes;

impl Scheduler {
    pub(super) fn park(&mut self, id: TaskId) -> Result<(), EventError> {
        let task = self.known(id)?;
        if !task.registered {
            return Err(EventError::NotRegistered(id));
        }
        if task.parked {
            return Ok(());
        }
        let comes = task.op.as_ref().is_some_and(|op| {
            let inward = op.direction == Direction::In && op.cause == Cause::BestEffort;
            inward && !op.aborting && !op.overdue
        });
        self.task_mut(id).parked = true;
        if comes {
            self.abort(id);
        }
        if !self.task(id).is_busy() {
            self.hold_job(id);
            self.leave_ready(id);
        }
        Ok(())
    }

    pub(super) fn resume(&mut self, id: TaskId) -> Result<(), EventError> {
        if !self.known(id)?.parked {
            return Ok(());
        }
        let now = self.state.now;
        let task = self.task_mut(id);
        task.parked = false;
        if let Some(want) = &mut task.want {
            want.since = now;
            want.stalled_since = now;
        }
        if let Some(job) = task.job.as_mut().filter(|job| job.place == Place::Parked) {
            *job = Job::new(job.seq, job.kind, now);
            self.enqueue(id);
        }
        Ok(())
    }

    /// Has the job of `id`, which is parked, wait outside all queues.
    pub(super) fn hold_job(&mut self, id: TaskId) {
        self.close_span();
        let now = self.state.now;
        let Some(job) = self.task(id).job.clone() else {
            return;
        };
        self.leave_queue(id, &job);
        self.task_mut(id).job = Some(Job {
            place: Place::Parked,
            ..Job::new(job.seq, job.kind, now)
        });
    }

    /// A parked task that was ready is treated as one that loads once no job of it is in its region or runs.
    pub(super) fn leave_ready(&mut self, id: TaskId) {
        let task = self.task_mut(id);
        if task.phase == Phase::Ready {
            task.phase = Phase::Loading;
            self.update_volume(id);
        }
    }

    /// Has parked tasks leave the GPU, for no task in particular. They are the first victims.
    pub(super) fn swap_out_parked(&mut self) {
        if self.state.realtime_active() {
            return;
        }
        let mut last = None;
        while let Some(victim) = self.state.settled().victim_after(last)
            && self.task(victim.2).parked
        {
            last = Some(victim);
            let (_, _, id) = victim;
            self.swap_out_wholly(id);
        }
    }

    /// Has best-effort tasks leave the GPU that have idled for as long as they may: the one that should have left
    /// first goes first. While one leaves, the rest waits.
    pub(super) fn swap_out_idle(&mut self) {
        if self.state.realtime_active() {
            return;
        }
        let mut last = None;
        while self.state.out.is_none()
            && let Some(idle) = self.state.settled().idle_after(last)
            && idle.0 <= self.state.now
        {
            last = Some(idle);
            self.swap_out_wholly(idle.1);
        }
    }

    /// Where a task leaves for no other and has work again, the rest of it stays.
    pub(super) fn keep_if_busy(&mut self) {
        let Some(id) = self.state.out else { return };
        let task = self.task(id);
        let has_work = !task.parked && (task.job.is_some() || task.want.is_some());
        let for_none = |op: &Op| op.cause == Cause::BestEffort && op.beneficiary.is_none();
        let stops = |op: &Op| for_none(op) && !op.aborting && !op.overdue;
        if has_work && task.op.as_ref().is_some_and(stops) {
            self.abort(id);
        }
    }

    /// Takes back what `id` does not use, and has all leave that can leave now.
    fn swap_out_wholly(&mut self, id: TaskId) {
        if self.task(id).spared_until > self.state.now {
            return;
        }
        self.reclaim_unused(id, Bytes::MAX, Cause::BestEffort);
        let task = self.task(id);
        let leaves = task.can_leave(Cause::BestEffort, task.asked, self.config.chunk);
        if leaves > Bytes::ZERO && self.state.out.is_none() {
            let target = task.usage.swapped + leaves;
            self.start_swap(id, Direction::Out, target, Cause::BestEffort, None);
        }
    }
}
