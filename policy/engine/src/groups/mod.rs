//! The processes of one task on one GPU as one [`ProcessGroup`]: what the processes report becomes
//! what the task tells the scheduler, and the scheduler's commands become orders to processes. So the
//! scheduler knows one task, whatever the number of its processes. With one process everything passes
//! unchanged.
//!
//! `boundary` is what crosses to processes, `process` what is known of one of them, `scratch` reused
//! memory. `life` follows how processes come and go; `job`, `swap` and `progress`, `share` and
//! `request` (budget) and `store` divide what the task does and has; `usage` tells the scheduler where
//! its bytes are, `taken` what it may come to have, `unproven` decides how much of what a process says counts.

mod boundary;
mod job;
mod life;
mod process;
mod progress;
mod request;
mod scratch;
mod share;
mod store;
mod swap;
mod taken;
#[cfg(test)]
mod tests;
mod unproven;
mod usage;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use rtswap_policy::scheduler::{Attachment, Command, Event, EventError, ViolationKind};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

pub use boundary::{Effect, MAX_PROCESSES, Order, ProcessId, Report};
use job::Jobs;
use process::Process;
use scratch::Scratch;
use share::TaskBudget;
use swap::TaskSwap;
pub use taken::{Need, StoreNeed, Taken, served_by};
use usage::Told;

/// What remains to be done.
#[derive(Debug, Default)]
struct Agenda {
    /// The latest time that a call was passed.
    now: Time,
    /// Something has changed since [`ProcessGroup::step`] last looked.
    dirty: bool,
    effects: VecDeque<Effect>,
}

/// The processes of one task on one GPU. A single process's reports and orders pass unchanged.
///
/// After each call, carry out what [`Self::poll`] returns until it is empty; once the scheduler has
/// no command left either, call [`Self::step`], and start over while it returns true.
#[derive(Debug)]
pub struct ProcessGroup {
    task: TaskId,
    /// δ, the size of a swap chunk.
    chunk: Bytes,
    /// The task has a deadline: each process runs once in a job of the task.
    realtime: bool,
    attachment: Attachment,
    /// In order of arrival.
    processes: Vec<Process>,
    jobs: Jobs,
    swap: Option<TaskSwap>,
    /// The processes that moved nothing in the last swap-out.
    failed: Vec<ProcessId>,
    budget: TaskBudget,
    /// The backing store that the scheduler asks for and has no answer to.
    store_asked: Option<Bytes>,
    /// How many swap-outs the group has ordered by itself.
    evictions: u32,
    told: Told,
    agenda: Agenda,
    scratch: Scratch,
}

impl ProcessGroup {
    /// A group without processes, for `task` on a GPU with swap chunks of `chunk` bytes.
    pub fn new(task: TaskId, chunk: Bytes, realtime: bool) -> Self {
        Self {
            task,
            chunk,
            realtime,
            attachment: Attachment::Absent,
            processes: Vec::new(),
            jobs: Jobs::default(),
            swap: None,
            failed: Vec::new(),
            budget: TaskBudget::default(),
            store_asked: None,
            evictions: 0,
            told: Told::default(),
            agenda: Agenda::default(),
            scratch: Scratch::default(),
        }
    }

    /// The next effect, to be carried out before the one after it; none when all are taken.
    pub fn poll(&mut self) -> Option<Effect> {
        self.agenda.effects.pop_front()
    }

    /// Derives the next effects from what has changed, for [`Self::poll`]; false if there are none.
    ///
    /// The order matters. Processes that may join the running job come first: they free nothing and wait
    /// for nothing. Then the scheduler learns where memory is, then of the ends that free the GPU, then of
    /// requests, because its reaction to one effect may change which effect comes next.
    pub fn step(&mut self) -> bool {
        const ATTACHED: &[fn(&mut ProcessGroup)] = &[
            ProcessGroup::admit_waiting,
            ProcessGroup::tell_usage,
            ProcessGroup::settle_store,
            ProcessGroup::end_job,
            ProcessGroup::end_swap,
            ProcessGroup::evict_unproven,
            ProcessGroup::take_back,
            ProcessGroup::request_budget,
            ProcessGroup::request_job,
        ];
        const DETACHED: &[fn(&mut ProcessGroup)] = &[ProcessGroup::take_back];
        while mem::take(&mut self.agenda.dirty) {
            let steps = match self.attachment {
                Attachment::Attached => ATTACHED,
                Attachment::Absent | Attachment::Lost => DETACHED,
            };
            for step in steps {
                step(self);
                if !self.agenda.effects.is_empty() {
                    self.agenda.dirty = true;
                    return true;
                }
            }
        }
        false
    }

