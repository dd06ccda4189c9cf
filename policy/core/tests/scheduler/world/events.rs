//! The events that agents and the shell send. Each function returns whether the scheduler took it.

use rtswap_policy::scheduler::{
    BudgetRequestSeq, Direction, Event, JobKind, JobSeq, OpenJob, SwapOutcome, SwapSeq,
};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos};

use super::{Agent, World};

impl World {
    /// The shell confirms the oldest budget. None if there is none.
    pub(crate) fn confirm(&mut self) -> Option<bool> {
        let (task, bytes) = self.budgets.pop_front()?;
        // More, if the agent has taken it already.
        let bytes = bytes.max(self.agent(task.0).usage.resident);
        Some(self.hand_in(Event::BudgetSet { task, bytes }))
    }

    /// The agent that was asked first for a backing store pins what it can. None if none was asked.
    pub(crate) fn pin(&mut self) -> Option<bool> {
        let prompt = |(task, _): &(TaskId, Bytes)| !self.agents[task.0 as usize].pins_late;
        let place = self.stores.iter().position(prompt)?;
        let (task, bytes) = self.stores.remove(place)?;
        let bytes = self.agent(task.0).pin(bytes);
        Some(self.hand_in(Event::Backing { task, bytes }))
    }

    /// An operation that was aborted stops. False if there is none.
    pub(super) fn stop(&mut self) -> bool {
        let aborted = |agent: &Agent| agent.op.is_some_and(|op| op.aborted);
        let id = self.agents.iter().position(aborted);
        id.is_some_and(|id| self.swap_on(id as u32, Bytes::ZERO))
    }

    /// The process of `agent` says Hello.
    pub(crate) fn attach(&mut self, id: u32, agent: Agent, open: Option<OpenJob>) -> bool {
        let task = TaskId(id);
        self.forget(task);
        if open.is_some_and(|open| open.running) {
            self.running.push_back(task);
        }
        let place = self.agent(id);
        *place = Agent {
            attached: true,
            job: open.map(|open| open.job),
            former: place.job,
            ..agent
        };
        let Agent { usage, backing, .. } = *place;
        self.tell(Event::Attach {
            task,
            usage,
            backing,
            open,
        })
    }

    /// The process of `id` dies.
    pub(crate) fn detach(&mut self, id: u32) -> bool {
        let task = TaskId(id);
        self.forget(task);
        *self.agent(id) = self.agent(id).successor();
        self.tell(Event::Detach { task })
    }

    /// The session of `id` ends before its process.
    pub(crate) fn lose(&mut self, id: u32) -> bool {
        let task = TaskId(id);
        self.forget(task);
        let agent = self.agent(id);
        (agent.attached, agent.op, agent.want) = (false, None, None);
        self.tell(Event::Lost { task })
    }

    fn forget(&mut self, id: TaskId) {
        self.budgets.retain(|(task, _)| *task != id);
        self.stores.retain(|(task, _)| *task != id);
        self.running.retain(|task| *task != id);
    }

    pub(crate) fn request_kind(&mut self, id: u32, kind: JobKind) -> bool {
        let agent = self.agent(id);
        agent.jobs += 1;
        let job = JobSeq(agent.jobs);
        agent.job = agent.job.or(Some(job));
        let task = TaskId(id);
        self.tell(Event::JobRequested { task, job, kind })
    }

    pub(crate) fn request(&mut self, id: u32) -> bool {
        self.request_kind(id, JobKind::Declared)
    }

    pub(crate) fn complete(&mut self, id: u32) -> bool {
        let task = TaskId(id);
        let job = self.agent(id).job.unwrap_or_default();
        self.tell(Event::JobCompleted { task, job })
    }

    pub(crate) fn want(&mut self, id: u32, bytes: u64) -> bool {
        let agent = self.agent(id);
        agent.wants += 1;
        let want = BudgetRequestSeq(agent.wants);
        agent.want = Some(want);
        let (task, bytes) = (TaskId(id), Bytes(bytes));
        self.tell(Event::BudgetRequested { task, want, bytes })
    }

    pub(crate) fn report_usage(&mut self, id: u32) -> bool {
        let (task, usage) = (TaskId(id), self.agent(id).usage);
        self.tell(Event::Usage { task, usage })
    }

    /// Processes of the task are gone and left `dying` bytes of its budget behind.
    pub(crate) fn regroup(&mut self, id: u32, dying: u64) -> bool {
        let Agent { usage, backing, .. } = *self.agent(id);
        self.tell(Event::Regrouped {
            task: TaskId(id),
            dying: Bytes(dying),
            usage,
            backing,
        })
    }

    /// The agent says of `op` that `swapped` bytes are out, and how it ended if it did.
    pub(crate) fn report_swap(
        &mut self,
        id: u32,
        op: SwapSeq,
        swapped: Bytes,
        outcome: Option<SwapOutcome>,
    ) -> bool {
        let task = TaskId(id);
        let agent = self.agent(id);
        agent.place(swapped);
        let Some(outcome) = outcome else {
            return self.tell(Event::SwapProgress { task, op, swapped });
        };
        agent.op = None;
        self.tell(Event::SwapEnded {
            task,
            op,
            swapped,
            took: Nanos::ZERO,
            outcome,
        })
    }

    /// The operation of `id` stops if it was asked to, or moves up to `most` bytes. False if there is no
    /// operation or it has to wait for budget.
    pub(crate) fn swap_on(&mut self, id: u32, most: Bytes) -> bool {
        let chunk = self.config.chunk;
        let Agent { usage, budget, .. } = *self.agent(id);
        let Some(op) = &mut self.agent(id).op else {
            return false;
        };
        let (seq, out) = (op.seq, usage.swapped);
        if op.aborted {
            return self.report_swap(id, seq, out, Some(SwapOutcome::Aborted));
        }
        let left = Bytes(out.0.abs_diff(op.target.0));
        let swapped = match op.direction {
            Direction::Out => out + most.min(left),
            Direction::In => {
                let room = budget.saturating_sub(usage.resident).round_down(chunk);
                out - most.min(left).min(room)
            }
        };
        if swapped == out && left > Bytes::ZERO {
            op.pauses += 1;
            return false;
        }
        let outcome = (swapped == op.target).then_some(SwapOutcome::Done);
        self.report_swap(id, seq, swapped, outcome)
    }

    /// As [`Self::swap_on`], for the first in turn that need not wait.
    pub(crate) fn swap_any(&mut self, most: Bytes) -> bool {
        for _ in 0..self.moving.len() {
            let Some(task) = self.moving.pop_front() else {
                break;
            };
            if self.agent(task.0).op.is_some() {
                self.moving.push_back(task);
                if self.swap_on(task.0, most) {
                    return true;
                }
            }
        }
        false
    }
}
