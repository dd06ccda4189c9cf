//! A job that does not end, for whatever reason, admits the waiting processes after all.

use rtswap_policy::units::{Nanos, Time};

use super::ProcessGroup;
use super::process::Process;

/// How long a process waits before it is admitted to a job that should be over, and how long it then
/// runs before it is revoked.
const PATIENCE: Nanos = Nanos(100_000_000);

impl ProcessGroup {
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
        let to_revoke = stuck.revoked && !job.revoked;
        (!job.granted || to_revoke).then(|| job.since + PATIENCE)
    }
}
