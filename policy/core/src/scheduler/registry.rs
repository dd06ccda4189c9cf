//! How tasks are registered, attached and detached, and what they leave behind.

use super::discipline::Standing;
use super::recent::Recent;
use super::record::{Attachment, Op, Phase, Task};
use super::region::ASIDE;
use super::{Direction, EventError, JobEnd, OpenJob, Refusal, Scheduler, Usage};
use crate::scheduler::job::{Job, Place};
use crate::task::{Class, MemoryProfile, TaskId, TaskSpec};
use crate::units::{Bytes, Nanos, Time};

/// The most tasks that one GPU can have, those included of which only memory is left.
pub const MAX_TASKS: usize = 4_096;

impl Scheduler {
    /// Takes in a task that is admitted, and returns x under the plan.
    pub(super) fn admit(&mut self, id: TaskId, spec: TaskSpec) -> Result<Bytes, Refusal> {
        self.room(id)?;
        sound(&spec)?;
        let realtime = matches!(spec.class, Class::Realtime(_));
        let now = self.state.now;
        let mut task = Task::new(spec, self.config.chunk, now);
        if let Some(at) = self.state.remembered.get(&task.spec.name) {
            task.next_release = *at;
        }
        if realtime {
            task.phase = Phase::Loading;
            task.next = Some(Bytes::ZERO);
        }
        self.state.insert(id, task);
        self.reserve_commands();
        if realtime {
            match self.solve() {
                Ok(volumes) => self.intend(&volumes),
                Err(refusal) => {
                    self.state.forget(id);
                    return Err(refusal);
                }
            }
        }
        self.state.remembered.retain(|_, at| *at > now);
        Ok(self.task(id).next.unwrap_or(Bytes::ZERO))
    }

    /// Whether there is room for another task, of this id.
    fn room(&self, id: TaskId) -> Result<(), Refusal> {
        let tasks = self.state.tasks.len();
        if self.state.tasks.contains(id) {
            Err(Refusal::KnownTask(id))
        } else if tasks >= MAX_TASKS {
            Err(Refusal::Full { tasks })
        } else {
            Ok(())
        }
    }

    pub(super) fn unregister(&mut self, id: TaskId) -> Result<(), EventError> {
        let task = self
            .state
            .tasks
            .get_mut(id)
            .ok_or(EventError::UnknownTask(id))?;
        if !task.registered {
            return Err(EventError::NotRegistered(id));
        }
        task.registered = false;
        let (name, at) = (task.spec.name.clone(), task.next_release);
        if at > self.state.now {
            self.remember(name, at);
        }
        self.leave_plan(id);
        // From now on nobody could resume it.
        self.resume(id)?;
        self.forget_if_gone(id);
        Ok(())
    }

    pub(super) fn demote(&mut self, id: TaskId) -> Result<(), EventError> {
        self.known(id)?;
        self.leave_plan(id);
        Ok(())
    }

    pub(super) fn attach(
        &mut self,
        id: TaskId,
        usage: Usage,
        backing: Bytes,
        open: Option<OpenJob>,
    ) -> Result<(), EventError> {
        let task = self.known(id)?;
        if !task.registered && task.attachment == Attachment::Absent {
            return Err(EventError::NotRegistered(id));
        }
        self.plausible(id, usage, usage.swapped, backing)?;
        let runs = open.is_some_and(|open| open.running);
        if runs && usage.swapped > Bytes::ZERO {
            return Err(EventError::Impossible {
                task: id,
                what: "swapped out while its job runs",
                bytes: usage.swapped,
            });
        }
        if self.task(id).attachment == Attachment::Attached {
            self.lost(id)?;
        }
        let now = self.state.now;
        let task = self.task_mut(id);
        task.attachment = Attachment::Attached;
        task.last_given = now;
        if task.plan.is_some() || task.next.is_some() {
            task.phase = Phase::Loading;
        }
        task.usage = usage;
        task.unreported = Bytes::ZERO;
        task.backing = backing;
        task.carried = usage.swapped;
        task.moved_nothing = false;
        // A process that was lost may use its former budget until it has confirmed the new one.
        let budget = task.budget.max(usage.resident);
        self.overtaken_by_truth(id, budget);
        self.set_budget(id, usage.resident, None);
        self.task_mut(id).claimed = Bytes::ZERO;
        self.update_volume(id);
        if let Some(open) = open {
            if open.running {
                self.adopt(id, open);
            } else {
                self.job_requested(id, open.job, open.kind)?;
            }
        }
        Ok(())
    }

