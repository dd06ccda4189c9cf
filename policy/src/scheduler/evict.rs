//! Making room: victims by latest next release, best-effort first, exactly what is lacking.

use alloc::format;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::state::{Cause, Phase, Session, Task};
use super::{Direction, Scheduler, Sharing, ViolationKind};
use crate::scheduler::job::{Job, Place};
use crate::task::TaskId;
use crate::units::{Bytes, Time};

impl Scheduler {
    /// Sees to it that `required` bytes become free. Unused budget goes at once, chunks by one
    /// swap-out at a time. False if nothing is on its way and nothing can be. Best-effort takes
    /// all that it lacks or nothing: else two would take from each other for ever what suffices
    /// neither.
    pub(super) fn evict(
        &mut self,
        required: Bytes,
        cause: Cause,
        beneficiary: Option<TaskId>,
    ) -> bool {
        let mut lacking = self.lacking(required);
        let mut victims = self.victims(cause, beneficiary);
        let all_or_nothing = cause == Cause::BestEffort;
        if all_or_nothing && self.yields_of_all(cause, beneficiary) < lacking {
            victims.clear();
        }
        for id in victims {
            if lacking == Bytes::ZERO {
                return true;
            }
            lacking = lacking.saturating_sub(self.reclaim_unused(id, lacking, cause));
            let chunks = self.can_leave(id, cause, self.task(id).asked);
            if lacking == Bytes::ZERO || chunks == Bytes::ZERO {
                continue;
            }
            if self.state.out.is_some() {
                return true;
            }
            let leaving = lacking.round_up(self.config.chunk).min(chunks);
            let target = self.task(id).usage.swapped + leaving;
            self.start_swap(id, Direction::Out, target, cause, beneficiary);
            lacking = lacking.saturating_sub(leaving);
        }
        lacking == Bytes::ZERO
            || self.state.out.is_some()
            || self.state.tasks.values().any(|task| task.unanswered > 0)
            || (cause == Cause::Realtime && self.evict_beyond(lacking, beneficiary))
    }

    /// What is missing for `required` free bytes, with all that is on its way.
    fn lacking(&self, required: Bytes) -> Bytes {
        let state = &self.state;
        let lowering: Bytes = state
            .tasks
            .values()
            .map(|task| task.budget.saturating_sub(task.asked))
            .sum();
        let leaving = state.out.map_or(Bytes::ZERO, |id| {
            let op = self.task(id).op.as_ref();
            op.filter(|op| !op.aborting).map_or(Bytes::ZERO, |op| {
                op.target.saturating_sub(op.from + op.released)
            })
        });
        (state.held + required).saturating_sub(state.capacity + lowering + leaving)
    }

    /// Who may be evicted, in order: best-effort by the oldest grant, then by latest next release.
    /// Never who runs, is in its region, or is served.
    fn victims(&self, cause: Cause, beneficiary: Option<TaskId>) -> Vec<TaskId> {
        let state = &self.state;
        // The next best-effort job, once swapped in, keeps its memory until it has run. But if the
        // asker runs, that job waits for the asker; and if the asker waits behind it and has its
        // turn, then nothing can be done for that job now.
        let passes = beneficiary.is_some_and(|id| {
            let waits = |job: &Job| job.place == Place::BestEffort;
            let task = self.task(id);
            task.runs() || task.job.as_ref().is_some_and(waits)
        });
        let spared = (cause == Cause::BestEffort && !passes)
            .then(|| state.best_effort.front().copied())
            .flatten();
        let mut victims: Vec<(Reverse<Time>, Time, TaskId)> = state
            .tasks
            .iter()
            .filter(|(id, task)| {
                let id = Some(**id);
                let region = |job: &Job| job.place == Place::Region;
                let busy = task.runs() || task.job.as_ref().is_some_and(region);
                id != beneficiary
                    && id != spared
                    && !busy
                    && task.session == Session::Attached
                    && task.op.is_none()
                    && task.spared_until <= state.now
            })
            .map(|(id, task)| (Reverse(self.next_release(*id)), task.last_granted, *id))
            .collect();
        victims.sort_unstable();
        victims.into_iter().map(|(_, _, id)| id).collect()
    }

    /// How much of a ready task may be out; anything of others.
    pub(super) fn limit(&self, task: &Task, cause: Cause) -> Option<Bytes> {
        if task.phase != Phase::Ready {
            return None;
        }
        let plan = task.plan.unwrap_or_default();
        let next = task.next.filter(|_| self.state.pending.is_some());
        Some(match cause {
            Cause::Realtime => plan,
            // No best-effort eviction keeps a plan from taking effect.
            Cause::BestEffort => plan.min(next.unwrap_or(plan)),
        })
    }

