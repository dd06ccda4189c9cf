//! Swap operations: one event each, and one more for each chunk that a swap-in waits for.
//!
//! In a pipelined region, and for the turn of a best-effort task, a swap-in fills chunks up to its budget, pauses, and goes on when the budget
//! grows. A swap-out reports after each chunk, unless the swap-in under way still has credit: no task
//! waits for the report then, so it is made when the credit is used up. Both directions move
//! at the pace of two loaded copy engines; in a scenario whose jobs copy, twice as fast while no such copy is beside them.

use rtswap_policy::admission::Test;
use rtswap_policy::scheduler::{Config, Direction, Event, SwapOutcome, SwapSeq};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};

use super::{Happening, World};
use crate::agent::Moving;
use crate::error::SimError;
use crate::record::{Moved, Observer, SwapRecord};

/// The time of one chunk; rounded down under load, so that the sum of many is within their bound.
pub(super) fn pace(config: &Config, direction: Direction) -> Nanos {
    let cost = match direction {
        Direction::Out => config.swap_cost.out,
        Direction::In => config.swap_cost.in_,
    };
    let alone = cost.chunk_time(config.chunk);
    if config.test != Test::Pipelined {
        return Nanos(alone.0.max(1));
    }
    let loaded = u128::from(alone.0) * u128::from(Ppm::ONE.0) / u128::from(config.duplex.0);
    Nanos(u64::try_from(loaded).unwrap_or(u64::MAX).max(1))
}

