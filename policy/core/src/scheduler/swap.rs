//! Swap operations: one per copy engine and at most one per task.

use alloc::format;

use super::record::{Cause, Op, Phase};
use super::{Command, Direction, EventError, Scheduler, SwapOutcome, SwapSeq, ViolationKind};
use crate::scheduler::job::Place;
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

/// An agent is overdue after this many times the bound of what it was asked for ...
const OVERDUE_FACTOR: u64 = 4;
/// ... and this, below which the cost model says nothing.
const OVERDUE_FLOOR: Nanos = Nanos(100_000_000);
/// How long an agent may take for what takes `bound` by the model.
pub(super) fn allowance(bound: Nanos) -> Nanos {
    Nanos(bound.0.saturating_mul(OVERDUE_FACTOR)) + OVERDUE_FLOOR
}

/// How long a best-effort task is spared as a victim after a swap-out that fell short: others have their turn.
const RETRY: Nanos = Nanos(5_000_000);

/// How long after one that failed for good, or of a realtime task.
const SPARED: Nanos = Nanos(100_000_000);

impl Scheduler {
    /// Starts a swap operation on its copy engine, which is free. For a swap-in the budget was
    /// raised before.
    pub(super) fn start_swap(
        &mut self,
        id: TaskId,
        direction: Direction,
        target: Bytes,
        cause: Cause,
        beneficiary: Option<TaskId>,
    ) {
        let from = self.task(id).usage.swapped;
        let moved = Bytes(from.0.abs_diff(target.0));
        let cost = match direction {
            Direction::Out => self.config.swap_cost.out,
            Direction::In => self.config.swap_cost.in_,
        };
        let filled = beneficiary.filter(|id| self.is_filled(*id));
        let pipelined = filled.is_some();
        let alone = cost.bound(moved, self.config.chunk);
        let bound = if pipelined {
            alone.slowed(self.config.duplex)
        } else {
            alone
        };
        let is_realtime = self.task(id).phase == Phase::Ready;
        let due = match cause {
            // A realtime job waits for a stranger: it gets twice what the model says, and its time to leave. Where one
            // of the same owner has just wasted that time, the model is all: many processes of one user would
            // make realtime wait for each of them anew.
            Cause::Realtime if !is_realtime => match self.state.barred_until(id) {
                Some(_) => bound,
                None => bound + bound + self.leaving_bound(),
            },
            _ => allowance(bound + self.config.drain),
        };
        let now = self.state.now;
        let task = self.task_mut(id);
        task.last_op = task.last_op.wrapping_add(1).max(1);
        let seq = SwapSeq(task.last_op);
        task.op = Some(Op {
            seq,
            direction,
            from,
            target,
            cause,
            beneficiary,
            started: now,
            due: now + due,
            overdue: false,
            aborting: false,
            pipelined,
            released: Bytes::ZERO,
        });
        match direction {
            Direction::Out => {
                self.state.out = Some(id);
                if let Some(filled) = filled {
                    self.extend_fill(filled, due);
                }
            }
            Direction::In => self.state.in_ = Some(id),
        }
        self.emit(Command::Swap {
            task: id,
            op: seq,
            direction,
            target,
        });
    }

    /// The operation `seq` of `id`, if `swapped` can be true of it.
    fn reported(&self, id: TaskId, seq: SwapSeq, swapped: Bytes) -> Result<&Op, EventError> {
        let task = self.attached(id)?;
        let none = EventError::NoOperation { task: id, op: seq };
        let op = task.op.as_ref().filter(|op| op.seq == seq).ok_or(none)?;
        // It may be less than either end: the program frees swapped memory meanwhile.
        let most = op.from.max(op.target);
        let left = swapped.saturating_sub(task.usage.swapped);
        let what = if swapped > most {
            "swapped, which its operation cannot have reached"
        } else if swapped.round_down(self.config.chunk) != swapped {
            "swapped, not a multiple of the chunk size"
        } else if swapped > task.backing {
            // It may be smaller than when the operation began: `Event::Regrouped`.
            "swapped, more than its backing store holds"
        } else if left > task.budget {
            // Not what was resident: it may have allocated since its last report.
            "swapped, more than it may hold"
        } else {
            return Ok(op);
        };
        Err(EventError::Impossible {
            task: id,
            what,
            bytes: swapped,
        })
    }

