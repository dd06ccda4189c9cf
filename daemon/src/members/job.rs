//! One job of the task for the jobs of all its processes.
//!
//! The first that asks opens it; who asks before it is granted runs with it, and who asks while it
//! runs is let in at once. It is over when nobody of them runs any more. A realtime job has a WCET:
//! each process runs once in it, and whoever asks again waits for the next. A best-effort one ends
//! by being revoked: until then each may come as often as it likes, since another of them may be
//! waiting, on the GPU, for just what it brings. Where a job does not end, for that or any reason,
//! those that wait are let in all the same.

use rtswap_policy::scheduler::{Command, Event, EventError, JobKind, JobSeq};
use rtswap_policy::units::{Nanos, Time};

use super::Members;
use super::member::{Job, Member, State};

/// How long one that is let into a job that should be over waits before, and runs.
const PATIENCE: Nanos = Nanos(100_000_000);

/// The job of the task.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskJob {
    pub(super) seq: JobSeq,
    pub(super) kind: JobKind,
    pub(super) granted: bool,
    revoked: bool,
    /// The scheduler says that it should be over.
    stuck: bool,
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

impl Members {
    pub(super) fn job_requested(
        &mut self,
        now: Time,
        at: usize,
        seq: JobSeq,
        kind: JobKind,
    ) -> Result<(), EventError> {
        let task = self.task;
        let member = &mut self.all[at];
        if let Some(open) = member.job {
            return Err(EventError::JobOpen {
                task,
                open: open.seq,
                asked: seq,
            });
        }
        member.job = Some(Job {
            seq,
            kind,
            since: now,
            granted: false,
            revoked: false,
        });
        Ok(())
    }

    pub(super) fn job_completed(&mut self, at: usize, seq: JobSeq) -> Result<(), EventError> {
        let task = self.task;
        let member = &mut self.all[at];
        match member.job {
            Some(job) if job.granted && job.seq == seq => member.job = None,
            _ => return Err(EventError::JobNotGranted { task, job: seq }),
        }
        Ok(())
    }

    pub(super) fn granted(&mut self, seq: JobSeq) {
        if let Some(job) = self.job.as_mut().filter(|job| job.seq == seq) {
            job.granted = true;
        }
    }

    /// Lets those in that may run.
    pub(super) fn admit(&mut self) {
        if !self.job.is_some_and(|job| job.granted && !job.revoked) {
            return;
        }
        for at in 0..self.all.len() {
            let member = &self.all[at];
            let again = member.served && self.realtime;
            if member.state == State::Present && member.waits() && !again {
                self.grant(at);
            }
        }
    }

    fn grant(&mut self, at: usize) {
        let (task, now) = (self.task, self.now);
        let member = &mut self.all[at];
        member.served = true;
        let Some(job) = &mut member.job else {
            return;
        };
        job.granted = true;
        job.since = now;
        let job = job.seq;
        self.order(at, Command::Grant { task, job });
    }

    pub(super) fn revoked(&mut self, seq: JobSeq) {
        if let Some(job) = self.job.as_mut().filter(|job| job.seq == seq) {
            job.revoked = true;
            self.revoke_all();
        }
    }

    /// Asks all to end their jobs.
    pub(super) fn revoke_all(&mut self) {
        for at in 0..self.all.len() {
            if self.all[at].state == State::Present {
                self.revoke(at);
            }
        }
    }

    /// Asks one process to end its job, once.
    pub(super) fn revoke(&mut self, at: usize) {
        let task = self.task;
        let open = |job: &&mut Job| job.granted && !job.revoked;
        if let Some(job) = self.all[at].job.as_mut().filter(open) {
            job.revoked = true;
            let job = job.seq;
            self.order(at, Command::Revoke { task, job });
        }
    }

    /// The job should be over and is not.
    pub(super) fn is_stuck(&mut self) {
        if let Some(job) = &mut self.job {
            job.stuck = job.granted;
        }
    }

    /// Of a job that does not end, lets those in that wait: those that run may wait for them. They
    /// are asked to end as well where the job was revoked.
    pub(super) fn let_in(&mut self, now: Time) {
        self.now = now;
        let Some(job) = self.job.filter(|job| job.stuck) else {
            return;
        };
        for at in 0..self.all.len() {
            let member = &self.all[at];
            let due = member.job.is_some_and(|job| now - job.since >= PATIENCE);
            if !due || member.state != State::Present {
                continue;
            }
            if member.waits() {
                self.grant(at);
            } else if job.revoked {
                self.revoke(at);
            }
        }
    }

    /// The job of the task is over with that of its last process.
    pub(super) fn end_job(&mut self) {
        let Some(job) = self.job.filter(|job| job.granted) else {
            return;
        };
        if self.present().any(Member::runs) {
            return;
        }
        self.job = None;
        for member in &mut self.all {
            member.served = false;
        }
        let (task, job) = (self.task, job.seq);
        self.tell(Event::JobCompleted { task, job });
    }

    /// Asks for a job of the task where one of its processes waits.
    pub(super) fn open_job(&mut self) {
        if self.job.is_some() {
            return;
        }
        let waiting = self.present().filter_map(|member| member.job);
        let Some(first) = waiting
            .filter(|job| !job.granted)
            .min_by_key(|job| job.since)
        else {
            return;
        };
        let (seq, kind) = (self.number(first.seq), first.kind);
        self.job = Some(TaskJob::new(seq, kind, false));
        let task = self.task;
        self.tell(Event::JobRequested {
            task,
            job: seq,
            kind,
        });
    }

    /// The number of the next job: that of the process that opens it, unless the last one had it.
    pub(super) fn number(&mut self, asked: JobSeq) -> JobSeq {
        let next = self.last_job.0.wrapping_add(1).max(1);
        let seq = if asked == self.last_job {
            JobSeq(next)
        } else {
            asked
        };
        self.last_job = seq;
        seq
    }
}