    /// Takes over a job that runs already: it goes on, as best-effort, since nothing is known of
    /// its release.
    fn adopt(&mut self, id: TaskId, open: OpenJob) {
        let now = self.state.now;
        let task = self.task_mut(id);
        task.last_job = Some(open.job);
        task.last_granted = now;
        task.job = Some(Job {
            place: Place::Running,
            opened: Some(now),
            granted: Some(now),
            beside: true,
            arena: task.usage.arena,
            ..Job::new(open.job, open.kind, now)
        });
        self.state.running.push(id);
    }

    pub(super) fn detach(&mut self, id: TaskId) -> Result<(), EventError> {
        self.with_process(id)?;
        self.drop_attachment(id);
        self.expect_release();
        let task = self.task_mut(id);
        task.attachment = Attachment::Absent;
        task.dying += task.budget;
        task.budget = Bytes::ZERO;
        task.asked = Bytes::ZERO;
        task.claimed = Bytes::ZERO;
        task.usage = Usage::default();
        task.unreported = Bytes::ZERO;
        task.backing = Bytes::ZERO;
        task.backing_most = None;
        task.keeps_backing = false;
        task.has_shed = false;
        task.carried = Bytes::ZERO;
        task.proved = false;
        task.cut = None;
        if task.phase == Phase::Ready {
            task.phase = Phase::Loading;
        }
        self.forget_if_gone(id);
        Ok(())
    }

    /// What is held stays the same: another part of it may be dying.
    pub(super) fn regrouped(
        &mut self,
        id: TaskId,
        dying: Bytes,
        usage: Usage,
        backing: Bytes,
    ) -> Result<(), EventError> {
        let most = self.with_process(id)?.out();
        self.plausible(id, usage, most, backing)?;
        if dying > Bytes::ZERO {
            self.expect_release();
        }
        let task = self.task_mut(id);
        let dying = dying.min(task.budget);
        task.dying += dying;
        task.budget -= dying;
        task.asked = task.asked.saturating_sub(dying).min(task.budget);
        task.claimed = task.claimed.saturating_sub(dying).min(task.asked);
        task.usage = usage;
        task.unreported = Bytes::ZERO;
        task.backing = backing;
        let beyond = task.holds() > task.asked;
        let inward = |op: &&mut Op| op.direction == Direction::In && !op.pipelined && !op.aborting;
        if task.op.as_mut().is_some_and(|op| inward(&op)) && beyond {
            // It was given the budget for what the task was said to have, and waits for the rest.
            self.abort(id);
        }
        self.review_claim(id);
        self.update_volume(id);
        Ok(())
    }

    /// A task of which a process lives, whether its agent speaks or not.
    fn with_process(&self, id: TaskId) -> Result<&Task, EventError> {
        let task = self.known(id)?;
        match task.attachment {
            Attachment::Absent => Err(EventError::NotAttached(id)),
            Attachment::Attached | Attachment::Lost => Ok(task),
        }
    }

    /// Jobs wait a while for what is dying before others may pass them.
    fn expect_release(&mut self) {
        let now = self.state.now;
        if self.state.released_by <= now {
            self.state.released_by = now + ASIDE;
        }
    }

