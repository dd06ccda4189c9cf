//! Making room: victims by latest next release, best-effort first, exactly what is lacking.

use alloc::format;

use super::record::Victim;
use super::record::{Cause, Phase, Task};
use super::state::Settled;
use super::{Direction, Scheduler, Sharing, State, ViolationKind};
use crate::scheduler::job::{Job, Place};
use crate::task::TaskId;
use crate::units::Bytes;

/// A walk over the victims in eviction order. It keeps only its position, so that budgets may change
/// between two steps.
struct Victims {
    last: Option<Victim>,
    spared: Spared,
}

/// Tasks that are no victims.
struct Spared([Option<TaskId>; 2]);

impl Victims {
    fn next(&mut self, state: Settled<'_>) -> Option<TaskId> {
        loop {
            self.last = Some(state.victim_after(self.last)?);
            let (_, _, id) = self.last?;
            if !self.spared.contains(&state, id) {
                return Some(id);
            }
        }
    }
}

impl Spared {
    /// The task that the eviction serves is never a victim.
    fn new(state: &State, cause: Cause, beneficiary: Option<TaskId>) -> Self {
        // The next best-effort job, once swapped in, keeps its memory until it has run. But if the
        // asker runs, that job waits for the asker; and if the asker waits behind it and has its
        // turn, then nothing can be done for that job now.
        let passes = beneficiary.is_some_and(|id| {
            let waits = |job: &Job| job.place == Place::BestEffort;
            let task = &state.tasks[id];
            task.runs() || task.job.as_ref().is_some_and(waits)
        });
        let next = (cause == Cause::BestEffort && !passes)
            .then_some(state.turns.next)
            .flatten();
        Self([next, beneficiary])
    }

    fn contains(&self, state: &State, id: TaskId) -> bool {
        self.0.contains(&Some(id)) || state.tasks[id].spared_until > state.now
    }
}

impl Settled<'_> {
    /// What is missing for `required` free bytes, with all that is on its way.
    fn lacking(self, required: Bytes) -> Bytes {
        let leaving = self.out.map_or(Bytes::ZERO, |id| {
            let op = self.tasks[id].op.as_ref();
            op.filter(|op| !op.aborting).map_or(Bytes::ZERO, |op| {
                op.target.saturating_sub(op.from + op.released)
            })
        });
        (self.held + required).saturating_sub(self.capacity + self.sums().lowering + leaving)
    }

    /// What is still missing of `lacking` when all that can leave now has left.
    pub(super) fn missing(
        self,
        lacking: Bytes,
        cause: Cause,
        beneficiary: Option<TaskId>,
    ) -> Bytes {
        let spared = Spared::new(&self, cause, beneficiary);
        let mut victims = self.victims().filter(|id| !spared.contains(&self, *id));
        let mut missing = lacking;
        while missing > Bytes::ZERO
            && let Some(id) = victims.next()
        {
            let unused = self.unused(id, Bytes::MAX, cause);
            let yields = self.tasks[id].yields(cause, unused, self.chunk);
            missing = missing.saturating_sub(yields);
        }
        missing
    }
}

impl State {
    /// Up to `lacking` bytes of budget that `id` does not use and may lose now.
    fn unused(&self, id: TaskId, lacking: Bytes, cause: Cause) -> Bytes {
        let task = &self.tasks[id];
        if cause == Cause::BestEffort && self.now < task.fresh_until && !task.parked {
            return Bytes::ZERO;
        }
        task.unused(lacking, cause, self.chunk)
    }
}

impl Scheduler {
    /// Starts what makes `required` bytes free: unused budget is taken back at once, chunks leave by one
    /// swap-out at a time. Victims are best-effort tasks by the latest return, then realtime tasks by
    /// the latest next release; never a task that runs, is in its region, or is served by this eviction.
    /// Returns false if no memory is on its way and none can be freed.
    ///
    /// A best-effort job gets all the memory it is short of, or none; otherwise two waiting jobs would
    /// evict each other forever.
    pub(super) fn evict(
        &mut self,
        required: Bytes,
        cause: Cause,
        beneficiary: Option<TaskId>,
    ) -> bool {
        let state = self.state.settled();
        let mut lacking = state.lacking(required);
        let mut answers = state.sums().unanswered > 0;
        let enough = || {
            lacking <= state.sums().yields
                && state.missing(lacking, cause, beneficiary) == Bytes::ZERO
        };
        if cause == Cause::Realtime || enough() {
            let mut victims = Victims {
                last: None,
                spared: Spared::new(&state, cause, beneficiary),
            };
            while lacking > Bytes::ZERO
                && let Some(id) = victims.next(self.state.settled())
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

    /// Has memory leave for the best-effort task `id` that has its turn next: of idle tasks, and of those that
    /// wait longer and cannot run as they are: all others if it `goes_first` because it has waited so long.
    pub(super) fn evict_ahead(&mut self, id: TaskId, goes_first: bool) {
        if self.state.out.is_some() {
            return;
        }
        let chunk = self.config.chunk;
        let short = self.task(id).short();
        let state = self.state.settled();
        let lacking = state.lacking(short);
        if lacking == Bytes::ZERO {
            return;
        }
        let spared = Spared::new(&state, Cause::BestEffort, Some(id));
        let kept = state.turns.holder;
        let own = state.tasks[id].victim(id);
        let may = |other: &TaskId| {
            let task = &state.tasks[*other];
            task.phase != Phase::Ready
                && Some(*other) != kept
                && !spared.contains(&state, *other)
                && (goes_first || task.victim(*other) < own)
                && (task.job.is_none() || task.usage.swapped > Bytes::ZERO)
                && task.can_leave(Cause::BestEffort, task.asked, chunk) > Bytes::ZERO
        };
        let victim = state.victims().find(may);
        let Some(victim) = victim else {
            return;
        };
        let task = self.task(victim);
        let leaves = task.can_leave(Cause::BestEffort, task.asked, chunk);
        let target = task.usage.swapped + lacking.round_up(chunk).min(leaves);
        self.start_swap(victim, Direction::Out, target, Cause::BestEffort, Some(id));
    }

    /// Takes back up to `lacking` bytes of budget that `id` does not use.
    pub(super) fn reclaim_unused(&mut self, id: TaskId, lacking: Bytes, cause: Cause) -> Bytes {
        let taken = self.state.unused(id, lacking, cause);
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
        let state = self.state.settled();
        let promised =
            state.planned(None, Bytes::ZERO, false) + state.unmovable(None, Bytes::ZERO, false);
        let state = &mut self.state;
        if state.held.max(promised) <= state.capacity {
            return false;
        }
        // Tasks that have given all that the plan allows are victims here, and only here.
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
            self.ask_backing_store(id, swapped + wanted);
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
