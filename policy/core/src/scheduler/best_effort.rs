//! Best-effort: one task after another has its turn, and only while no realtime job waits or runs (rule 5).
//! `discipline` says which and for how long. Requests for memory are answered from here too, those of
//! realtime tasks included: see `wants`.

use super::record::{Cause, Task};
use super::{Direction, Scheduler, Sharing};
use crate::scheduler::job::Job;
use crate::task::TaskId;
use crate::units::{Bytes, Nanos, Time};

/// When to look again at best-effort jobs for which nothing can move.
const RETRY: Nanos = Nanos(100_000_000);
/// A job for which nothing can be done for so long is passed over.
const GIVES_UP: Nanos = Nanos(1_000_000_000);
/// How long a job is passed over while its task's swap operation is overdue: until the agent answers, nothing
/// can be done for the job.
const OVERDUE_RETRY: Nanos = Nanos(1_000_000_000);
/// How many jobs that are too early are looked at: the turns of those behind them come later still.
pub(super) const LOOK: usize = 16;

/// What became of a job that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// It waits no more.
    Gone,
    /// Its turn has not come.
    Early,
    /// It cannot be served now.
    Waits,
    /// Its memory is on its way, or those that have it are leaving: no other is served.
    Comes,
}

/// Whether the job of `task` was told to leave the GPU.
fn is_leaving(task: &Task) -> bool {
    task.job.as_ref().is_some_and(|job| job.revoked.is_some())
}

impl Scheduler {
    pub(super) fn serve_best_effort(&mut self) {
        self.state.retry = None;
        self.keep_if_busy();
        self.serve_others();
        self.swap_out_parked();
        self.swap_out_idle();
    }

    fn serve_others(&mut self) {
        let wants_wait = self.serve_wants();
        let realtime = self.state.realtime_active();
        if realtime || wants_wait {
            self.state.turns.change = None;
            self.stop_filling(None);
            if self.shares() && !self.state.settled().clears_best_effort() {
                self.grant_resident(wants_wait);
            }
            return;
        }
        if self.restore() {
            self.state.turns.change = None;
            self.stop_filling(None);
        } else if !self.serve_turns() {
            self.bring_ahead();
        }
    }

    /// Looks at best-effort again at `at`, or earlier.
    pub(super) fn retry_by(&mut self, at: Time) {
        let known = self.state.retry.unwrap_or(at);
        self.state.retry = Some(known.min(at));
    }

    fn shares(&self) -> bool {
        self.state.sharing == Sharing::Shared
    }

    /// Under `Auto`: side by side while there is no realtime task. When one comes, all leave the GPU, and
    /// from then on one runs at a time.
    pub(super) fn review_sharing(&mut self) {
        if self.config.sharing != Sharing::Auto {
            return;
        }
        let needs = self.state.settled().sums().needs;
        let mode = match needs {
            [Bytes::ZERO, Bytes::ZERO] => Sharing::Shared,
            _ => Sharing::Exclusive,
        };
        let before = core::mem::replace(&mut self.state.sharing, mode);
        if before != mode && mode == Sharing::Exclusive {
            self.revoke_best_effort();
        }
    }

    /// Whether the GPU may be given to another best-effort job.
    fn has_room(&self) -> bool {
        self.shares() || self.state.running.is_empty()
    }

    /// Serves those that wait in their order. True if memory moves for one, so that nothing else may.
    fn serve_turns(&mut self) -> bool {
        self.state.turns.next = None;
        self.take_back();
        let moves = self.serve_in_order();
        if let Some((again, _)) = self.state.turns.passed_over.first() {
            self.retry_by(again);
        }
        moves
    }

    fn serve_in_order(&mut self) -> bool {
        let begun = self.state.turns.change.map(|change| change.to);
        let begun = begun.filter(|id| self.waits(*id));
        if begun.is_none() {
            self.state.turns.change = None;
        }
        self.stop_filling(begun);
        let first = begun.or_else(|| self.pressing());
        let mut moves = true;
        if let Some(id) = first {
            match self.serve(id, true) {
                Served::Comes => return true,
                // It has the next turn, and soon.
                Served::Early => moves = false,
                Served::Gone | Served::Waits => {}
            }
        }
        let (mut place, mut early) = (0, 0);
        while let Some((_, id)) = self.state.best_effort.get(place)
            && early < LOOK
        {
            if Some(id) == first {
                place += 1;
                continue;
            }
            match self.serve(id, moves) {
                // Its turn may have come for one before it, by the turn of this one.
                Served::Gone => (place, early) = (0, 0),
                Served::Early => (place, early) = (place + 1, early + 1),
                Served::Waits => place += 1,
                Served::Comes => return true,
            }
        }
        false
    }

    /// Whether the job of `id` waits for its turn.
    pub(super) fn waits(&self, id: TaskId) -> bool {
        let rank = self
            .state
            .tasks
            .get(id)
            .and_then(|task| task.job.as_ref()?.rank);
        rank.is_some_and(|rank| self.state.best_effort.contains((rank, id)))
    }

