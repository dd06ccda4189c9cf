//! Which volumes hold, and how others take their place: every agent grows its backing store and
//! confirms; then the new plan takes effect at once if the test passes with the larger demand of
//! each task under either plan and of those that have left, else at the first quiet instant.

use alloc::format;
use alloc::vec::Vec;

use super::record::{Cause, Phase, Task};
use super::{Direction, Scheduler, ViolationKind};
use crate::admission::Candidate;
use crate::scheduler::job::Place;
use crate::task::{TaskId, Timing};
use crate::units::Bytes;

impl Scheduler {
    /// The tasks of the plan to come.
    pub(super) fn members(&self) -> Vec<(TaskId, Timing)> {
        self.state
            .tasks
            .iter()
            .filter(|(_, task)| task.next.is_some())
            .filter_map(|(id, task)| Some((id, task.timing()?)))
            .collect()
    }

    /// Makes `volumes` the plan to come.
    pub(super) fn intend(&mut self, volumes: &[(TaskId, Bytes)]) {
        for (id, volume) in volumes {
            self.task_mut(*id).next = Some(*volume);
        }
        self.review_pending();
        for (id, _) in volumes {
            self.update_volume(*id);
        }
    }

    /// Whether a plan is to come, and whether it may come at once. What counts is the memory that tasks are
    /// short of, not only swaps: budget that was taken back without a swap must be brought in again, too.
    fn review_pending(&mut self) {
        let changes = self.state.tasks.values().any(|task| task.next != task.plan);
        if !changes {
            self.state.pending = None;
            return;
        }
        let mut charged = self.state.charged.clone();
        for (id, timing) in self.members() {
            let task = self.task(id);
            let volume = task
                .plan
                .max(task.next)
                .unwrap_or_default()
                .max(task.owes());
            let entry = charged.entry(id).or_insert((timing, volume));
            *entry = (entry.0.worse(timing), entry.1.max(volume));
        }
        let candidates: Vec<_> = charged
            .values()
            .map(|(timing, volume)| Candidate {
                timing: *timing,
                volume: *volume,
            })
            .collect();
        self.state.pending = Some(self.config.test.holds(&self.config.platform(), &candidates));
    }

    /// Puts the next plan into effect if that is allowed now. At a quiet instant it also stops charging
    /// tasks that have left the plan: no job can still be delayed by their swap operations.
    pub(super) fn change_plan(&mut self) {
        if !self.state.stale && self.state.pending.is_none() {
            return;
        }
        if self.state.stale && self.state.settled().quiet() {
            self.state.charged = self.in_effect();
            self.state.stale = false;
            self.review_pending();
        }
        let Some(at_once) = self.state.pending else {
            return;
        };
        let state = self.state.settled();
        let pinned = state.sums().unpinned == 0;
        let room = state.planned(None, Bytes::ZERO, true)
            + state.unmovable(None, Bytes::ZERO, true)
            <= state.capacity;
        let quiet = state.quiet();
        let back = state.sums().beyond == 0;
        if pinned && room && (at_once || (quiet && back)) {
            self.take_effect(quiet && back);
        }
    }

    fn take_effect(&mut self, afresh: bool) {
        let members = self.members();
        let mut charged = core::mem::take(&mut self.state.charged);
        if afresh {
            charged.clear();
        }
        for (id, timing) in &members {
            let task = self.task_mut(*id);
            let former = task.plan.unwrap_or_default();
            task.plan = task.next;
            let volume = task.next.unwrap_or_default();
            if task.out() > volume {
                task.carried = task.carried.max(task.out());
            }
            let charge = if afresh {
                volume
            } else {
                volume.max(former).max(task.owes())
            };
            let entry = charged.entry(*id).or_insert((*timing, charge));
            *entry = (entry.0.worse(*timing), entry.1.max(charge));
        }
        self.state.charged = charged;
        self.state.stale = !afresh;
        self.state.pending = None;
        for (id, _) in members {
            self.update_volume(id);
        }
    }