    pub(super) fn released(&mut self, id: TaskId) -> Result<(), EventError> {
        let task = self
            .state
            .tasks
            .get_mut(id)
            .ok_or(EventError::UnknownTask(id))?;
        if task.dying == Bytes::ZERO {
            return Err(EventError::NotDying(id));
        }
        self.state.held -= task.dying;
        task.dying = Bytes::ZERO;
        self.forget_if_gone(id);
        Ok(())
    }

    pub(super) fn lost(&mut self, id: TaskId) -> Result<(), EventError> {
        self.attached(id)?;
        self.drop_attachment(id);
        let task = self.task_mut(id);
        task.attachment = Attachment::Lost;
        if task.phase == Phase::Ready {
            task.phase = Phase::Loading;
        }
        Ok(())
    }

    /// Ends all that needs an agent. The memory stays counted.
    fn drop_attachment(&mut self, id: TaskId) {
        self.end_job(id, JobEnd::TaskGone);
        self.drop_op(id);
        let task = self.task_mut(id);
        task.unanswered = 0;
        task.asked = task.budget;
        task.backing_asked = None;
        task.last_job = None;
        if task.want.take().is_some() {
            self.state.wants.retain(|waiting| *waiting != id);
        }
    }

    /// Frees the copy engine that a task without an agent occupied.
    fn drop_op(&mut self, id: TaskId) {
        let Some(Op {
            direction, overdue, ..
        }) = self.task_mut(id).op.take()
        else {
            return;
        };
        if !overdue {
            match direction {
                Direction::Out => self.state.out = None,
                Direction::In => self.state.in_ = None,
            }
        }
    }

    fn forget_if_gone(&mut self, id: TaskId) {
        let task = self.task(id);
        if !task.registered && task.attachment == Attachment::Absent && task.dying == Bytes::ZERO {
            self.state.forget(id);
        }
    }
}

/// Whether what a task declares can be.
pub(super) fn sound(spec: &TaskSpec) -> Result<(), Refusal> {
    let MemoryProfile {
        footprint,
        swappable,
    } = spec.memory;
    if swappable > footprint {
        return Err(Refusal::Swappable {
            name: spec.name.clone(),
            swappable,
            footprint,
        });
    }
    if let Class::Realtime(t) = spec.class
        && !(Nanos::ZERO < t.wcet && t.wcet <= t.deadline && t.deadline <= t.period)
    {
        return Err(Refusal::Timing {
            name: spec.name.clone(),
            wcet: t.wcet,
            deadline: t.deadline,
            period: t.period,
        });
    }
    Ok(())
}

impl Task {
    fn new(spec: TaskSpec, chunk: Bytes, now: Time) -> Self {
        let standing = Standing::of(spec.weight);
        Self {
            footprint: spec.memory.footprint.round_up(chunk),
            spec,
            registered: true,
            attachment: Attachment::Absent,
            phase: Phase::BestEffort,
            parked: false,
            proved: false,
            cut: None,
            usage: Usage::default(),
            unreported: Bytes::ZERO,
            budget: Bytes::ZERO,
            asked: Bytes::ZERO,
            claimed: Bytes::ZERO,
            unanswered: 0,
            dying: Bytes::ZERO,
            backing: Bytes::ZERO,
            backing_asked: None,
            backing_most: None,
            op: None,
            last_op: 0,
            spared_until: Time::ZERO,
            moved_nothing: false,
            fresh_until: Time::ZERO,
            barred_until: Time::ZERO,
            barred_loading_until: Time::ZERO,
            keeps_backing: false,
            has_shed: false,
            want: None,
            plan: None,
            next: None,
            carried: Bytes::ZERO,
            job: None,
            last_job: None,
            next_release: Time::ZERO,
            last_granted: Time::ZERO,
            last_left: Time::ZERO,
            last_given: now,
            standing,
            ran: Recent::from(now),
            moved: Recent::from(now),
            waited: Recent::from(now),
            touched: false,
        }
    }
}
