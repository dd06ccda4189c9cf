//! Requests for more budget: every one is answered, with the budget unchanged if refused.
//!
//! A request counts resident and swapped bytes together, because memory of the asking task may leave
//! while it waits. It is refused at once only for memory that is known never to leave. Budget that an
//! agent has taken and not yet reported may turn out to be in the arena, and memory on its way in can
//! leave again, so neither is a reason to refuse. Nor is a long queue: the time after which a request is
//! given up begins again whenever one before it is granted.

use super::record::{BudgetRequest, Cause, Phase};
use super::state::Settled;
use super::{BudgetAnswer, BudgetRequestSeq, EventError, Scheduler};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

/// The time that an agent has to use a budget given for an allocation before it may be taken back for
/// best-effort; otherwise two loading programs would take it from each other forever.
const FRESH: Nanos = Nanos(20_000_000);

/// What becomes of a budget request now.
enum Decision {
    Accept,
    Refuse,
    /// The task's backing store must grow first.
    Pin,
    /// Memory must become free first, and no other task gets any until then.
    Wait,
    /// Nothing can leave now, but later something can: others go on meanwhile.
    Defer,
}

impl Scheduler {
    pub(super) fn record_budget_request(
        &mut self,
        id: TaskId,
        seq: BudgetRequestSeq,
        bytes: Bytes,
    ) -> Result<(), EventError> {
        let now = self.state.now;
        let task = self.attached(id)?;
        let total = bytes + task.usage.swapped;
        match task.want {
            Some(open) if open.seq == seq => {
                return Err(EventError::BudgetRequestOpen {
                    task: id,
                    want: seq,
                });
            }
            // An agent has one open request: a new one replaces it.
            Some(_) => {}
            None => self.state.wants.push_back(id),
        }
        self.task_mut(id).want = Some(BudgetRequest::new(seq, total, now));
        Ok(())
    }

    /// Answers the requests that can be answered, first come first. Returns whether one waits for memory
    /// to become free.
    pub(super) fn serve_wants(&mut self) -> bool {
        let (mut waits, mut has_granted) = (false, false);
        let now = self.state.now;
        // A request that must wait goes to the back. After one round all are in their order again.
        for _ in 0..self.state.wants.len() {
            let Some(id) = self.state.wants.pop_front() else {
                break;
            };
            let Some(mut want) = self.task(id).want else {
                continue;
            };
            if has_granted {
                want.stalled_since = now;
                self.task_mut(id).want = Some(want);
            }
            let decision = self.decide(id, want, waits);
            match decision {
                Decision::Accept | Decision::Refuse => {
                    let task = self.task(id);
                    let asked = task.asked;
                    let bytes = match decision {
                        Decision::Accept => asked.max(want.budget(task.usage.swapped)),
                        _ => asked,
                    };
                    let granted = matches!(decision, Decision::Accept);
                    has_granted |= granted;
                    let task = self.task_mut(id);
                    task.want = None;
                    if granted {
                        task.fresh_until = now + FRESH;
                        task.last_given = now;
                    }
                    let want = want.seq;
                    self.set_budget(id, bytes, Some(BudgetAnswer { want, granted }));
                }
                Decision::Pin | Decision::Defer => self.state.wants.push_back(id),
                Decision::Wait => {
                    waits = true;
                    self.state.wants.push_back(id);
                }
            }
        }
        waits
    }

    fn decide(&mut self, id: TaskId, want: BudgetRequest, others_wait: bool) -> Decision {
        let task = self.task(id);
        let budget = want.budget(task.usage.swapped);
        let extra = budget.saturating_sub(task.asked);
        if extra == Bytes::ZERO {
            return Decision::Accept;
        }
        if task.is_held() {
            // A program that is refused memory mostly ends: no bound counts before the task is resumed.
            return Decision::Defer;
        }
        // A job runs with all its memory resident, beside the memory of others that never leaves.
        let ends = task.request_ends();
        let state = self.state.settled();
        let has_ended = ends.is_some_and(|at| at <= state.now);
        let fixed = state.sums().fixed.saturating_sub(state.share(id).fixed);
        if want.total + fixed > state.capacity || has_ended {
            return Decision::Refuse;
        }
        if self.state.barred_until(id).is_some() {
            return Decision::Defer;
        }
        let state = self.state.settled();
        if !state.keeps_promise(id, budget, None) {
            return self.pin_for(id, want);
        }
        if self.state.realtime_active() {
            return self.decide_beside_realtime(id, extra);
        }
        // The running task is answered first, because the others may wait for its job to end.
        if others_wait && !self.task(id).runs() {
            return Decision::Wait;
        }
        if extra <= self.state.free() {
            return Decision::Accept;
        }
        if self.evict(extra, Cause::BestEffort, Some(id)) {
            return Decision::Wait;
        }
        // Memory of another best-effort job can leave once that job has left the GPU.
        let others_run = self.state.running.iter().any(|running| *running != id);
        if others_run {
            Decision::Wait
        } else {
            let state = self.state.settled();
            let leaves = state.sums().leaves.saturating_sub(state.share(id).leaves);
            if extra <= state.free() + leaves {
                Decision::Defer
            } else {
                self.refuse_unless_planned(id)
            }
        }
    }

