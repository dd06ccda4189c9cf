//! A job's way: asked for, placed in a queue, granted, ended.

use super::record::{Attachment, Phase};
use super::{Command, EventError, JobEnd, JobKind, JobSeq, Scheduler, Sharing};
use crate::scheduler::job::{Job, Place};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

impl Scheduler {
    pub(super) fn job_requested(
        &mut self,
        id: TaskId,
        seq: JobSeq,
        kind: JobKind,
    ) -> Result<(), EventError> {
        let task = self.attached(id)?;
        if let Some(open) = &task.job {
            return Err(EventError::JobOpen {
                task: id,
                open: open.seq,
                asked: seq,
            });
        }
        if task.last_job == Some(seq) {
            return Err(EventError::JobEnded { task: id, job: seq });
        }
        let now = self.state.now;
        self.judge_cut(id);
        if self.task(id).parked {
            let task = self.task_mut(id);
            task.last_job = Some(seq);
            task.job = Some(Job {
                place: Place::Parked,
                ..Job::new(seq, kind, now)
            });
            return Ok(());
        }
        let realtime = self.try_promote(id, kind);
        let task = self.task_mut(id);
        task.last_job = Some(seq);
        let mut job = Job::new(seq, kind, now);
        let timing = task.timing().filter(|_| realtime);
        if let Some(timing) = timing {
            job.eligible = now.max(task.next_release);
            task.next_release = job.eligible + timing.period;
            job.deadline = Some(job.eligible + timing.deadline);
            job.timing = Some(timing);
            job.place = Place::Later;
            job.wakes = job.eligible;
            self.state.later.insert((job.eligible, id));
        }
        self.task_mut(id).job = Some(job);
        if timing.is_none() {
            self.enqueue(id);
        }
        Ok(())
    }

    /// Decides, when a task requests a job, whether its last one was complete although it was revoked. The rest of
    /// an incomplete job is requested at once; a request after `idle_gap` is for a new job. Without this, a program
    /// would load forever if each of its jobs were revoked just as it ends, by a task with the same period.
    fn judge_cut(&mut self, id: TaskId) {
        let (now, gap) = (self.state.now, self.config.idle_gap);
        let task = self.task_mut(id);
        if let Some((job, fits)) = task.cut.take()
            && now - task.last_left >= gap
        {
            task.proved |= fits;
            self.emit(Command::Whole { task: id, job });
        }
    }

    /// Makes a loading task ready if it can be from now on. Returns whether the task is ready, and so
    /// whether a job requested now is realtime.
    ///
    /// A loading task becomes ready once its plan is in effect and it is out by no more than x,
    /// with its first declared job. If the memory for that is not there the job runs as
    /// best-effort, and the task is ready when it has completed: then it is wholly in.
    ///
    /// A program that declares no jobs gives no sign that it has loaded, and counting its loading
    /// as jobs would charge other tasks for a run without a bound. So it must first show one
    /// implicit job that completed within C without growing the arena (a revoked one counts if
    /// nothing of it was left): that job behaved as the declaration says every job does, and the
    /// next request is the first realtime job.
    fn try_promote(&mut self, id: TaskId, kind: JobKind) -> bool {
        let task = self.task(id);
        if task.phase == Phase::Ready {
            return true;
        }
        let shown = kind == JobKind::Declared || task.proved;
        let Some(volume) = task.plan.filter(|_| task.phase == Phase::Loading && shown) else {
            return false;
        };
        if task.op.is_some() || task.usage.swapped > volume || task.backing < volume {
            return false;
        }
        // A pipelined region that is being filled may count on more of it than x.
        if self.pipelined() && self.state.region.is_some() {
            return false;
        }
        // Whatever it lacks beyond x must be free, and not awaited by another.
        let short = task.short();
        let (asked, extra) = (task.asked, short.saturating_sub(volume));
        if extra > Bytes::ZERO {
            if extra > self.state.free() || self.state.realtime_active() {
                return false;
            }
            self.set_budget(id, asked + extra, None);
        }
        let task = self.task_mut(id);
        task.phase = Phase::Ready;
        task.carried = Bytes::ZERO;
        self.update_volume(id);
        self.revoke_barred();
        true
    }

    pub(super) fn job_completed(&mut self, id: TaskId, seq: JobSeq) -> Result<(), EventError> {
        let job = self.attached(id)?.job.as_ref();
        let job = job.filter(|job| job.granted.is_some() && job.seq == seq);
        let job = job.ok_or(EventError::JobNotGranted { task: id, job: seq })?;
        let kind = job.kind;
        let end = if job.revoked.is_some() {
            JobEnd::Revoked
        } else {
            JobEnd::Completed
        };
        self.end_job(id, end);
        if self.task(id).parked {
            self.leave_ready(id);
        } else if end == JobEnd::Completed {
            self.try_promote(id, kind);
        }
        Ok(())
    }

