//! Credits: how far a process may swap in before its budget covers the rest.

use rtswap_policy::scheduler::Direction;
use rtswap_policy::units::Bytes;

use super::{Effect, Order, ProcessGroup};

impl ProcessGroup {
    /// The credit of a swap-in with a budget of `budget` bytes: the number of swapped bytes at which the
    /// process pauses until its budget grows.
    ///
    /// The credit equals the target, except in a pipelined region: there the budget grows while other
    /// tasks leave, so the credit follows from the bytes that the scheduler believes the process to
    /// hold, and is written beside each raise of the budget. Once the budget is complete for the
    /// scheduler, the credit is the target there too: if the program has allocated from the budget
    /// meanwhile, the operation then fails instead of waiting forever.
    pub(super) fn credit(&self, at: usize, budget: Bytes) -> Bytes {
        let process = &self.processes[at];
        let swapped = process.usage.swapped;
        let target = process.part.map_or(swapped, |part| part.target);
        if self.is_budget_complete() {
            return target;
        }
        process.total().saturating_sub(budget).max(target)
    }

    /// Orders the credit that a confirmed budget of `budget` bytes brings the process, if the process
    /// is swapping in and the credit is lower than the last.
    ///
    /// Comes before all other effects: the process waits for it.
    pub(super) fn lower_credit(&mut self, at: usize, budget: Bytes) {
        let inward = |direction| direction == Direction::In;
        if !self.swap.is_some_and(|swap| inward(swap.direction)) || !self.processes[at].moves() {
            return;
        }
        let credit = self.credit(at, budget);
        let process = &mut self.processes[at];
        if let Some(part) = &mut process.part
            && part.credit.is_some_and(|last| credit < last)
        {
            part.credit = Some(credit);
            let order = Order::SetCredit {
                op: part.seq,
                credit,
            };
            let effect = Effect::Order(process.id, order);
            self.agenda.effects.push_front(effect);
        }
    }

    /// Whether a process that swaps in is held back by nothing any more. It then gets a budget to
    /// confirm even if that is unchanged, which lowers its credit.
    pub(super) fn frees_credit(&self, at: usize) -> bool {
        let begun = self.swap.is_some_and(|swap| swap.begun);
        let process = &self.processes[at];
        let inward = process.part.is_some_and(|part| part.is_inward());
        begun && process.moves() && inward && self.is_budget_complete()
    }

    /// Whether the task has budget for all bytes that the scheduler knows it to have anywhere.
    fn is_budget_complete(&self) -> bool {
        self.told.usage.resident + self.told.usage.swapped <= self.budget.bytes
    }
}