    /// Serves the job of `id`, with memory of others only if it `moves`.
    fn serve(&mut self, id: TaskId, moves: bool) -> Served {
        if self.holds_off(id) {
            return Served::Gone;
        }
        let now = self.state.now;
        let begun = self
            .state
            .turns
            .change
            .is_some_and(|change| change.to == id);
        let due = begun || self.turn_due(id) <= now;
        let shares = self.discipline.manners().shares_turns || self.shares();
        if self.wholly_resident(id) {
            return match self.has_room() {
                true if shares || due => {
                    self.grant(id);
                    Served::Gone
                }
                // Only the GPU is missing: none takes its memory for itself meanwhile.
                _ if due => {
                    self.state.turns.next = Some(id);
                    Served::Comes
                }
                _ => Served::Early,
            };
        }
        if !due || !moves {
            return Served::Early;
        }
        let goes_first = |oldest: &TaskId| !begun && *oldest != id;
        while let Some(oldest) = self.endangered(id, now).filter(goes_first) {
            if self.wholly_resident(oldest) {
                if !self.has_room() {
                    return Served::Early;
                }
                self.grant(oldest);
                return Served::Gone;
            }
            let served = self.change_to(oldest);
            let passed_over = |job: &Job| job.passed_until.is_some();
            if !self.task(oldest).job.as_ref().is_some_and(passed_over) {
                return served;
            }
        }
        self.change_to(id)
    }

    /// Moves memory to give `id` its turn.
    fn change_to(&mut self, id: TaskId) -> Served {
        self.state.turns.next = Some(id);
        let is_overdue = self.is_overdue(id);
        let comes = !is_overdue && self.bring(id);
        let nobody_runs = self.state.running.is_empty();
        let others_hold = !comes && !is_overdue && !nobody_runs && self.may_come(id);
        if (comes || others_hold)
            && let Some(job) = &mut self.task_mut(id).job
        {
            job.fails_since = None;
        }
        let makes_way = others_hold && self.makes_way(id);
        let stops = !comes && !is_overdue && (makes_way || nobody_runs);
        let stops = stops && self.stop_coming_ahead(id);
        if comes || makes_way || stops {
            self.begin_change(id);
            return Served::Comes;
        }
        self.state.turns.next = None;
        let again = self.state.now + RETRY;
        self.retry_by(again);
        if !others_hold {
            self.fails(id);
        }
        Served::Waits
    }

    fn is_overdue(&self, id: TaskId) -> bool {
        self.task(id).op.as_ref().is_some_and(|op| op.overdue)
    }

    /// Nothing can be done now for the job of `id`. If that stays so, it holds nobody back.
    fn fails(&mut self, id: TaskId) {
        let now = self.state.now;
        let again = now + RETRY;
        let nobody_runs = self.state.running.is_empty();
        if nobody_runs {
            // A plan with more room is sought. Whether there is one, the next try tells.
            self.finds_room(id);
        }
        let is_overdue = self.is_overdue(id);
        let Some(job) = &mut self.task_mut(id).job else {
            return;
        };
        if nobody_runs {
            // It lacks memory though nobody runs: until then no other leaves the GPU for it.
            job.wakes = again;
        }
        let fails_since = *job.fails_since.get_or_insert(now);
        if is_overdue {
            self.pass_over(id, now + OVERDUE_RETRY);
        } else if now - fails_since >= GIVES_UP {
            self.pass_over(id, again);
        }
    }

    /// Has best-effort jobs leave the GPU that hold what `id` lacks and had their turn, though others that
    /// hold some of it may have theirs for longer. False if none leaves.
    fn makes_way(&mut self, id: TaskId) -> bool {
        let short = self.task(id).short();
        let state = self.state.settled();
        let lacking = (state.held + short).saturating_sub(state.capacity);
        let mut missing = state.missing(lacking, Cause::BestEffort, Some(id));
        for holder in &self.state.running {
            let task = self.task(*holder);
            if is_leaving(task) {
                missing = missing.saturating_sub(task.arena_resident());
            }
        }
        let now = self.state.now;
        while missing > Bytes::ZERO {
            // The one that has had most goes first.
            let running = self.state.running.iter().copied();
            let ended = running
                .filter(|holder| !is_leaving(self.task(*holder)))
                .filter(|holder| self.turn_ends(*holder, id) <= now);
            let most = ended.max_by_key(|holder| self.state.virtual_time(*holder));
            let Some(holder) = most.filter(|holder| self.give_way(*holder)) else {
                break;
            };
            missing = missing.saturating_sub(self.task(holder).arena_resident());
        }
        let mut running = self.state.running.iter();
        running.any(|holder| is_leaving(self.task(*holder)))
    }