    /// Takes in what a process reports.
    ///
    /// # Errors
    ///
    /// What cannot be true of the process is refused, and changes nothing.
    pub fn report(&mut self, now: Time, id: ProcessId, report: Report) -> Result<(), EventError> {
        let at = self.find(id).ok_or(EventError::NotAttached(self.task))?;
        match report {
            Report::JobRequested { job, kind } => self.record_job(now, at, job, kind)?,
            Report::JobCompleted { job } => self.record_completion(at, job)?,
            Report::SwapProgress { op, swapped } => self.record_swap(at, op, swapped, None)?,
            Report::SwapEnded {
                op,
                swapped,
                took,
                outcome,
            } => self.record_swap(at, op, swapped, Some((outcome, took)))?,
            Report::BudgetRequested { want, bytes } => self.record_request(at, want, bytes),
            Report::Usage(usage) => self.record_usage(at, usage)?,
            Report::Backing(bytes) => self.record_backing(at, bytes)?,
        }
        self.mark_dirty(now);
        Ok(())
    }

    /// Carries out a command of the scheduler for this task. Commands that no process obeys change
    /// nothing.
    pub fn obey(&mut self, now: Time, command: &Command) {
        match *command {
            Command::Grant { job, .. } => {
                if let Some(job) = self.jobs.open_mut(job) {
                    job.granted = true;
                }
            }
            Command::Revoke { job, .. } => self.revoke_job(job),
            Command::Swap {
                op,
                direction,
                target,
                ..
            } => self.start_swap(op, direction, target),
            Command::Abort { op, .. } => self.abort_swap(op),
            Command::SetBudget { bytes, answers, .. } => self.set_budget(now, bytes, answers),
            Command::SetBackingStore { bytes, .. } => self.set_backing_store(bytes),
            Command::Violation { kind, .. } => match kind {
                ViolationKind::Overrun | ViolationKind::Undrainable => self.mark_stuck(),
                ViolationKind::SwapOverdue => self.set_aside_overdue(),
                ViolationKind::Stopped => {
                    self.mark_stuck();
                    self.set_aside_overdue();
                }
                ViolationKind::SwapFailed
                | ViolationKind::OverBudget
                | ViolationKind::Emergency
                | ViolationKind::Backing => {}
            },
            Command::Account(_) | Command::Whole { .. } => {}
        }
        self.mark_dirty(now);
    }

    /// The task has a deadline from now on.
    pub fn set_realtime(&mut self) {
        self.realtime = true;
    }

    /// Acts on what time alone has changed.
    pub fn tick(&mut self, now: Time) {
        self.admit_overdue(now);
        self.mark_dirty(now);
    }

    /// When [`Self::tick`] is wanted next, possibly in the past; none if never. An earlier tick does
    /// no harm.
    pub fn poll_timeout(&self) -> Option<Time> {
        let timeouts = [self.job_timeout(), self.request_timeout()];
        timeouts.into_iter().flatten().min()
    }

    /// Whether the task has no process, not even a missing one.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The bytes a process may hold.
    pub fn budget_of(&self, id: ProcessId) -> Bytes {
        let at = self.find(id);
        at.map_or(Bytes::ZERO, |at| self.processes[at].budget)
    }

    /// The bytes that the scheduler counts for a process: its budget, or what it reports to hold if
    /// that is more.
    pub fn held_by(&self, id: ProcessId) -> Bytes {
        let at = self.find(id);
        at.map_or(Bytes::ZERO, |at| self.processes[at].held())
    }

    /// The present processes that report to hold more than their budget.
    pub fn beyond_budget(&self) -> Vec<ProcessId> {
        let beyond = |process: &&Process| process.usage.resident > process.budget;
        let beyond = self.present().filter(beyond);
        beyond.map(|process| process.id).collect()
    }

    /// The present processes that have not ended their part in a swap operation.
    pub fn moving(&self) -> Vec<ProcessId> {
        let moving = self.present().filter(|process| process.moves());
        moving.map(|process| process.id).collect()
    }

    /// Whether a process is to swap out, and has not ended that.
    pub fn is_ordered_out(&self, id: ProcessId) -> bool {
        let mut present = self.present();
        let outward = |process: &Process| process.part.is_some_and(|part| !part.is_inward());
        present.any(|process| process.id == id && process.moves() && outward(process))
    }

    /// The processes that moved nothing in the swap-out that has ended last.
    pub fn failed(&self) -> Vec<ProcessId> {
        self.failed.clone()
    }

    /// Whether a process is present and has its job on the GPU, or moves memory.
    pub fn is_active(&self, id: ProcessId) -> bool {
        let mut present = self.present();
        present.any(|process| process.id == id && (process.runs() || process.moves()))
    }

    /// The present processes with a job on the GPU.
    pub fn running(&self) -> Vec<ProcessId> {
        let running = self.present().filter(|process| process.runs());
        running.map(|process| process.id).collect()
    }

    fn find(&self, id: ProcessId) -> Option<usize> {
        self.processes.iter().position(|process| process.id == id)
    }

    /// The processes that take orders.
    fn present(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.is_present())
    }

    fn tell(&mut self, event: Event) {
        self.agenda.effects.push_back(Effect::Tell(event));
    }

    fn order(&mut self, at: usize, order: Order) {
        let id = self.processes[at].id;
        self.agenda.effects.push_back(Effect::Order(id, order));
    }

    fn mark_dirty(&mut self, now: Time) {
        self.agenda.now = now;
        self.agenda.dirty = true;
    }
}
