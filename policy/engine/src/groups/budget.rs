//! The task's budget shared out, and the questions for more.
//!
//! Each process has what it holds on the GPU; then the one whose question is answered gets what it
//! asked for, who swaps in what is still to come, everybody what it had, and the first the rest.
//! What one loses is lowered first and counts only once its page has confirmed it, so that all
//! together never have more than the task.

use std::cmp::Reverse;

use rtswap_policy::scheduler::{Answer, Command, Direction, Event, EventError, Usage, WantSeq};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::member::{Member, State, Want};
use super::{MemberId, Members};

/// How long a budget that was given for an allocation is not asked for by another process: as in
/// the scheduler, else two that load take it from each other for ever.
const FRESH: Nanos = Nanos(20_000_000);

/// The one question that the scheduler hears at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// Asked, by the process at that place; by nobody any more if it is gone.
    Open(u32, Option<MemberId>),
    /// Answered with more budget, which is left alone until used or then.
    Fresh(MemberId, Time),
}

/// A budget that is being shared out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Balance {
    /// Whom it answers, and how.
    answer: Option<(MemberId, Answer)>,
    /// The scheduler waits for the end.
    commanded: bool,
    /// Pages that have yet to confirm.
    unconfirmed: usize,
    /// What is lowered is lowered.
    raising: bool,
}

impl Members {
    pub(super) fn wants(&mut self, at: usize, seq: WantSeq, bytes: Bytes) {
        let member = &mut self.all[at];
        let total = Bytes(bytes.0.saturating_add(member.usage.swapped.0));
        // An agent has one question: a new one withdraws the old.
        member.want = Some(Want { seq, total });
        let id = member.id;
        match self.question {
            Some(Question::Open(_, asker)) if asker == Some(id) => self.question = None,
            Some(Question::Fresh(asker, _)) if asker == id => self.question = None,
            _ => {}
        }
    }

    /// Asks the scheduler, one process after the other.
    pub(super) fn ask(&mut self) {
        let asks = |member: &Member| member.state == State::Present && member.want.is_some();
        let first = self.all.iter().position(asks);
        let left = match self.question {
            Some(Question::Open(_, None)) => return,
            Some(Question::Open(_, Some(asker))) => {
                let asker = self.all.iter().find(|member| member.id == asker);
                if asker.is_some_and(asks) {
                    return;
                }
                true
            }
            Some(Question::Fresh(_, until)) if self.now < until => return,
            Some(Question::Fresh(..)) | None => false,
        };
        self.question = None;
        match first {
            Some(at) => {
                let id = self.all[at].id;
                let bytes = self.wanted(at);
                self.put(Some(id), bytes);
            }
            // A question that asks for nothing takes the place of one whose asker is gone.
            None if left => self.put(None, Bytes::ZERO),
            None => {}
        }
    }

    /// What somebody wants was reckoned with what the others had: it is put anew.
    pub(super) fn ask_anew(&mut self) {
        if let Some(Question::Open(_, Some(asker))) = self.question
            && self.present().any(|member| member.id == asker)
        {
            self.question = None;
        }
    }

    fn put(&mut self, asker: Option<MemberId>, bytes: Bytes) {
        self.last_want = self.last_want.wrapping_add(1).max(1);
        let want = WantSeq(self.last_want);
        self.question = Some(Question::Open(want.0, asker));
        let task = self.task;
        self.tell(Event::Want { task, want, bytes });
    }

    /// The budget of the task with which the process at `at` has what it wants.
    fn wanted(&self, at: usize) -> Bytes {
        let own = self.all[at].lacks();
        let shares = self.all.iter().enumerate();
        let others = shares.filter(|(other, _)| *other != at);
        let others: Bytes = others.map(|(_, member)| member.share().resident).sum();
        Bytes(own.0.saturating_add(others.0))
    }