impl<O: Observer> World<'_, O> {
    fn pipelined(&self) -> bool {
        self.scenario.config.test == Test::Pipelined
    }

    pub(super) fn start_swap(
        &mut self,
        id: TaskId,
        op: SwapSeq,
        direction: Direction,
        target: Bytes,
    ) -> Result<(), SimError> {
        let now = self.clock.now;
        let config = &self.scenario.config;
        let base = match direction {
            Direction::Out => config.swap_cost.out.base,
            Direction::In => config.swap_cost.in_.base,
        };
        let pace = self.present_pace(direction);
        let agent = self.agent(id);
        let busy = agent.moving.is_some() || agent.running.is_some();
        let from = agent.usage.swapped;
        let ahead = match direction {
            Direction::Out => target > from,
            Direction::In => target < from,
        };
        let mut moving = Moving {
            op,
            direction,
            target,
            from,
            started: now,
            at: from,
            ready: now + base,
            chunks: 0,
            pace,
            chunk: config.chunk,
            aborted: false,
            ignores_until: None,
            due: Time::MAX,
        };
        moving.chunks = match direction {
            Direction::In => agent.credit(&moving),
            Direction::Out => moving.rest(),
        };
        agent.moving = Some(moving);
        self.forbid(busy, id, "is swapped while it runs or swaps")?;
        self.forbid(!ahead, id, "is swapped to where it is")?;
        match direction {
            Direction::Out => {
                let used = self.out.replace(id).is_some();
                self.forbid(used, id, "is swapped out beside another")?;
            }
            Direction::In => {
                let used = self.in_.replace(id).is_some();
                self.forbid(used, id, "is swapped in beside another")?;
            }
        }
        self.plan_swap(id);
        self.share_engines();
        if direction == Direction::In && moving.chunks == 0 {
            self.plan_report();
        }
        Ok(())
    }

    /// Plans when to look at the operation of `id` next.
    pub(super) fn plan_swap(&mut self, id: TaskId) {
        let now = self.clock.now;
        let waited_for = self.waits_for_chunks();
        let Some(moving) = &mut self.agent(id).moving else {
            return;
        };
        let due = if let Some(ends) = moving.ignores_until {
            match moving.chunks {
                0 => ends,
                chunks => moving.instant(chunks).min(ends),
            }
        } else if moving.aborted {
            moving.instant(moving.begun(now)).max(now)
        } else if moving.direction == Direction::Out && waited_for {
            moving.instant((moving.moved(now) + 1).min(moving.chunks))
        } else if moving.chunks == 0 {
            Time::MAX
        } else {
            moving.instant(moving.chunks)
        };
        if due == moving.due {
            return;
        }
        moving.due = due;
        let op = moving.op;
        if due < Time::MAX {
            self.clock.plan(due, Happening::Swap(id, op));
        }
    }

    /// Whether a task may wait for each chunk that leaves: not while the swap-in has credit left. With none
    /// under way only a pipelined region may.
    fn waits_for_chunks(&self) -> bool {
        let inward = self
            .in_
            .and_then(|id| self.agents[id.0 as usize].moving.as_ref());
        inward.map_or(self.pipelined(), |moving| moving.chunks == 0)
    }

    /// The operation outward, if there is one, reports at its next chunk.
    fn plan_report(&mut self) {
        if let Some(id) = self.out {
            self.plan_swap(id);
        }
    }

    pub(super) fn abort_swap(&mut self, id: TaskId, op: SwapSeq) {
        let most = self.clock.now + self.scenario.config.drain;
        let ignores = self.scenario.ignores_aborts;
        if let Some(moving) = &mut self.agent(id).moving
            && moving.op == op
        {
            moving.aborted = true;
            moving.ignores_until = ignores.then_some(most);
            self.plan_swap(id);
        }
    }

    /// The budget of `id` has changed: a swap-in under way fills up to it.
    pub(super) fn refill(&mut self, id: TaskId) {
        if self.in_ != Some(id) {
            return;
        }
        let now = self.clock.now;
        let agent = self.agent(id);
        let Some(mut moving) = agent.moving else {
            return;
        };
        if moving.chunks == 0 {
            moving.go_on(now, 0);
            moving.chunks = agent.credit(&moving);
        } else {
            moving.chunks = agent.credit(&moving).max(moving.begun(now));
        }
        agent.moving = Some(moving);
        self.plan_swap(id);
    }

    /// An operation has come to its end, to the end of its credit, or to a chunk that another task waits
    /// for.
    pub(super) fn swap_is_due(&mut self, id: TaskId, op: SwapSeq) -> Result<(), SimError> {
        let now = self.clock.now;
        let agent = self.agent(id);
        let Some(mut moving) = agent.moving.filter(|moving| moving.op == op) else {
            return Ok(());
        };
        if moving.due != now {
            return Ok(());
        }
        let swapped = moving.after(moving.moved(now));
        if swapped == moving.target || moving.aborted {
            return self.end_swap(id, moving, swapped);
        }
        agent.moved(swapped);
        moving.due = Time::MAX;
        if moving.direction == Direction::In {
            moving.go_on(now, 0);
            agent.moving = Some(moving);
            // Chunks that have left meanwhile were not reported, because no task waited for them.
            return match self.out {
                Some(out) => self.report_progress(out),
                None => Ok(()),
            };
        }
        agent.moving = Some(moving);
        self.report_progress(id)
    }

    /// Tells what has left by now, if that is news, and plans the next report.
    fn report_progress(&mut self, id: TaskId) -> Result<(), SimError> {
        let now = self.clock.now;
        let agent = self.agent(id);
        let Some(moving) = agent.moving else {
            return Ok(());
        };
        let op = moving.op;
        let swapped = moving.after(moving.moved(now));
        if swapped == moving.target || moving.aborted {
            // Its end is planned for this instant, or comes with the next chunk.
            return Ok(());
        }
        let news = swapped != agent.usage.swapped || moving.due == Time::MAX;
        agent.moved(swapped);
        if news && swapped != moving.from {
            self.tell(Event::SwapProgress {
                task: id,
                op,
                swapped,
            })?;
        }
        self.plan_swap(id);
        Ok(())
    }

    fn end_swap(&mut self, id: TaskId, moving: Moving, swapped: Bytes) -> Result<(), SimError> {
        let now = self.clock.now;
        let agent = self.agent(id);
        agent.moving = None;
        agent.moved(swapped);
        let over = agent.usage.resident > agent.budget;
        self.forbid(over, id, "has swapped in beyond its budget")?;
        match moving.direction {
            Direction::Out => self.out = None,
            Direction::In => self.in_ = None,
        }
        self.share_engines();
        let outcome = if swapped == moving.target {
            SwapOutcome::Done
        } else {
            SwapOutcome::Aborted
        };
        if O::WATCHES && self.started {
            let bytes = Bytes(swapped.0.abs_diff(moving.from.0));
            self.watch_swap(id, moving, bytes, outcome);
        }
        self.tell(Event::SwapEnded {
            task: id,
            op: moving.op,
            swapped,
            took: now - moving.started,
            outcome,
        })
    }

    fn watch_swap(&mut self, id: TaskId, moving: Moving, bytes: Bytes, outcome: SwapOutcome) {
        let beneficiary = self.scheduler.state().beneficiary(id);
        if let Some(other) = beneficiary {
            let agent = self.agent(other);
            let moved: &mut Moved = match moving.direction {
                Direction::Out => &mut agent.out,
                Direction::In => &mut agent.in_,
            };
            moved.operations += 1;
            moved.bytes += bytes;
        }
        let record = SwapRecord {
            task: id,
            op: moving.op,
            direction: moving.direction,
            beneficiary,
            started: moving.started,
            ended: self.clock.now,
            bytes,
            outcome,
        };
        self.observer.swap(&record);
    }
}