    /// Whether all memory of `id` could be there, if others gave what they can and left the GPU.
    fn may_come(&mut self, id: TaskId) -> bool {
        let task = self.task(id);
        let kept_off = |job: &Job| job.wakes > self.state.now;
        let (off, short) = (task.job.as_ref().is_some_and(kept_off), task.short());
        let state = self.state.settled();
        let leaves = state.sums().leaves.saturating_sub(state.share(id).leaves);
        !off && short <= state.free() + leaves
    }

    /// Brings the memory of `id` in for its turn. True if that is under way or done.
    fn bring(&mut self, id: TaskId) -> bool {
        let task = self.task(id);
        if let Some(op) = &task.op {
            if op.direction == Direction::In && op.pipelined && !op.aborting {
                self.fill(id);
            }
            return true;
        }
        let (need, short) = (task.need(), task.short());
        let inward = task.usage.swapped > Bytes::ZERO;
        let required = self.required(short);
        if required > Bytes::ZERO && required > self.state.free() {
            if inward && self.discipline.manners().overlaps && self.opens(id) {
                self.start_fill(id);
                self.fill(id);
                return true;
            }
            return self.evict(required, Cause::BestEffort, Some(id));
        }
        if inward && self.state.in_.is_some() {
            self.stop_coming_ahead(id);
            return true;
        }
        if short > Bytes::ZERO {
            self.set_budget(id, need, None);
        }
        if inward {
            self.start_swap(id, Direction::In, Bytes::ZERO, Cause::BestEffort, Some(id));
        }
        true
    }

    /// The bytes that must be free for a task that is `short` of so many.
    fn required(&self, short: Bytes) -> Bytes {
        let holder = self
            .state
            .turns
            .holder
            .filter(|_| self.discipline.manners().suspends);
        let Some(task) = holder.and_then(|id| self.state.tasks.get(id)) else {
            return short;
        };
        if !task.evictable() {
            return short;
        }
        let leaves = task.can_leave(Cause::BestEffort, task.asked, self.config.chunk);
        short.max(match leaves {
            Bytes::ZERO => Bytes::ZERO,
            leaves => self.state.free() + leaves,
        })
    }

    /// While the turn of another lasts: memory of those that have theirs later leaves, and that of the next
    /// one comes in. Not beside realtime tasks, because it would have to leave again for their jobs.
    fn bring_ahead(&mut self) {
        let [ready, loading] = self.state.settled().sums().needs;
        if ready > Bytes::ZERO || !self.discipline.manners().brings_ahead {
            return;
        }
        let now = self.state.now;
        let lacks = |id: &TaskId| !self.wholly_resident(*id);
        let waiting = self.next_ones().filter(lacks);
        // Of those that have it at the same time the first.
        let next = waiting.min_by_key(|id| self.turn_due(*id));
        // Before it goes the one that would wait too long then. But what realtime tasks hold that load stays, or they
        // would be ready late.
        let alone = loading == Bytes::ZERO;
        let endangered = |id| self.endangered(id, now.max(self.turn_due(id)));
        let oldest = next.filter(|_| alone).and_then(endangered);
        let oldest = self.pressing().or(oldest).filter(lacks);
        let Some(id) = oldest.or(next) else {
            return;
        };
        let goes_first = alone && oldest.is_some();
        if self.task(id).op.is_some() || !self.may_come(id) {
            return;
        }
        self.state.turns.next = Some(id);
        self.evict_ahead(id, goes_first);
        let (free, chunk) = (self.state.free(), self.config.chunk);
        let task = self.task(id);
        let comes = free.round_down(chunk).min(task.usage.swapped);
        let target = task.usage.swapped - comes;
        let (asked, raised) = (task.asked, comes.min(task.short()));
        if comes > Bytes::ZERO && self.state.in_.is_none() {
            if raised > Bytes::ZERO {
                self.set_budget(id, asked + raised, None);
            }
            self.start_swap(id, Direction::In, target, Cause::BestEffort, Some(id));
        }
    }

    /// In `Shared` mode: lets every job run that is wholly resident. While memory can move, one that
    /// has run since another began to wait for memory lets that one go first: jobs that take turns
    /// would keep the memory from it for ever.
    fn grant_resident(&mut self, wants_wait: bool) {
        let moves = !self.state.realtime_active();
        let wants = self.state.open_wants().filter(|_| moves && wants_wait);
        let since = |id: TaskId| Some(self.task(id).want?.since);
        let waits_since = wants.filter_map(since).min();
        let mut place = 0;
        while let Some((_, id)) = self.state.best_effort.get(place) {
            if self.holds_off(id) {
                continue;
            }
            let task = self.task(id);
            let asks = task.want.is_some();
            let ran = waits_since.is_some_and(|since| since < task.last_left);
            if self.wholly_resident(id) && (asks || !ran) {
                self.grant(id);
            } else {
                place += 1;
            }
        }
    }
}