    pub(super) fn set_budget(&mut self, now: Time, bytes: Bytes, answers: Option<Answer>) {
        self.budget = bytes;
        let mut answer = None;
        if let Some(said) = answers
            && let Some(Question::Open(seq, asker)) = self.question
            && seq == said.want.0
        {
            self.question = None;
            let asker = asker.and_then(|id| self.find(id));
            let here = |at: &usize| self.all[*at].state == State::Present;
            if let Some(at) = asker.filter(here)
                && let Some(want) = self.all[at].want
            {
                let id = self.all[at].id;
                let (want, granted) = (want.seq, said.granted);
                answer = Some((id, Answer { want, granted }));
                if granted {
                    self.question = Some(Question::Fresh(id, now + FRESH));
                }
            }
        }
        self.balance(answer, true);
    }

    /// What the scheduler counts for one process: what it may hold, or what it says that it holds where
    /// that is more.
    pub fn held_by(&self, id: MemberId) -> Bytes {
        self.find(id).map_or(Bytes::ZERO, |at| {
            let member = &self.all[at];
            member.budget.max(member.share().resident)
        })
    }

    /// Those that hold more than they may.
    pub fn beyond_budget(&self) -> Vec<MemberId> {
        let beyond = |member: &&Member| member.usage.resident > member.budget;
        let beyond = self.present().filter(beyond);
        beyond.map(|member| member.id).collect()
    }

    /// Shares what there is out anew.
    pub(super) fn share_out(&mut self, answer: Option<(MemberId, Answer)>) {
        self.balance(answer, false);
    }

    fn balance(&mut self, answer: Option<(MemberId, Answer)>, commanded: bool) {
        self.balance = Some(Balance {
            answer,
            commanded,
            unconfirmed: 0,
            raising: false,
        });
        let asker = answer.filter(|(_, answer)| answer.granted);
        let asker = asker.and_then(|(id, _)| self.find(id));
        let fair = self.fair(asker);
        for (at, fair) in fair.into_iter().enumerate() {
            if self.all[at].state == State::Present && fair < self.all[at].budget {
                self.give(at, fair, None);
            }
        }
        self.go_on();
    }

    /// What each process should have, the others' shares left as they are.
    fn fair(&self, asker: Option<usize>) -> Vec<Bytes> {
        let members = &self.all;
        let mut fair: Vec<_> = members.iter().map(|member| member.budget).collect();
        let mut rest = self.budget.saturating_sub(self.apart());
        let here = |at: &usize| members[*at].state == State::Present;
        let mut order: Vec<_> = (0..members.len()).filter(here).collect();
        let mut fill = |fair: &mut Vec<Bytes>, at: usize, up_to: Bytes| {
            let more = up_to.saturating_sub(fair[at]).min(rest);
            fair[at] += more;
            rest = rest.saturating_sub(more);
        };
        for &at in &order {
            fair[at] = Bytes::ZERO;
        }
        for &at in &order {
            fill(&mut fair, at, members[at].usage.resident);
        }
        if let Some(at) = asker {
            fill(&mut fair, at, members[at].lacks());
        }
        let inward = |part: &super::member::Part| part.ended.is_none() && part.target < part.from;
        for &at in &order {
            let usage = members[at].usage;
            if let Some(part) = members[at].part.filter(inward) {
                let comes = usage.swapped.saturating_sub(part.target);
                fill(&mut fair, at, usage.resident + comes);
            }
        }
        // Who moves outward has budget in hand that is to leave with its chunks.
        let leaves = |at: &usize| members[*at].moves();
        order.sort_by_key(|at| (leaves(at), Reverse(members[*at].usage.swapped), *at));
        for &at in &order {
            let Usage {
                resident, swapped, ..
            } = members[at].usage;
            fill(&mut fair, at, resident + swapped);
        }
        for &at in &order {
            fill(&mut fair, at, members[at].budget);
        }
        if let Some(&first) = asker.as_ref().or(order.first()) {
            fill(&mut fair, first, Bytes::MAX);
        }
        fair
    }