    /// All that can be made to leave now.
    pub(super) fn yields_of_all(&self, cause: Cause, beneficiary: Option<TaskId>) -> Bytes {
        let victims = self.victims(cause, beneficiary);
        victims.iter().map(|id| self.yields(*id, cause)).sum()
    }

    /// All that `id` can be made to give.
    fn yields(&self, id: TaskId, cause: Cause) -> Bytes {
        let unused = self.unused(id, Bytes::MAX, cause);
        let left = self.task(id).asked.saturating_sub(unused);
        unused + self.can_leave(id, cause, left)
    }

    /// Up to `lacking` bytes of budget that `id` does not use and may lose.
    fn unused(&self, id: TaskId, lacking: Bytes, cause: Cause) -> Bytes {
        let chunk = self.config.chunk;
        let task = self.task(id);
        if cause == Cause::BestEffort && self.state.now < task.fresh_until {
            return Bytes::ZERO;
        }
        let unused = task.asked.saturating_sub(task.usage.resident);
        let Some(limit) = self.limit(task, cause) else {
            return unused.min(lacking);
        };
        let least = task.need(chunk).saturating_sub(limit);
        let may = unused.min(task.asked.saturating_sub(least));
        let may = may.round_down(chunk);
        if may <= lacking {
            may
        } else {
            lacking.round_up(chunk)
        }
    }

    /// Takes back up to `lacking` bytes of budget that `id` does not use.
    fn reclaim_unused(&mut self, id: TaskId, lacking: Bytes, cause: Cause) -> Bytes {
        let taken = self.unused(id, lacking, cause);
        if taken > Bytes::ZERO {
            let asked = self.task(id).asked - taken;
            self.set_budget(id, asked, None);
        }
        taken
    }

    /// How much of `id`, with a budget of `asked`, a swap-out may move now, in whole chunks.
    fn can_leave(&self, id: TaskId, cause: Cause, asked: Bytes) -> Bytes {
        let chunk = self.config.chunk;
        let task = self.task(id);
        let room = task.firm_backing().saturating_sub(task.usage.swapped);
        let mut most = task.arena_resident().min(task.usage.resident).min(room);
        if let Some(limit) = self.limit(task, cause) {
            let least = task.need(chunk).saturating_sub(limit);
            most = most
                .min(asked.saturating_sub(least))
                .min(limit.saturating_sub(task.usage.swapped));
        }
        most.round_down(chunk)
    }

    /// Volume beyond the plan leaves if unmanaged memory has grown so far that the plan does not
    /// fit any more. Its backing store grows first, and each time it is recorded. In `Shared`
    /// mode best-effort jobs are revoked before.
    pub(super) fn evict_beyond(&mut self, lacking: Bytes, beneficiary: Option<TaskId>) -> bool {
        let state = &self.state;
        if state.sharing == Sharing::Shared && self.revoke_best_effort() {
            return true;
        }
        let state = &self.state;
        let promised =
            state.planned(None, Bytes::ZERO, false) + state.unmovable(None, Bytes::ZERO, false);
        if state.held.max(promised) <= state.capacity {
            return false;
        }
        let chunk = self.config.chunk;
        for id in self.victims(Cause::Realtime, beneficiary) {
            let task = self.task(id);
            let movable = task
                .arena_resident()
                .min(task.usage.resident)
                .round_down(chunk);
            let wanted = lacking.round_up(chunk).min(movable);
            if wanted == Bytes::ZERO {
                continue;
            }
            let swapped = task.usage.swapped;
            let room = task
                .firm_backing()
                .saturating_sub(swapped)
                .round_down(chunk);
            if room > Bytes::ZERO {
                let target = swapped + wanted.min(room);
                let task = self.task_mut(id);
                task.carried = task.carried.max(target);
                let detail = format!(
                    "{target} must be out, beyond the plan: {} are held or promised and {} can \
                     be handed out",
                    self.state.held.max(promised),
                    self.state.capacity
                );
                self.violation(id, ViolationKind::Emergency, detail);
                self.start_swap(id, Direction::Out, target, Cause::Realtime, beneficiary);
                return true;
            }
            if task.backing_asked.is_some() {
                return true;
            }
            if task.backing_most.is_none() {
                let task = self.task_mut(id);
                task.carried = task.carried.max(swapped + wanted);
                self.ask_volume(id, swapped + wanted);
                return true;
            }
        }
        false
    }

    /// After the capacity has dropped below what is held: what may leave, leaves.
    pub(super) fn serve_capacity(&mut self) {
        if self.state.held > self.state.capacity && self.state.region.is_none() {
            self.evict(Bytes::ZERO, Cause::Realtime, None);
        }
    }
}