    fn move_to(&mut self, id: TaskId, swapped: Bytes) {
        let task = self.task_mut(id);
        let outward = task
            .op
            .as_ref()
            .is_some_and(|op| op.direction == Direction::Out);
        let usage = &mut task.usage;
        let came = usage.swapped.saturating_sub(swapped);
        // What an operation outward does not hold any more was freed; nothing came in.
        let came = if outward { Bytes::ZERO } else { came };
        let left = swapped.saturating_sub(usage.swapped);
        let resident = (usage.resident + came).saturating_sub(left);
        // Some of what seems to have come in may have been freed instead: its next report tells,
        // and whether it took more than it may.
        usage.resident = resident.min(task.budget);
        usage.swapped = swapped;
        usage.arena = usage.arena.max(swapped).min(usage.resident + swapped);
    }

    pub(super) fn swap_progress(
        &mut self,
        id: TaskId,
        seq: SwapSeq,
        swapped: Bytes,
    ) -> Result<(), EventError> {
        self.reported(id, seq, swapped)?;
        self.move_to(id, swapped);
        self.hand_over(id);
        Ok(())
    }

    pub(super) fn swap_ended(
        &mut self,
        id: TaskId,
        seq: SwapSeq,
        swapped: Bytes,
        outcome: SwapOutcome,
    ) -> Result<(), EventError> {
        let op = self.reported(id, seq, swapped)?.clone();
        // Otherwise an agent that reports success without moving anything would be asked again forever.
        let outcome = match outcome {
            SwapOutcome::Done if swapped != op.target => SwapOutcome::Failed,
            said => said,
        };
        self.close_span();
        self.move_to(id, swapped);
        if !op.overdue {
            match op.direction {
                Direction::Out => self.state.out = None,
                Direction::In => self.state.in_ = None,
            }
        }
        let (now, chunk) = (self.state.now, self.config.chunk);
        let task = self.task_mut(id);
        task.op = None;
        if task.usage.swapped <= task.plan.unwrap_or_default() {
            task.carried = Bytes::ZERO;
        }
        let asked_to_stop = op.aborting && outcome == SwapOutcome::Aborted;
        let fell_short = op.direction == Direction::Out && outcome != SwapOutcome::Done;
        let moves = swapped > op.from;
        // Whatever its plan says: more than that is asked of it where nothing else is left.
        let keeps = if moves {
            task.can_leave(op.cause, task.asked, chunk)
        } else {
            task.movable().round_down(chunk)
        };
        let keeps = keeps > Bytes::ZERO;
        let fell_short = fell_short && keeps && !asked_to_stop;
        // A program that frees memory meanwhile falls short, too, but hardly twice.
        let moved_nothing = fell_short && !moves;
        let kept_back = moved_nothing && core::mem::replace(&mut task.moved_nothing, moved_nothing);
        task.moved_nothing = moved_nothing && !kept_back;
        let is_best_effort = task.phase != Phase::Ready;
        if fell_short {
            let is_first = is_best_effort && !kept_back && outcome != SwapOutcome::Undrainable;
            task.spared_until = now + if is_first { RETRY } else { SPARED };
        }
        let (asked, resident, short) = (task.asked, task.usage.resident, task.short());
        // Out: what has left is free. In: what was reserved and not filled is free again.
        let freed = match op.direction {
            Direction::Out => swapped.saturating_sub(op.from + op.released),
            Direction::In if op.pipelined => swapped.saturating_sub(op.target + short),
            Direction::In => swapped.saturating_sub(op.target),
        };
        let budget = asked.saturating_sub(freed).max(resident);
        if budget < asked {
            self.set_budget(id, budget, None);
        }
        if outcome == SwapOutcome::Undrainable {
            let detail = format!("its gate could not be drained for swap operation {}", seq.0);
            self.violation(id, ViolationKind::Undrainable, detail);
            self.leave_plan(id);
        } else if kept_back && is_best_effort && !op.overdue {
            let detail = format!(
                "swap operation {} has ended, the second that moved nothing: others wait for {}",
                seq.0,
                op.target.saturating_sub(op.from)
            );
            self.violation(id, ViolationKind::SwapFailed, detail);
        }
        if op.direction == Direction::In && swapped > op.target {
            self.fell_short(id, outcome, asked_to_stop);
        }
        self.update_volume(id);
        Ok(())
    }

    /// A swap-in ended before its target.
    fn fell_short(&mut self, id: TaskId, outcome: SwapOutcome, asked_to_stop: bool) {
        match self.task(id).job.as_ref().map(|job| job.place) {
            Some(Place::Region) => self.swap_in_failed(id, outcome),
            // Stopping as asked is no failure; anything else would only fail again at once.
            Some(Place::BestEffort) if !asked_to_stop => self.put_aside(id, SPARED),
            _ => {}
        }
    }
}