    /// What counts for those that are not talked to.
    pub(super) fn apart(&self) -> Bytes {
        let away = self.all.iter();
        let away = away.filter(|member| member.state != State::Present);
        away.map(|member| member.budget).sum()
    }

    fn give(&mut self, at: usize, bytes: Bytes, answers: Option<Answer>) {
        if let Some(balance) = &mut self.balance {
            balance.unconfirmed += 1;
        }
        self.all[at].new_page = false;
        let task = self.task;
        self.order(
            at,
            Command::SetBudget {
                task,
                bytes,
                answers,
            },
        );
    }

    /// The page of `id` says what holds now.
    pub fn holds(&mut self, id: MemberId, bytes: Bytes) {
        if let Some(at) = self.find(id) {
            let member = &mut self.all[at];
            member.budget = bytes;
            // A report of more is older than that.
            let usage = &mut member.usage;
            usage.resident = usage.resident.min(bytes);
            usage.arena = usage.arena.min(usage.resident + usage.swapped);
        }
        if let Some(balance) = &mut self.balance {
            balance.unconfirmed = balance.unconfirmed.saturating_sub(1);
            self.go_on();
        }
    }

    /// Raises once all that was to be lowered is, and ends with the last confirmation.
    fn go_on(&mut self) {
        let Some(balance) = self.balance.filter(|balance| balance.unconfirmed == 0) else {
            return;
        };
        if !balance.raising {
            if let Some(balance) = &mut self.balance {
                balance.raising = true;
            }
            let answer = balance
                .answer
                .and_then(|(id, answer)| Some((self.find(id)?, answer)));
            let granted = answer.filter(|(_, answer)| answer.granted);
            let fair = self.fair(granted.map(|(at, _)| at));
            let held: Bytes = self.all.iter().map(|member| member.budget).sum();
            let mut free = self.budget.saturating_sub(held);
            for (at, fair) in fair.into_iter().enumerate() {
                let member = &self.all[at];
                let answers = answer
                    .filter(|(asker, _)| *asker == at)
                    .map(|(_, said)| said);
                let raise = fair.saturating_sub(member.budget).min(free);
                let news = raise > Bytes::ZERO
                    || answers.is_some()
                    || member.new_page
                    || self.frees_credit(at);
                if member.state != State::Present || !news {
                    continue;
                }
                free = free.saturating_sub(raise);
                if answers.is_some() {
                    self.all[at].want = None;
                }
                let bytes = self.all[at].budget + raise;
                self.give(at, bytes, answers);
            }
            let unconfirmed = self.balance.map_or(0, |balance| balance.unconfirmed);
            if unconfirmed > 0 {
                return;
            }
        }
        self.balance = None;
        if balance.commanded {
            let held: Bytes = self.all.iter().map(|member| member.budget).sum();
            let (task, bytes) = (self.task, held);
            // More where somebody had taken it already.
            self.budget = bytes;
            self.tell(Event::BudgetSet { task, bytes });
        }
        let inward = self
            .swap
            .is_some_and(|swap| swap.direction == Direction::In);
        if inward {
            self.begin();
        }
    }

    pub(super) fn used(&mut self, at: usize, usage: Usage) -> Result<(), EventError> {
        let member = &self.all[at];
        let moving = member
            .part
            .map_or(Bytes::ZERO, |part| part.from.max(part.target));
        let most = member.usage.swapped.max(moving);
        usage.check(self.task, most, member.backing, self.chunk)?;
        let member = &mut self.all[at];
        member.usage = usage;
        let id = member.id;
        self.usage_changed |= member.state == State::Present;
        if matches!(self.question, Some(Question::Fresh(asker, _)) if asker == id) {
            self.question = None;
        }
        Ok(())
    }
}

impl Member {
    /// The budget with which it has what it wants.
    fn lacks(&self) -> Bytes {
        let total = self.want.map_or(Bytes::ZERO, |want| want.total);
        total.saturating_sub(self.usage.swapped)
    }
}
