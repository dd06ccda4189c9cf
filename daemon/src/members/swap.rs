//! One swap operation of the task as one of as few of its processes as can do it, all under the same
//! number, and over when the last of them is.

use std::cmp::Reverse;

use rtswap_policy::scheduler::{
    Command, Direction, Event, EventError, SwapOutcome, SwapSeq, Usage,
};
use rtswap_policy::units::{Bytes, Nanos};

use super::member::{Member, Part, State};
use super::{MemberId, Members};

/// The operation of the task.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskSwap {
    pub(super) seq: SwapSeq,
    pub(super) direction: Direction,
    /// The agents have been told.
    begun: bool,
}

impl Members {
    /// Shares an operation out.
    pub(super) fn swap(&mut self, seq: SwapSeq, direction: Direction, target: Bytes) {
        self.swap = Some(TaskSwap {
            seq,
            direction,
            begun: false,
        });
        let swapped: Bytes = self.present().map(|member| member.usage.swapped).sum();
        let mut rest = Bytes(swapped.0.abs_diff(target.0));
        let alone = self.all.len() == 1;
        // Who can move most comes first: then the fewest are touched.
        let mut order: Vec<_> = (0..self.all.len())
            .filter(|at| self.all[*at].state == State::Present)
            .map(|at| (Reverse(self.most(at, direction)), at))
            .collect();
        order.sort_unstable();
        for (Reverse(most), at) in order {
            // What one that is alone cannot do it says itself.
            let moves = if alone { rest } else { most.min(rest) };
            if moves == Bytes::ZERO && !alone {
                continue;
            }
            rest = rest.saturating_sub(moves);
            let member = &mut self.all[at];
            let from = member.usage.swapped;
            let target = match direction {
                Direction::Out => from + moves,
                Direction::In => from.saturating_sub(moves),
            };
            member.part = Some(Part {
                seq,
                from,
                target,
                ended: None,
            });
        }
        match direction {
            Direction::Out => self.begin(),
            // Each of them needs the budget for what it brings in.
            Direction::In => self.share_out(None),
        }
    }

    /// How low a process may bring what is in its backing store on a budget of `budget`: to the end
    /// of its part, except in a pipelined region, whose budget grows while others leave. Also to
    /// that end once the scheduler sees nothing lacking: a program that took of the budget meanwhile
    /// makes the operation fail, and not wait for ever.
    pub fn credit(&self, id: MemberId, budget: Bytes) -> Bytes {
        let Some(at) = self.find(id) else {
            return Bytes::MAX;
        };
        let Usage {
            resident, swapped, ..
        } = self.all[at].usage;
        let target = self.all[at].part.map_or(swapped, |part| part.target);
        if self.is_enough() {
            return target;
        }
        (resident + swapped).saturating_sub(budget).max(target)
    }

    /// Whether nothing that the task lacks holds the process back any more that brings memory in: it
    /// is told so with its budget, though that may be what it was.
    pub(super) fn frees_credit(&self, at: usize) -> bool {
        let begun = self.swap.is_some_and(|swap| swap.begun);
        let member = &self.all[at];
        let inward = member.part.is_some_and(|part| part.target < part.from);
        begun && member.moves() && inward && self.is_enough()
    }

    /// Whether the task has budget for all that the scheduler knows it to have anywhere.
    fn is_enough(&self) -> bool {
        self.told.resident + self.told.swapped <= self.budget
    }

    /// What one process can move, in whole chunks.
    fn most(&self, at: usize, direction: Direction) -> Bytes {
        let member = &self.all[at];
        let swapped = member.usage.swapped;
        match direction {
            Direction::In => swapped,
            Direction::Out => {
                let room = member.backing.saturating_sub(swapped);
                member.arena_resident().min(room).round_down(self.chunk)
            }
        }
    }

    /// Tells the agents, once their budgets are in place.
    pub(super) fn begin(&mut self) {
        let task = self.task;
        let Some(swap) = self.swap.as_mut().filter(|swap| !swap.begun) else {
            return;
        };
        swap.begun = true;
        let TaskSwap { seq, direction, .. } = *swap;
        for at in 0..self.all.len() {
            let member = &self.all[at];
            if let Some(part) = member.part.filter(|part| part.seq == seq)
                && member.state == State::Present
            {
                let target = part.target;
                self.order(
                    at,
                    Command::Swap {
                        task,
                        op: seq,
                        direction,
                        target,
                    },
                );
            }
        }
    }

    pub(super) fn abort(&mut self, op: SwapSeq) {
        let task = self.task;
        for at in 0..self.all.len() {
            let member = &self.all[at];
            let ours = member.part.is_some_and(|part| part.seq == op);
            if ours && member.moves() && member.state == State::Present {
                self.order(at, Command::Abort { task, op });
            }
        }
    }