    /// While a realtime job waits or runs, free memory is for such jobs: much of it was evicted for one
    /// that waits, and would have to be evicted for it again. A running realtime job is answered at once,
    /// because the others wait for it to end: it gets free memory that they are not short of, and nothing
    /// is evicted for it.
    fn decide_beside_realtime(&self, id: TaskId, extra: Bytes) -> Decision {
        let (state, task) = (&self.state, self.task(id));
        if !(task.runs() && task.realtime_job()) {
            return Decision::Wait;
        }
        let waiting = state.queue.iter().map(|(_, id)| id).chain(state.region);
        let lacked = waiting.map(|id| self.task(id).short()).max();
        if extra + lacked.unwrap_or_default() <= state.free() {
            Decision::Accept
        } else {
            Decision::Refuse
        }
    }

    /// Refuses, unless a plan that is to come may give the task its memory.
    fn refuse_unless_planned(&mut self, id: TaskId) -> Decision {
        if self.finds_room(id) {
            Decision::Defer
        } else {
            Decision::Refuse
        }
    }

    /// Grows the backing store if the plan holds once the new memory is swappable: memory that can leave
    /// again takes nothing from realtime.
    fn pin_for(&mut self, id: TaskId, want: BudgetRequest) -> Decision {
        let task = self.task(id);
        if task.plan.is_some() {
            // What it declared is in the plan: too much is only what others hold, and reports lag behind. Once it has
            // deadlines, others may wait for the job that asks.
            let is_declared = want.total <= task.spec.memory.footprint;
            return if task.phase == Phase::Loading && is_declared {
                Decision::Defer
            } else {
                Decision::Refuse
            };
        }
        if task.backing_asked.is_some() {
            return Decision::Pin;
        }
        let backing = want.total.round_up(self.config.chunk);
        let budget = want.budget(task.usage.swapped);
        if want.pinning
            || !self
                .state
                .settled()
                .keeps_promise(id, budget, Some(backing))
        {
            if self.state.settled().may_keep_promise(id, budget) {
                return Decision::Defer;
            }
            return self.refuse_unless_planned(id);
        }
        if let Some(want) = &mut self.task_mut(id).want {
            want.pinning = true;
        }
        self.ask_backing_store(id, backing);
        Decision::Pin
    }
}

impl Settled<'_> {
    /// Whether realtime can have what its plan needs with `id` at a budget of `bytes`, and with a
    /// backing store of `backing` if that is said.
    fn keeps_promise(self, id: TaskId, bytes: Bytes, backing: Option<Bytes>) -> bool {
        let task = &self.tasks[id];
        let planned = self.planned(Some(id), bytes + task.usage.swapped, false);
        if planned == Bytes::ZERO {
            return true;
        }
        let now = self.unmovable(Some(id), bytes, false);
        let fixed = match backing {
            None => now,
            Some(backing) => {
                let mut grown = task.clone();
                grown.backing = backing;
                grown.backing_asked = None;
                now.saturating_sub(task.unmovable(bytes)) + grown.unmovable(bytes)
            }
        };
        planned + fixed <= self.capacity
    }

    /// As [`Self::keeps_promise`], once the agents have reported what they took and the backing stores are as
    /// large as they can be: those of programs that load lag behind.
    fn may_keep_promise(self, id: TaskId, bytes: Bytes) -> bool {
        let task = &self.tasks[id];
        let planned = self.planned(Some(id), bytes + task.usage.swapped, false);
        let outside = self.tasks.iter().filter(|(_, task)| task.plan.is_none());
        let fixed = outside.map(|(other, task)| {
            let budget = if other == id { bytes } else { task.kept() };
            task.once_reported().unmovable(budget)
        });
        planned + fixed.sum() <= self.capacity
    }
}
