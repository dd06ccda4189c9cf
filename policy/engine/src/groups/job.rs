//! One job of the task for the jobs of all its processes.
//!
//! The first process that requests a job opens the task's; those that request one before the grant
//! run with it, later ones are admitted at once. The job ends when no process runs any more. In a
//! realtime job, which has a WCET, each process runs once; further requests wait for the next job. A
//! best-effort job ends by being revoked; until then each process may run again and again, because
//! another one may be waiting on the GPU for just what it produces. A job that does not end, for
//! whatever reason, admits the waiting processes after all.

use rtswap_policy::scheduler::{Event, EventError, JobKind, JobSeq};
use rtswap_policy::units::{Nanos, Time};

use super::process::{Process, ProcessJob};
use super::{Order, ProcessGroup};

/// How long a process waits before it is admitted to a job that should be over, and how long it then
/// runs before it is revoked.
const ADMISSION_TIMEOUT: Nanos = Nanos(100_000_000);

#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) open: Option<TaskJob>,
    /// The number of the latest one.
    last: JobSeq,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TaskJob {
    pub(super) seq: JobSeq,
    pub(super) kind: JobKind,
    pub(super) granted: bool,
    pub(super) revoked: bool,
    /// The scheduler has reported that the job should be over.
    pub(super) stuck: bool,
}

impl TaskJob {
    pub(super) fn new(seq: JobSeq, kind: JobKind, granted: bool) -> Self {
        Self {
            seq,
            kind,
            granted,
            revoked: false,
            stuck: false,
        }
    }
}

impl Jobs {
    pub(super) fn open_mut(&mut self, seq: JobSeq) -> Option<&mut TaskJob> {
        self.open.as_mut().filter(|job| job.seq == seq)
    }

    /// Numbers a job as the process that opens it does, unless the last job had that number.
    pub(super) fn number(&mut self, asked: JobSeq) -> JobSeq {
        if asked == self.last {
            self.last = JobSeq(self.last.0.wrapping_add(1).max(1));
        } else {
            self.last = asked;
        }
        self.last
    }
}

impl ProcessGroup {
    pub(super) fn record_job(
        &mut self,
        now: Time,
        at: usize,
        seq: JobSeq,
        kind: JobKind,
    ) -> Result<(), EventError> {
        let process = &mut self.processes[at];
        if let Some(open) = process.job {
            return Err(EventError::JobOpen {
                task: self.task,
                open: open.seq,
                asked: seq,
            });
        }
        process.job = Some(ProcessJob {
            seq,
            kind,
            since: now,
            granted: false,
            revoked: false,
        });
        Ok(())
    }

    pub(super) fn record_completion(&mut self, at: usize, seq: JobSeq) -> Result<(), EventError> {
        let task = self.task;
        let running = |job: &mut ProcessJob| job.granted && job.seq == seq;
        let completed = self.processes[at].job.take_if(running);
        let refused = EventError::JobNotGranted { task, job: seq };
        completed.map(|_| ()).ok_or(refused)
    }

    /// Grants the processes that may run in the task's job.
    pub(super) fn admit_waiting(&mut self) {
        let is_open = |job: TaskJob| job.granted && !job.revoked;
        if !self.jobs.open.is_some_and(is_open) {
            return;
        }
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            let again = process.served && self.realtime;
            if process.is_present() && process.waits() && !again {
                self.grant(at);
            }
        }
    }

    pub(super) fn grant(&mut self, at: usize) {
        let process = &mut self.processes[at];
        process.served = true;
        let Some(job) = &mut process.job else {
            return;
        };
        job.granted = true;
        job.since = self.agenda.now;
        let job = job.seq;
        self.order(at, Order::Grant { job });
    }

    pub(super) fn revoke_job(&mut self, seq: JobSeq) {
        if let Some(job) = self.jobs.open_mut(seq) {
            job.revoked = true;
            self.revoke_all();
        }
    }

    /// Revokes the jobs of all processes.
    pub(super) fn revoke_all(&mut self) {
        for at in 0..self.processes.len() {
            if self.processes[at].is_present() {
                self.revoke(at);
            }
        }
    }

    /// Revokes a process's job, once.
    pub(super) fn revoke(&mut self, at: usize) {
        let running = |job: &&mut ProcessJob| job.granted && !job.revoked;
        if let Some(job) = self.processes[at].job.as_mut().filter(running) {
            job.revoked = true;
            let job = job.seq;
            self.order(at, Order::Revoke { job });
        }
    }

    /// Ends the task's job with that of the last process.
    pub(super) fn end_job(&mut self) {
        let Some(job) = self.jobs.open.filter(|job| job.granted) else {
            return;
        };
        if self.present().any(Process::runs) {
            return;
        }
        self.jobs.open = None;
        for process in &mut self.processes {
            process.served = false;
        }
        let (task, job) = (self.task, job.seq);
        self.tell(Event::JobCompleted { task, job });
    }

    /// Requests a job of the task if a process waits for one.
    pub(super) fn request_job(&mut self) {
        if self.jobs.open.is_some() {
            return;
        }
        let waiting = self.present().filter(|process| process.waits());
        let jobs = waiting.filter_map(|process| process.job);
        let Some(first) = jobs.min_by_key(|job| job.since) else {
            return;
        };
        let (task, kind) = (self.task, first.kind);
        let job = self.jobs.number(first.seq);
        self.jobs.open = Some(TaskJob::new(job, kind, false));
        self.tell(Event::JobRequested { task, job, kind });
    }

    /// Notes that the job should be over and is not.
    pub(super) fn mark_stuck(&mut self) {
        if let Some(job) = &mut self.jobs.open {
            job.stuck = job.granted;
        }
    }

    /// Admits waiting processes to a stuck job, because those that run may wait for them. If the job
    /// was revoked they are revoked in turn.
    pub(super) fn admit_overdue(&mut self, now: Time) {
        self.agenda.now = now;
        for at in 0..self.processes.len() {
            let due = self.overdue_at(&self.processes[at]);
            if due.is_none_or(|due| due > now) {
                continue;
            }
            if self.processes[at].waits() {
                self.grant(at);
            } else {
                self.revoke(at);
            }
        }
    }

    /// When [`Self::admit_overdue`] has something to do.
    pub(super) fn job_timeout(&self) -> Option<Time> {
        let each = self.processes.iter();
        each.filter_map(|process| self.overdue_at(process)).min()
    }

    /// When a process is to be admitted to a stuck job, or then revoked.
    fn overdue_at(&self, process: &Process) -> Option<Time> {
        let stuck = self.jobs.open.filter(|job| job.stuck)?;
        let job = process.job.filter(|_| process.is_present())?;
        let to_revoke = stuck.revoked && job.granted && !job.revoked;
        (process.waits() || to_revoke).then(|| job.since + ADMISSION_TIMEOUT)
    }
}
