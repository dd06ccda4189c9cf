//! Pipelined regions: evictions and the swap-in that they are for start together, and chunks
//! change hands one by one.
//!
//! The region of the head opens when both copy engines are free and every chunk that it lacks can
//! leave at once: chunks of tasks that run, drain or have not confirmed an order are not counted, and
//! nothing leaves early. From then on, and with nothing new on the wire:
//! 1. the region's agent gets `Swap` in down to zero with a budget of what is free. It fills
//!    chunks while its resident bytes stay within its budget, waits there for the next
//!    `SetBudget`, and says `SwapEnded` when nothing of it is out any more (or it was aborted, or
//!    the driver failed: waiting for budget is no failure);
//! 2. one victim after another gets `Swap` out of exactly what is lacking, and its agent reports
//!    each chunk that has left by `SwapProgress`, the last one by `SwapEnded`;
//! 3. each report lowers the victim's budget by what has left, and as soon as `BudgetSet` confirms
//!    that, the region's budget is raised by as much: two `SetBudget`s a chunk, and never more
//!    handed out than there is. Several may be unconfirmed at a time.
//!
//! When a victim goes, or its swap-out ends short, the next victim follows. If no victim is left for
//! the rest, the swap-in is aborted, what it has filled stays, and the job is tried again as without
//! pipelining. A best-effort task gets its chunks by
//! the same steps under any test, without a region (`start_fill`).

use super::record::{Cause, Phase};
use super::{Command, Direction, Scheduler};
use crate::admission::Test;
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

impl Scheduler {
    pub(super) fn pipelined(&self) -> bool {
        self.config.test == Test::Pipelined
    }

    /// Opens the region of the head, if it can be filled without waiting for anybody. True if
    /// something changed.
    pub(super) fn open_pipelined(&mut self, id: TaskId) -> bool {
        let state = self.state.settled();
        if state.out.is_some() || state.in_.is_some() {
            return false;
        }
        let task = &state.tasks[id];
        let (required, inward) = (task.short(), task.usage.swapped > Bytes::ZERO);
        let lacking = (state.held + required).saturating_sub(state.capacity);
        let missing = state.missing(lacking, Cause::Realtime, Some(id));
        if required > Bytes::ZERO && missing > Bytes::ZERO {
            let answers = state.sums().unanswered > 0;
            if answers || self.evict_beyond(missing, Some(id)) || !self.nothing_coming() {
                return false;
            }
            self.stall_for_memory(id, required);
            return true;
        }
        self.open_region(id, inward);
        true
    }

    /// Goes on with the open region of `id`, which is not wholly in yet. True if something
    /// changed that allows more.
    pub(super) fn fill_region(&mut self, id: TaskId) -> bool {
        let task = self.task(id);
        if task.op.as_ref().is_some_and(|op| op.aborting) {
            return false;
        }
        self.credit(id);
        let task = self.task(id);
        let idle = task.op.is_none();
        if idle && task.usage.swapped > Bytes::ZERO {
            self.start_swap(id, Direction::In, Bytes::ZERO, Cause::Realtime, Some(id));
        }
        let short = self.task(id).short();
        if short == Bytes::ZERO {
            return idle && self.wholly_resident(id);
        }
        if self.evict(short, Cause::Realtime, Some(id)) {
            return false;
        }
        if !self.state.running.is_empty() || self.state.settled().awaits_release() {
            return false;
        }
        // No victim is left for the rest: those that were counted on have died or failed meanwhile.
        if let Some(op) = &mut self.task_mut(id).op {
            op.aborting = true;
            let op = op.seq;
            self.emit(Command::Abort { task: id, op });
            return false;
        }
        self.stall_for_memory(id, short);
        true
    }

    /// Whether `id` gets the chunks of others one by one.
    pub(super) fn is_filled(&self, id: TaskId) -> bool {
        let op = self.task(id).op.as_ref();
        let fills = op.is_some_and(|op| op.pipelined && op.direction == Direction::In);
        fills || (self.pipelined() && self.state.region == Some(id))
    }