    fn in_effect(&self) -> alloc::collections::BTreeMap<TaskId, (Timing, Bytes)> {
        let charge =
            |(id, task): (TaskId, &Task)| Some((id, (task.timing()?, task.plan?.max(task.owes()))));
        self.state.tasks.iter().filter_map(charge).collect()
    }

    /// Makes a task best-effort. Its open region or running job goes on as it began, so the analysis
    /// charges the task until the next quiet instant.
    pub(super) fn leave_plan(&mut self, id: TaskId) {
        let now = self.state.now;
        let task = self.task_mut(id);
        task.phase = Phase::BestEffort;
        if task.next.take().is_none() {
            return;
        }
        task.plan = None;
        task.carried = Bytes::ZERO;
        if let Some(job) = &mut task.job
            && job.deadline.is_some()
        {
            let (place, due) = (job.place, job.deadline.unwrap_or_default());
            let wakes = job.wakes;
            if matches!(place, Place::Queue | Place::Later | Place::Aside) {
                job.deadline = None;
                job.place = Place::BestEffort;
                job.eligible = job.eligible.min(now);
                self.state.queue.remove((due, id));
                self.state.later.remove((wakes, id));
                self.enqueue(id);
            }
        }
        self.state.stale = true;
        // What the others had stays sound without it, should nothing better be found.
        if let Ok(volumes) = self.solve() {
            self.intend(&volumes);
        }
        self.update_volume(id);
    }

    /// A backing store that the plan needs cannot be had. The volumes are found anew within what
    /// could be pinned; if there are none, newcomers become best-effort, the latest first, and
    /// with none left the old plan stands or, where it lost its own store, `id` leaves it.
    pub(super) fn cannot_pin(&mut self, id: TaskId) {
        let most = self.task(id).backing;
        loop {
            if let Ok(volumes) = self.solve() {
                return self.intend(&volumes);
            }
            let newcomer = |(_, task): &(TaskId, &Task)| task.next.is_some() && task.plan.is_none();
            let latest = self
                .state
                .tasks
                .iter()
                .filter(newcomer)
                .map(|(id, _)| id)
                .next_back();
            if let Some(latest) = latest {
                let detail = format!(
                    "only {most} of host memory could be pinned for {}, and no plan is possible \
                     with that: best-effort now",
                    self.task(id).spec.name
                );
                self.violation(latest, ViolationKind::Backing, detail);
                self.leave_plan(latest);
            } else if self.task(id).plan.is_some_and(|volume| volume > most) {
                let detail = format!("only {most} of host memory could be pinned: best-effort now");
                self.violation(id, ViolationKind::Backing, detail);
                return self.leave_plan(id);
            } else {
                for (id, _) in self.members() {
                    let task = self.task_mut(id);
                    task.next = task.plan;
                }
                return self.review_pending();
            }
        }
    }

    /// While a plan waits for tasks that are out by more than it allows, brings them in at
    /// best-effort priority. True if memory moves for that.
    pub(super) fn restore(&mut self) -> bool {
        if self.state.pending.is_none() || self.state.settled().sums().beyond == 0 {
            return false;
        }
        let beyond = self.state.tasks.iter().find_map(|(id, task)| {
            let volume = task.next?;
            let short = task.short();
            let ready = task.phase == Phase::Ready && task.op.is_none();
            let out = short.max(task.usage.swapped);
            (ready && out > volume).then(|| (id, volume, short.saturating_sub(volume)))
        });
        let Some((id, volume, extra)) = beyond else {
            return false;
        };
        if self.state.free() < extra {
            return self.evict(extra, Cause::BestEffort, Some(id));
        }
        let task = self.task(id);
        let (asked, swapped) = (task.asked, task.usage.swapped);
        let inward = swapped > volume;
        if inward && self.state.in_.is_some() {
            return true;
        }
        if extra > Bytes::ZERO {
            self.set_budget(id, asked + extra, None);
        }
        if inward {
            self.start_swap(id, Direction::In, volume, Cause::BestEffort, Some(id));
        }
        true
    }
}
