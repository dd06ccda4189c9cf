//! Making room: victims by latest next release, best-effort first, exactly what is lacking.

use alloc::format;

use super::record::{Cause, Task};
use super::{Direction, Scheduler, Sharing, State, ViolationKind};
use crate::scheduler::job::{Job, Place};
use crate::task::TaskId;
use crate::units::Bytes;

/// A walk over the victims in order.
struct Victims {
    place: usize,
    /// Who is none of them.
    spared: [Option<TaskId>; 2],
}

impl Victims {
    fn next(&mut self, state: &State) -> Option<TaskId> {
        loop {
            let (_, _, id) = state.books.victims.get(self.place)?;
            self.place += 1;
            let spared = self.spared.contains(&Some(id));
            if !spared && state.tasks[id].spared_until <= state.now {
                return Some(id);
            }
        }
    }
}

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
        self.state.settle();
        let mut lacking = self.lacking(required);
        let mut answers = self.state.sums().unanswered > 0;
        let enough = || {
            lacking <= self.state.sums().yields
                && self.missing(lacking, cause, beneficiary) == Bytes::ZERO
        };
        if cause == Cause::Realtime || enough() {
            let mut victims = self.victims(cause, beneficiary);
            while lacking > Bytes::ZERO
                && let Some(id) = victims.next(&self.state)
            {
                let taken = self.reclaim_unused(id, lacking, cause);
                answers |= taken > Bytes::ZERO;
                lacking = lacking.saturating_sub(taken);
                let task = self.task(id);
                let chunks = task.can_leave(cause, task.asked, self.config.chunk);
                if lacking == Bytes::ZERO || chunks == Bytes::ZERO {
                    continue;
                }
                if self.state.out.is_some() {
                    return true;
                }
                let leaving = lacking.round_up(self.config.chunk).min(chunks);
                let target = task.usage.swapped + leaving;
                self.start_swap(id, Direction::Out, target, cause, beneficiary);
                lacking = lacking.saturating_sub(leaving);
            }
        }
        lacking == Bytes::ZERO
            || self.state.out.is_some()
            || answers
            || (cause == Cause::Realtime && self.evict_beyond(lacking, beneficiary))
    }

    /// What is missing for `required` free bytes, with all that is on its way.
    fn lacking(&self, required: Bytes) -> Bytes {
        let state = &self.state;
        let leaving = state.out.map_or(Bytes::ZERO, |id| {
            let op = self.task(id).op.as_ref();
            op.filter(|op| !op.aborting).map_or(Bytes::ZERO, |op| {
                op.target.saturating_sub(op.from + op.released)
            })
        });
        (state.held + required).saturating_sub(state.capacity + state.sums().lowering + leaving)
    }

    /// Who may be evicted, in order: best-effort by the oldest grant, then by latest next release.
    /// Never who runs, is in its region, or is served.
    fn victims(&self, cause: Cause, beneficiary: Option<TaskId>) -> Victims {
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
        Victims {
            place: 0,
            spared: [spared, beneficiary],
        }
    }

    /// What is still missing of `lacking` when all that can leave now has left.
    pub(super) fn missing(
        &self,
        lacking: Bytes,
        cause: Cause,
        beneficiary: Option<TaskId>,
    ) -> Bytes {
        let mut victims = self.victims(cause, beneficiary);
        let mut missing = lacking;
        while missing > Bytes::ZERO
            && let Some(id) = victims.next(&self.state)
        {
            let unused = self.unused(id, Bytes::MAX, cause);
            let yields = self.task(id).yields(cause, unused, self.config.chunk);
            missing = missing.saturating_sub(yields);
        }
        missing
    }

    /// Up to `lacking` bytes of budget that `id` does not use and may lose now.
    fn unused(&self, id: TaskId, lacking: Bytes, cause: Cause) -> Bytes {
        let task = self.task(id);
        if cause == Cause::BestEffort && self.state.now < task.fresh_until {
            return Bytes::ZERO;
        }
        task.unused(lacking, cause, self.config.chunk)
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

    /// Volume beyond the plan leaves if unmanaged memory has grown so far that the plan does not
    /// fit any more. Its backing store grows first, and each time it is recorded. In `Shared`
    /// mode best-effort jobs are revoked before.
    pub(super) fn evict_beyond(&mut self, lacking: Bytes, beneficiary: Option<TaskId>) -> bool {
        if self.state.sharing == Sharing::Shared && self.revoke_best_effort() {
            return true;
        }
        self.state.settle();
        let state = &mut self.state;
        let promised =
            state.planned(None, Bytes::ZERO, false) + state.unmovable(None, Bytes::ZERO, false);
        if state.held.max(promised) <= state.capacity {
            return false;
        }
        // Also who has given all that the plan allows, and so is no victim otherwise.
        let now = state.now;
        let victims = |(id, task): (TaskId, &Task)| {
            let spared = Some(id) == beneficiary || task.spared_until > now;
            (task.evictable() && !spared).then(|| task.victim(id))
        };
        let mut order = core::mem::take(&mut state.emergency);
        order.extend(state.tasks.iter().filter_map(victims));
        order.sort_unstable();
        let mut victims = order.iter().map(|(_, _, id)| *id);
        let asked = victims.any(|id| self.takes_beyond(id, lacking, promised, beneficiary));
        order.clear();
        self.state.emergency = order;
        asked
    }

    /// Takes up to `lacking` bytes of `id`, whatever its volume. False if it has nothing to give.
    fn takes_beyond(
        &mut self,
        id: TaskId,
        lacking: Bytes,
        promised: Bytes,
        beneficiary: Option<TaskId>,
    ) -> bool {
        let chunk = self.config.chunk;
        let task = self.task(id);
        let movable = task
            .arena_resident()
            .min(task.usage.resident)
            .round_down(chunk);
        let wanted = lacking.round_up(chunk).min(movable);
        if wanted == Bytes::ZERO {
            return false;
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
        false
    }

    /// After the capacity has dropped below what is held: what may leave, leaves.
    pub(super) fn serve_capacity(&mut self) {
        if self.state.held > self.state.capacity && self.state.region.is_none() {
            self.evict(Bytes::ZERO, Cause::Realtime, None);
        }
    }
}
