//! Budgets: raised before the bytes are taken, lowered after they are gone.
//!
//! While a swap operation is under way the scheduler knows only what the task may hold, its budget, not
//! what it holds: the agent's counters move with every chunk.

use alloc::format;

use super::event::IMPOSSIBLE;
use super::record::Attachment;
use super::{BudgetAnswer, Command, EventError, Scheduler, Usage, ViolationKind};
use crate::task::TaskId;
use crate::units::{Bytes, Time};

impl Scheduler {
    /// Asks for a new budget of an attached task. A raise counts at once, a lowering when it is
    /// confirmed.
    pub(super) fn set_budget(&mut self, id: TaskId, bytes: Bytes, answers: Option<BudgetAnswer>) {
        let task = self.task_mut(id);
        let lowered = task.asked.saturating_sub(bytes);
        task.claimed = task.claimed.saturating_sub(lowered);
        task.asked = bytes;
        task.unanswered += 1;
        let raised = bytes.saturating_sub(task.budget);
        task.budget += raised;
        self.state.held += raised;
        self.emit(Command::SetBudget {
            task: id,
            bytes,
            answers,
        });
    }

    pub(super) fn budget_set(&mut self, id: TaskId, bytes: Bytes) -> Result<(), EventError> {
        let task = self.attached(id)?;
        let last = task.unanswered == 1;
        if task.unanswered == 0 || (last && bytes < task.asked) || bytes > IMPOSSIBLE {
            return Err(EventError::UnexpectedBudget { task: id, bytes });
        }
        let (asked, budget) = (task.asked, task.budget);
        let task = self.task_mut(id);
        task.unanswered -= 1;
        if !last {
            return Ok(());
        }
        task.asked = bytes;
        if bytes > asked {
            // It had taken the memory already.
            let taken = bytes.saturating_sub(task.usage.resident);
            task.usage.resident += taken;
            task.unreported += taken;
        }
        if bytes > budget {
            self.over_budget(id, bytes);
        } else {
            task.budget = bytes;
            self.state.held -= budget - bytes;
        }
        Ok(())
    }

    pub(super) fn usage(&mut self, id: TaskId, usage: Usage) -> Result<(), EventError> {
        let task = self.attached(id)?;
        let most = task.out();
        self.plausible(id, usage, most, task.backing)?;
        let task = self.task_mut(id);
        task.usage = usage;
        task.unreported = Bytes::ZERO;
        task.fresh_until = Time::ZERO;
        self.review_claim(id);
        self.update_volume(id);
        Ok(())
    }

    /// Counts what a task says to hold beyond its budget, and takes that back once it does not say so any
    /// more. Otherwise another of its processes could be given memory that there never was.
    pub(super) fn review_claim(&mut self, id: TaskId) {
        let task = self.task(id);
        let (resident, asked) = (task.usage.resident, task.asked);
        let ended = task.claimed.min(asked.saturating_sub(resident));
        if resident > task.budget {
            self.over_budget(id, resident);
        } else if ended > Bytes::ZERO && task.attachment == Attachment::Attached {
            self.set_budget(id, asked - ended, None);
        }
    }

    /// Whether a report can be true: at most `swapped` in a store of `backing`.
    pub(super) fn plausible(
        &self,
        id: TaskId,
        usage: Usage,
        swapped: Bytes,
        backing: Bytes,
    ) -> Result<(), EventError> {
        usage.check(id, swapped, backing, self.config.chunk)
    }

    /// A task holds more than its budget: counted, and said.
    pub(super) fn over_budget(&mut self, id: TaskId, holds: Bytes) {
        let task = self.task_mut(id);
        let budget = task.budget;
        task.claimed += holds.saturating_sub(task.asked);
        self.overtaken_by_truth(id, holds);
        let detail = format!("holds {holds} with a budget of {budget}");
        self.violation(id, ViolationKind::OverBudget, detail);
    }

    /// Sets the budget to the bytes that the task holds, even if it was allowed less.
    pub(super) fn overtaken_by_truth(&mut self, id: TaskId, budget: Bytes) {
        let task = self.task_mut(id);
        let grown = budget.saturating_sub(task.budget);
        task.budget = task.budget.max(budget);
        task.asked = task.asked.max(budget);
        let state = &mut self.state;
        state.held += grown;
        state.ceiling = state.ceiling.max(state.held);
    }
}