    /// Whether all that `id` lacks can leave at once, and both copy engines are free.
    pub(super) fn opens(&mut self, id: TaskId) -> bool {
        let state = self.state.settled();
        if state.out.is_some() || state.in_.is_some() {
            return false;
        }
        let lacking = (state.held + state.tasks[id].short()).saturating_sub(state.capacity);
        state.missing(lacking, Cause::BestEffort, Some(id)) == Bytes::ZERO
    }

    /// Starts the swap-in of the best-effort task `id`, which goes on as others give their chunks.
    pub(super) fn start_fill(&mut self, id: TaskId) {
        self.start_swap(id, Direction::In, Bytes::ZERO, Cause::BestEffort, Some(id));
        if let Some(op) = &mut self.task_mut(id).op {
            op.pipelined = true;
        }
    }

    /// Goes on with the swap-in of the best-effort task `id`, or ends it if nobody is left that could give
    /// what it lacks.
    pub(super) fn fill(&mut self, id: TaskId) {
        self.credit(id);
        let short = self.task(id).short();
        let gets = short == Bytes::ZERO || self.evict(short, Cause::BestEffort, Some(id));
        if !gets && !self.state.settled().awaits_release() {
            self.abort(id);
        }
    }

    /// Has the swap-in of a best-effort task end that gets no more chunks of others, unless it is that of `id`:
    /// it would wait for them.
    pub(super) fn stop_filling(&mut self, id: Option<TaskId>) {
        let Some(filled) = self.state.in_.filter(|filled| Some(*filled) != id) else {
            return;
        };
        let op = self.task(filled).op.as_ref();
        if op.is_some_and(|op| op.pipelined && op.cause == Cause::BestEffort && !op.aborting) {
            self.abort(filled);
        }
    }

    /// The turn of `id` has come: aborts the swap-in that another best-effort task gets ahead of its own turn. True
    /// until that has ended. At most once for each job: two jobs that both lack memory could otherwise abort and
    /// restart it without end.
    pub(super) fn stop_coming_ahead(&mut self, id: TaskId) -> bool {
        let Some(other) = self.state.in_.filter(|other| *other != id) else {
            return false;
        };
        let task = self.task(other);
        let Some(op) = &task.op else { return false };
        if op.cause != Cause::BestEffort || op.overdue || task.phase == Phase::Ready {
            return false;
        }
        let aborting = op.aborting;
        let Some(job) = &mut self.task_mut(id).job else {
            return false;
        };
        let before = core::mem::replace(&mut job.cut_short, true);
        if !aborting && !before {
            self.abort(other);
        }
        aborting || !before
    }

    /// Raises the budget of the region by the chunks that have become free. What no swap-in waits
    /// for comes in one piece.
    fn credit(&mut self, id: TaskId) {
        let chunk = self.config.chunk;
        let (task, free) = (self.task(id), self.state.free());
        let (asked, short) = (task.asked, task.short());
        let holds = task.usage.resident + task.usage.swapped;
        let raise = if free >= short {
            short
        } else if task.usage.swapped > Bytes::ZERO {
            let fillable = holds.saturating_sub(asked).round_up(chunk);
            free.min(fillable).round_down(chunk)
        } else {
            Bytes::ZERO
        };
        if raise > Bytes::ZERO {
            self.set_budget(id, asked + raise, None);
        }
    }

    /// Takes back the budget of the chunks of `id` that have left for the region.
    pub(super) fn hand_over(&mut self, id: TaskId) {
        let task = self.task_mut(id);
        let Some(op) = &mut task.op else { return };
        if !op.pipelined || op.direction == Direction::In {
            return;
        }
        let left = task.usage.swapped.saturating_sub(op.from);
        let freed = left.saturating_sub(op.released);
        op.released += freed;
        let budget = task.asked.saturating_sub(freed).max(task.usage.resident);
        if budget < task.asked {
            self.set_budget(id, budget, None);
        }
    }

    /// The swap-in of `id` may take longer by `span`: it waits for an eviction.
    pub(super) fn extend_fill(&mut self, id: TaskId, span: Nanos) {
        if let Some(op) = &mut self.task_mut(id).op {
            op.due = op.due + span;
        }
    }
}
