//! The task's budget divided among its processes.
//!
//! Each process gets the bytes that it holds on the GPU; then the process with the granted request
//! gets those it asked for, swap-ins what is still to come, all processes what they had, and the
//! first one the rest. Budgets are lowered first, and only what is confirmed is given to others, so
//! that all processes together never have more than the task.

use core::cmp::Reverse;
use core::mem;

use rtswap_policy::scheduler::{BudgetAnswer, Event};
use rtswap_policy::units::{Bytes, Time};

use super::process::Process;
use super::request::{ProcessAnswer, TaskRequest};
use super::{Order, ProcessGroup, ProcessId};

/// The budget of the task, and what is under way about it.
#[derive(Debug, Default)]
pub(super) struct TaskBudget {
    /// What the scheduler gave last.
    pub(super) bytes: Bytes,
    /// While it is being divided.
    pub(super) round: Option<Round>,
    pub(super) request: Option<TaskRequest>,
    /// The number of the task's latest request.
    pub(super) last_request: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// How it answers a process's request.
    answer: Option<ProcessAnswer>,
    /// The scheduler waits for the end.
    commanded: bool,
    /// How many orders are not confirmed yet.
    unconfirmed: usize,
    /// All lowering is done.
    raising: bool,
}

impl ProcessGroup {
    pub(super) fn set_budget(&mut self, now: Time, bytes: Bytes, answers: Option<BudgetAnswer>) {
        self.budget.bytes = bytes;
        let answer = answers.and_then(|answer| self.pass_answer(now, answer));
        self.start_round(answer, true);
    }

    /// Divides the budget anew. `commanded` says whether the scheduler waits for the end.
    pub(super) fn start_round(&mut self, answer: Option<ProcessAnswer>, commanded: bool) {
        self.budget.round = Some(Round {
            answer,
            commanded,
            unconfirmed: 0,
            raising: false,
        });
        let asker = answer.filter(|answer| answer.granted);
        self.compute_shares(asker.and_then(|answer| self.find(answer.process)));
        for at in 0..self.processes.len() {
            let share = self.scratch.shares[at];
            if self.processes[at].is_present() && share < self.processes[at].budget {
                self.order_budget(at, share, None);
            }
        }
        self.continue_round();
    }

    /// Computes each process's share into the scratch memory; the request of `asker` is granted.
    /// Processes that are not present keep their budgets.
    fn compute_shares(&mut self, asker: Option<usize>) {
        let rest = self.budget.bytes.saturating_sub(self.missing_budget());
        let Self {
            processes, scratch, ..
        } = self;
        scratch.begin(rest, processes, |process| {
            if process.is_present() {
                Bytes::ZERO
            } else {
                process.budget
            }
        });
        scratch.raise_each(|at| processes[at].usage.resident);
        if let Some(at) = asker {
            scratch.raise(at, processes[at].budget_wanted());
        }
        scratch.raise_each(|at| processes[at].budget_to_swap_in());
        // The budget of a process that swaps out is to leave with its chunks.
        let rank = |process: &Process| (process.moves(), Reverse(process.usage.swapped));
        let rank = |at: &usize| (rank(&processes[*at]), *at);
        scratch.order.sort_unstable_by_key(rank);
        scratch.raise_each(|at| processes[at].total());
        scratch.raise_each(|at| processes[at].budget);
        if let Some(first) = asker.or(scratch.order.first().copied()) {
            scratch.raise(first, Bytes::MAX);
        }
    }

    /// What is counted for processes that are not present.
    pub(super) fn missing_budget(&self) -> Bytes {
        let missing = self
            .processes
            .iter()
            .filter(|process| !process.is_present());
        missing.map(|process| process.budget).sum()
    }

    fn order_budget(&mut self, at: usize, bytes: Bytes, answers: Option<BudgetAnswer>) {
        if let Some(round) = &mut self.budget.round {
            round.unconfirmed += 1;
        }
        let process = &mut self.processes[at];
        process.unbudgeted = false;
        process.ordered = bytes;
        self.order(at, Order::SetBudget { bytes, answers });
    }

    /// Takes in what the last [`Order::SetBudget`] came to: the process says that it may hold `bytes`,
    /// more than ordered if it had taken them already. Returns what counts: it cannot have taken more than
    /// the budget that it had, unless another witness shows it.
    pub fn confirm_budget(&mut self, id: ProcessId, bytes: Bytes) -> Bytes {
        let mut bytes = bytes;
        if let Some(at) = self.find(id) {
            let process = &self.processes[at];
            let before = process.budget.max(process.shown);
            bytes = bytes.min(process.ordered.max(before));
            // Reckoned with the usage as reported.
            self.lower_credit(at, bytes);
            let process = &mut self.processes[at];
            process.budget = bytes;
            // A report of more is older than this budget.
            let usage = &mut process.usage;
            usage.resident = usage.resident.min(bytes);
            usage.arena = usage.arena.min(usage.resident + usage.swapped);
            self.prove(at);
        }
        if let Some(round) = &mut self.budget.round {
            round.unconfirmed = round.unconfirmed.saturating_sub(1);
            self.continue_round();
        }
        bytes
    }

    /// Raises budgets once all lowering is confirmed, and ends the round with the last confirmation.
    fn continue_round(&mut self) {
        let Some(round) = &mut self.budget.round else {
            return;
        };
        if round.unconfirmed == 0 && !mem::replace(&mut round.raising, true) {
            let answer = round.answer;
            self.raise_budgets(answer);
        }
        if let Some(round) = self.budget.round.take_if(|round| round.unconfirmed == 0) {
            self.end_round(round);
        }
    }

    fn raise_budgets(&mut self, answer: Option<ProcessAnswer>) {
        let answer = answer.and_then(|answer| Some((self.find(answer.process)?, answer)));
        let granted = answer.filter(|(_, answer)| answer.granted);
        self.compute_shares(granted.map(|(at, _)| at));
        let mut free = self.budget.bytes.saturating_sub(self.held_budget());
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            let answers = answer.filter(|(asker, _)| *asker == at);
            let raise = self.scratch.shares[at].saturating_sub(process.budget);
            let raise = raise.min(free);
            let told = raise > Bytes::ZERO
                || answers.is_some()
                || process.unbudgeted
                || self.frees_credit(at);
            if !process.is_present() || !told {
                continue;
            }
            free -= raise;
            let bytes = process.budget + raise;
            if answers.is_some() {
                self.processes[at].request = None;
            }
            self.order_budget(at, bytes, answers.and_then(|(_, answer)| answer.told()));
        }
    }

    fn end_round(&mut self, round: Round) {
        if round.commanded {
            // More than commanded if a process had taken it already.
            let (task, bytes) = (self.task, self.held_budget());
            self.budget.bytes = bytes;
            self.tell(Event::BudgetSet { task, bytes });
        }
        if self.swaps_in() {
            self.order_swaps();
        }
    }

    pub(super) fn held_budget(&self) -> Bytes {
        self.processes.iter().map(|process| process.budget).sum()
    }
}

impl Process {
    /// The budget with which its request is met.
    pub(super) fn budget_wanted(&self) -> Bytes {
        let total = self.request.map_or(Bytes::ZERO, |request| request.total);
        total.saturating_sub(self.usage.swapped)
    }

    /// The budget with which its swap-in can end; zero without one.
    fn budget_to_swap_in(&self) -> Bytes {
        let part = self
            .part
            .filter(|part| part.is_inward() && part.ended.is_none());
        part.map_or(Bytes::ZERO, |part| {
            self.usage.resident + self.usage.swapped.saturating_sub(part.target)
        })
    }
}
