//! One swap operation of the task as operations of as few processes as can do it. All have the same
//! number; the task's is over when the last of them is. Credits say how far a process may swap in
//! before its budget covers the rest.

use core::cmp::Reverse;

use rtswap_policy::scheduler::{Direction, SwapSeq};
use rtswap_policy::units::Bytes;

use super::process::{Presence, SwapPart};
use super::{Effect, Order, ProcessGroup};

#[derive(Clone, Copy, Debug)]
pub(super) struct TaskSwap {
    pub(super) seq: SwapSeq,
    pub(super) direction: Direction,
    /// The processes have been told.
    pub(super) begun: bool,
}

impl ProcessGroup {
    /// Divides an operation among the processes.
    pub(super) fn start_swap(&mut self, seq: SwapSeq, direction: Direction, target: Bytes) {
        self.swap = Some(TaskSwap {
            seq,
            direction,
            begun: false,
        });
        let rest = Bytes(self.swapped().0.abs_diff(target.0));
        let (alone, chunk) = (self.processes.len() == 1, self.chunk);
        let Self {
            processes, scratch, ..
        } = self;
        let movable = |at: usize| {
            if alone {
                // It reports itself what it cannot do.
                Bytes::MAX
            } else {
                processes[at].movable(direction, chunk)
            }
        };
        scratch.begin(rest, processes, |_| Bytes::ZERO);
        // Those that can move most come first, so that the fewest are disturbed.
        let order = &mut scratch.order;
        order.sort_unstable_by_key(|at| (Reverse(movable(*at)), *at));
        scratch.raise_each(movable);
        for &at in &scratch.order {
            let moves = scratch.shares[at];
            if moves == Bytes::ZERO && !alone {
                continue;
            }
            let process = &mut processes[at];
            let from = process.usage.swapped;
            process.part = Some(SwapPart {
                seq,
                from,
                target: match direction {
                    Direction::Out => from + moves,
                    Direction::In => from.saturating_sub(moves),
                },
                credit: None,
                aborted: false,
                ended: None,
            });
        }
        match direction {
            Direction::Out => self.order_swaps(),
            // Each of them needs the budget for what it brings in.
            Direction::In => self.start_round(None, false),
        }
    }

    /// Orders the parts of the operation, once the budgets for them are in place.
    pub(super) fn order_swaps(&mut self) {
        let Some(swap) = self.swap.as_mut().filter(|swap| !swap.begun) else {
            return;
        };
        swap.begun = true;
        let TaskSwap {
            seq: op, direction, ..
        } = *swap;
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            let ours = |part: &SwapPart| part.seq == op && process.is_present();
            let Some(part) = process.part.filter(ours) else {
                continue;
            };
            let target = part.target;
            let credit = match direction {
                Direction::Out => target,
                Direction::In => self.credit(at, process.budget),
            };
            self.processes[at].part = Some(SwapPart {
                credit: Some(credit),
                ..part
            });
            let order = Order::Swap {
                op,
                direction,
                target,
                credit,
            };
            self.order(at, order);
        }
    }

    pub(super) fn abort_swap(&mut self, op: SwapSeq) {
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            let ours = process.part.is_some_and(|part| part.seq == op);
            if ours && process.moves() && process.is_present() {
                self.abort_part(at, op);
            }
        }
    }

    fn abort_part(&mut self, at: usize, op: SwapSeq) {
        if let Some(part) = &mut self.processes[at].part {
            part.aborted = true;
        }
        self.order(at, Order::Abort { op });
    }

    /// Sets processes aside that do not end their part in time: what they may hold stays counted and
    /// cannot be moved. They are told to abort, in case they only wait for something, and so return
    /// the sooner. If none would remain, all are waited for.
    pub(super) fn set_aside_overdue(&mut self) {
        if self.processes.len() == 1 {
            return;
        }
        let others = self.present().any(|process| !process.moves());
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            if let Some(part) = process.part
                && process.moves()
                && process.is_present()
            {
                self.abort_part(at, part.seq);
                if others {
                    self.processes[at].presence = Presence::Missing;
                    self.told.stale = true;
                }
            }
        }
    }

    /// The bytes in the backing stores of present processes.
    pub(super) fn swapped(&self) -> Bytes {
        self.present().map(|process| process.usage.swapped).sum()
    }

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
        if !self.swaps_in() || !self.processes[at].moves() {
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

    /// Whether the task's swap operation brings memory to the GPU.
    pub(super) fn swaps_in(&self) -> bool {
        self.swap
            .is_some_and(|swap| swap.direction == Direction::In)
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