    /// Ends the open job, wherever it is, with its account.
    pub(super) fn end_job(&mut self, id: TaskId, end: JobEnd) {
        self.close_span();
        let now = self.state.now;
        let Some(mut job) = self.task_mut(id).job.take() else {
            return;
        };
        if job.granted.is_none() {
            job.blocked = self.state.holders.longest(job.eligible);
        }
        self.leave_queue(id, &job);
        match job.place {
            Place::Running => {
                self.state.running.retain(|other| *other != id);
                self.count_turn(id, &job);
                let since = job.granted.unwrap_or(now);
                self.state.holders.note(id, since, now);
            }
            // It may have computed until now.
            Place::Stray => self.count_turn(id, &job),
            _ => {}
        }
        let account = job.account(id, now, end);
        let wcet = self.task(id).timing().map_or(Nanos::ZERO, |t| t.wcet);
        let task = self.task_mut(id);
        if job.granted.is_some() {
            task.last_left = now;
        }
        let fits = account.execution <= wcet && task.usage.arena <= job.arena;
        if job.kind == JobKind::Implicit {
            task.proved |= end == JobEnd::Completed && fits;
            task.cut = (end == JobEnd::Revoked).then_some((job.seq, fits));
        }
        self.emit(Command::Account(account));
    }

    /// Takes `job` of `id` out of the queue or the region in which it waits.
    pub(super) fn leave_queue(&mut self, id: TaskId, job: &Job) {
        match job.place {
            Place::Later | Place::Aside => self.state.later.remove((job.wakes, id)),
            Place::Queue => {
                let due = job.deadline.unwrap_or_default();
                self.state.queue.remove((due, id));
            }
            Place::Region => self.state.region = None,
            Place::BestEffort => self.dequeue(id, job),
            Place::Parked | Place::Running | Place::Stray => {}
        }
    }

    /// Gives the GPU to the job of `id`, which is wholly resident.
    pub(super) fn grant(&mut self, id: TaskId) {
        self.close_span();
        let (now, sharing) = (self.state.now, self.state.sharing);
        let Some(task) = self.state.tasks.get_mut(id) else {
            return;
        };
        task.last_granted = now;
        let arena = task.usage.arena;
        let Some(job) = &mut task.job else {
            return;
        };
        job.blocked = self.state.holders.longest(job.eligible);
        let waited = job.clone();
        job.place = Place::Running;
        job.passed_until = None;
        job.granted = Some(now);
        job.beside = sharing == Sharing::Shared && job.deadline.is_none();
        job.opened = job.opened.or(Some(now));
        job.arena = arena;
        let seq = job.seq;
        self.leave_queue(id, &waited);
        if waited.place == Place::BestEffort {
            self.begin_turn(id);
        }
        self.state.running.push(id);
        self.emit(Command::Grant { task: id, job: seq });
    }

    /// Takes a job out of its queue for `span`, because its memory is not available, so that other jobs
    /// may run.
    pub(super) fn put_aside(&mut self, id: TaskId, span: Nanos) {
        if self.task(id).parked {
            self.hold_job(id);
            return self.leave_ready(id);
        }
        self.close_span();
        let until = self.state.now + span;
        let Some(job) = &mut self.task_mut(id).job else {
            return;
        };
        let waited = job.clone();
        job.place = Place::Aside;
        job.opened = None;
        job.stalled = true;
        job.wakes = until;
        job.failures = 0;
        job.swap_ins = 0;
        job.passed_until = None;
        self.leave_queue(id, &waited);
        self.state.later.insert((until, id));
    }

    /// Moves jobs from `later` into their queues once they are due there.
    pub(super) fn wake_later(&mut self) {
        while let Some((at, id)) = self.state.later.first() {
            if at > self.state.now {
                return;
            }
            self.state.later.pop_first();
            let Some(job) = &mut self.task_mut(id).job else {
                continue;
            };
            if let Some(due) = job.deadline {
                job.place = Place::Queue;
                self.state.queue.insert((due, id));
            } else {
                job.place = Place::BestEffort;
                self.enqueue(id);
            }
        }
    }

    /// Whether a job of `id` could run as far as its memory goes.
    pub(super) fn wholly_resident(&self, id: TaskId) -> bool {
        let task = self.task(id);
        task.op.is_none()
            && task.attachment == Attachment::Attached
            && task.usage.swapped == Bytes::ZERO
            && task.short() == Bytes::ZERO
    }
}
