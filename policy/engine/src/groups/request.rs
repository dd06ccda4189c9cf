//! Requests for more budget: the scheduler hears one of the task at a time.

use rtswap_policy::scheduler::{Attachment, BudgetAnswer, BudgetRequestSeq, Event};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::process::{BudgetRequest, Process};
use super::{ProcessGroup, ProcessId};

/// How long budget that was granted for an allocation is left to the process, as in the scheduler:
/// otherwise two loading processes would take it from each other forever.
const FRESH: Nanos = Nanos(20_000_000);

/// The scheduler's answer to the task's request, for the process that made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessAnswer {
    pub(super) process: ProcessId,
    /// None where the process has not asked itself.
    want: Option<BudgetRequestSeq>,
    pub(super) granted: bool,
}

impl ProcessAnswer {
    /// What the process is told.
    pub(super) fn told(self) -> Option<BudgetAnswer> {
        let granted = self.granted;
        self.want.map(|want| BudgetAnswer { want, granted })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TaskRequest {
    /// The scheduler has it, for `asker`; none once that process is gone.
    Pending { seq: u32, asker: Option<ProcessId> },
    /// It was granted, and `asker` has not used the budget; others wait until then.
    Fresh { asker: ProcessId, until: Time },
}

impl ProcessGroup {
    /// Takes in a process's request, which replaces its previous one.
    pub(super) fn record_request(&mut self, at: usize, seq: BudgetRequestSeq, bytes: Bytes) {
        let process = &mut self.processes[at];
        let total = bytes + process.usage.swapped;
        let seq = Some(seq);
        process.request = Some(BudgetRequest { seq, total });
        let id = process.id;
        let ours = |request: &mut TaskRequest| match request {
            TaskRequest::Pending { asker, .. } => *asker == Some(id),
            TaskRequest::Fresh { asker, .. } => *asker == id,
        };
        self.budget.request.take_if(ours);
    }

    /// Passes the first process's request on to the scheduler, unless one is pending or fresh.
    pub(super) fn request_budget(&mut self) {
        if self.tell_denied() {
            return;
        }
        self.request_proof();
        let first = self.processes.iter().position(Process::requests);
        let abandoned = match self.budget.request {
            Some(TaskRequest::Pending { asker, .. }) => {
                let requests = |at: usize| self.processes[at].requests();
                if asker.is_none_or(|asker| self.find(asker).is_some_and(requests)) {
                    return;
                }
                true
            }
            Some(TaskRequest::Fresh { until, .. }) if self.agenda.now < until => return,
            Some(TaskRequest::Fresh { .. }) | None => false,
        };
        self.budget.request = None;
        match first {
            Some(at) => {
                let id = self.processes[at].id;
                let bytes = self.budget_for(at);
                self.send_request(Some(id), bytes);
            }
            // A request for nothing replaces that of the process that is gone.
            None if abandoned => self.send_request(None, Bytes::ZERO),
            None => {}
        }
    }

    /// Tells a process that its request is refused, by a round that changes nothing else; false if none is to be told.
    fn tell_denied(&mut self) -> bool {
        let denied = |process: &Process| process.is_present() && process.denied.is_some();
        let Some(at) = self.processes.iter().position(denied) else {
            return false;
        };
        if self.budget.round.is_none() {
            let process = &mut self.processes[at];
            let want = process.denied.take();
            let answer = ProcessAnswer {
                process: process.id,
                want,
                granted: false,
            };
            self.start_round(Some(answer), false);
        }
        true
    }

    /// When [`Self::request_budget`] may pass on a request that waits for a fresh one.
    pub(super) fn request_timeout(&self) -> Option<Time> {
        if self.attachment != Attachment::Attached {
            return None;
        }
        let Some(TaskRequest::Fresh { until, .. }) = self.budget.request else {
            return self.proof_timeout();
        };
        let waits = self.processes.iter().any(Process::requests);
        if waits {
            Some(until)
        } else {
            self.proof_timeout()
        }
    }

    /// Lets a pending request be sent anew, because it was reckoned with what other processes had.
    pub(super) fn renew_request(&mut self) {
        if let Some(TaskRequest::Pending {
            asker: Some(asker), ..
        }) = self.budget.request
            && self.present().any(|process| process.id == asker)
        {
            self.budget.request = None;
        }
    }

    fn send_request(&mut self, asker: Option<ProcessId>, bytes: Bytes) {
        let seq = self.budget.last_request.wrapping_add(1).max(1);
        self.budget.last_request = seq;
        self.budget.request = Some(TaskRequest::Pending { seq, asker });
        let (task, want) = (self.task, BudgetRequestSeq(seq));
        self.tell(Event::BudgetRequested { task, want, bytes });
    }

    /// The budget of the task with which the request of the process at `at` is met.
    fn budget_for(&self, at: usize) -> Bytes {
        let others = self.processes.iter().enumerate();
        let others = others.filter(|(other, _)| *other != at);
        let others: Bytes = others.map(|(_, other)| other.counted().resident).sum();
        self.processes[at].budget_wanted() + others
    }

    /// The scheduler's answer as one to the process that asked, if it still waits.
    pub(super) fn pass_answer(&mut self, now: Time, answer: BudgetAnswer) -> Option<ProcessAnswer> {
        let Some(TaskRequest::Pending { seq, asker }) = self.budget.request else {
            return None;
        };
        if seq != answer.want.0 {
            return None;
        }
        self.budget.request = None;
        let asker = asker?;
        let at = self.find(asker)?;
        let process = &self.processes[at];
        let request = process.request.filter(|_| process.is_present())?;
        if answer.granted {
            let until = now + FRESH;
            self.budget.request = Some(TaskRequest::Fresh { asker, until });
        } else {
            self.defer_proof(now, at);
        }
        Some(ProcessAnswer {
            process: asker,
            want: request.seq,
            granted: answer.granted,
        })
    }
}

impl Process {
    /// Whether it waits for more budget.
    fn requests(&self) -> bool {
        self.is_present() && self.request.is_some()
    }
}