    /// A process's part of the operation `op`, if `swapped` can be true of it.
    fn part(&mut self, at: usize, op: SwapSeq, swapped: Bytes) -> Result<&mut Member, EventError> {
        let (task, chunk) = (self.task, self.chunk);
        let member = &mut self.all[at];
        let under_way = |part: &Part| part.seq == op && part.ended.is_none();
        let part = member.part.filter(under_way);
        let part = part.ok_or(EventError::NoOperation { task, op })?;
        let left = swapped.saturating_sub(member.usage.swapped);
        let what = if swapped > part.from.max(part.target) {
            "swapped, which its operation cannot have reached"
        } else if swapped.round_down(chunk) != swapped {
            "swapped, not a multiple of the chunk size"
        } else if left > member.budget {
            "swapped, more than it may hold"
        } else {
            return Ok(member);
        };
        let bytes = swapped;
        Err(EventError::Impossible { task, what, bytes })
    }

    pub(super) fn swap_progress(
        &mut self,
        at: usize,
        op: SwapSeq,
        swapped: Bytes,
    ) -> Result<(), EventError> {
        self.part(at, op, swapped)?.moved_to(swapped);
        if self.all[at].state == State::Present && self.swap.is_some_and(|swap| swap.seq == op) {
            let (task, swapped) = (self.task, self.swapped());
            self.tell(Event::SwapProgress { task, op, swapped });
        }
        Ok(())
    }

    pub(super) fn swap_ended(
        &mut self,
        at: usize,
        op: SwapSeq,
        swapped: Bytes,
        took: Nanos,
        outcome: SwapOutcome,
    ) -> Result<(), EventError> {
        let member = self.part(at, op, swapped)?;
        member.moved_to(swapped);
        if let Some(part) = &mut member.part {
            part.ended = Some((outcome, took));
        }
        if member.state == State::Away {
            // It was given up, and is back.
            member.part = None;
            member.state = State::Returning;
        }
        Ok(())
    }

    /// The operation of the task is over when no process that is talked to moves any more.
    pub(super) fn end_swap(&mut self) {
        let Some(swap) = self.swap.filter(|swap| swap.begun) else {
            return;
        };
        if self.present().any(Member::moves) {
            return;
        }
        self.swap = None;
        let mut ends = Vec::new();
        for member in &mut self.all {
            let ours = |part: &mut Part| part.seq == swap.seq && part.ended.is_some();
            ends.extend(member.part.take_if(ours).and_then(|part| part.ended));
        }
        let outcome = ends
            .iter()
            .map(|(outcome, _)| *outcome)
            .max_by_key(|outcome| badness(*outcome));
        let took = ends.iter().map(|(_, took)| *took).max();
        let (task, op, swapped) = (self.task, swap.seq, self.swapped());
        self.tell(Event::SwapEnded {
            task,
            op,
            swapped,
            took: took.unwrap_or_default(),
            // All that took part are gone.
            outcome: outcome.unwrap_or(SwapOutcome::Aborted),
        });
    }

    /// Goes on without those that do not answer: what they may hold counts as it is, and cannot be
    /// moved. Should they only wait for something, they are asked to stop, and are back the sooner.
    /// One that is alone is waited for.
    pub(super) fn give_up_silent(&mut self) {
        if self.all.len() == 1 {
            return;
        }
        let others = self.present().any(|member| !member.moves());
        let task = self.task;
        for at in 0..self.all.len() {
            let member = &self.all[at];
            if let Some(part) = member.part
                && member.state == State::Present
                && member.moves()
            {
                let op = part.seq;
                self.order(at, Command::Abort { task, op });
                if others {
                    self.all[at].state = State::Away;
                    self.usage_changed = true;
                }
            }
        }
    }

    /// Those that have not done yet what they are asked to move.
    pub fn moving(&self) -> Vec<MemberId> {
        let moving = self.present().filter(|member| member.moves());
        moving.map(|member| member.id).collect()
    }

    /// In the backing stores.
    fn swapped(&self) -> Bytes {
        self.present().map(|member| member.usage.swapped).sum()
    }
}

impl Member {
    /// As far as is known before its next report.
    fn moved_to(&mut self, swapped: Bytes) {
        let usage = &mut self.usage;
        let came = usage.swapped.saturating_sub(swapped);
        let left = swapped.saturating_sub(usage.swapped);
        let outward = self.part.is_some_and(|part| part.target >= part.from);
        // What an operation outward does not hold any more was freed; nothing came in.
        let came = if outward { Bytes::ZERO } else { came };
        let resident = (usage.resident + came).saturating_sub(left);
        usage.resident = resident.min(self.budget);
        usage.swapped = swapped;
        usage.arena = usage.arena.max(swapped).min(usage.resident + swapped);
    }
}

/// The worst end of any is that of all.
fn badness(outcome: SwapOutcome) -> u8 {
    match outcome {
        SwapOutcome::Done => 0,
        SwapOutcome::Aborted => 1,
        SwapOutcome::OutOfMemory => 2,
        SwapOutcome::Failed => 3,
        SwapOutcome::Undrainable => 4,
    }
}
