//! How processes arrive, fall silent, return and leave.
//!
//! Memory that a dead process leaves is dying, as if its whole task had died: a request for memory waits
//! for it instead of being refused. A process that returns with memory makes the task attach anew, as
//! soon as nothing of the task moves or runs.

use rtswap_policy::scheduler::{Attachment, Event, EventError, OpenJob, Usage};
use rtswap_policy::units::{Bytes, Time};

use super::job::TaskJob;
use super::process::{Presence, Process, ProcessJob, ProcessStore};
use super::{ProcessGroup, ProcessId};

impl ProcessGroup {
    /// Takes in a process that says Hello: it is new, or returns with what it holds.
    ///
    /// `usage` and `backing` are its bytes and its pinned backing store, `open` a job that it has
    /// open, by its own count. `inherited` is the budget that the former daemon gave it, in bytes.
    ///
    /// # Errors
    ///
    /// [`EventError::Impossible`] says what contradicts itself; the process then counts as missing.
    pub fn attach(
        &mut self,
        now: Time,
        id: ProcessId,
        usage: Usage,
        backing: Bytes,
        open: Option<OpenJob>,
        inherited: Bytes,
    ) -> Result<(), EventError> {
        let task = self.task;
        if self.find(id).is_some() {
            self.lose(now, id);
        } else {
            self.processes.push(Process::new(id));
        }
        let at = self.find(id).ok_or(EventError::NotAttached(task))?;
        self.check_usage(usage, usage.swapped, backing)?;
        let runs = open.is_some_and(|open| open.running);
        if runs && usage.swapped > Bytes::ZERO {
            return Err(EventError::Impossible {
                task,
                what: "swapped out while its job runs",
                bytes: usage.swapped,
            });
        }
        self.processes[at] = Process {
            presence: Presence::Returning,
            shown: self.processes[at].shown,
            inherited,
            budget: self.processes[at].budget,
            unbudgeted: true,
            store: ProcessStore {
                pinned: backing,
                ..ProcessStore::default()
            },
            job: open.map(|open| ProcessJob {
                seq: open.job,
                kind: open.kind,
                since: now,
                granted: open.running,
                revoked: false,
            }),
            ..Process::new(id)
        };
        let process = &mut self.processes[at];
        process.take_usage(usage);
        process.brought = process.unproven.map(|_| now);
        self.mark_dirty(now);
        Ok(())
    }

    /// Makes returning processes present as soon as that disturbs nothing. For one that brings memory
    /// or a running job the task attaches anew.
    pub(super) fn take_back(&mut self) {
        if self.swap.is_some() {
            return;
        }
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            if process.presence != Presence::Returning {
                continue;
            }
            let (usage, runs) = (process.usage, process.runs());
            let brings = usage != Usage::default() || process.budget > Bytes::ZERO;
            let first = self.attachment != Attachment::Attached;
            let job_runs = self.jobs.open.is_some_and(|job| job.granted);
            let is_out = |process: &Process| process.usage.swapped > Bytes::ZERO;
            if runs && !job_runs && !first && self.present().any(is_out) {
                // It runs on beside the task until it has followed.
                self.revoke(at);
                continue;
            }
            if usage.swapped > Bytes::ZERO && job_runs && !first {
                // A best-effort job lasts until another job waits for the GPU.
                if !self.realtime {
                    self.revoke_all();
                }
                continue;
            }
            let process = &mut self.processes[at];
            process.presence = Presence::Present;
            process.served = runs;
            if process.unbudgeted {
                // Nothing but what it holds already.
                process.budget = usage.resident;
            }
            process.inherited = Bytes::ZERO;
            if first || brings || (runs && !job_runs) {
                return self.attach_task();
            }
            // A job may wait for it to be present.
            self.agenda.dirty = true;
        }
    }

    /// Tells the scheduler all that is known, as of a task that has just arrived.
    fn attach_task(&mut self) {
        self.attachment = Attachment::Attached;
        self.swap = None;
        self.budget.request = None;
        self.store_asked = None;
        for process in &mut self.processes {
            process.store.asked = None;
        }
        let running = self.present().find(|process| process.runs());
        let running = running.and_then(|process| process.job);
        let open = match (running, self.jobs.open) {
            (None, None) => None,
            (Some(job), None) => Some((self.jobs.number(job.seq), job.kind)),
            (_, Some(job)) => Some((job.seq, job.kind)),
        };
        let running = running.is_some();
        self.jobs.open = open.map(|(job, kind)| TaskJob::new(job, kind, running));
        let (task, usage, backing) = (self.task, self.usage(), self.backing());
        self.record_told(usage, backing);
        self.tell(Event::Attach {
            task,
            usage,
            backing,
            open: open.map(|(job, kind)| OpenJob { job, running, kind }),
        });
    }

    /// Marks a process as missing, because its agent is silent: what it may hold stays counted.
    pub fn lose(&mut self, now: Time, id: ProcessId) {
        let Some(at) = self.find(id) else {
            return;
        };
        let process = &mut self.processes[at];
        *process = Process {
            budget: process.budget.max(process.usage.resident),
            shown: process.shown,
            ..Process::new(id)
        };
        self.note_missing(now);
    }

    /// Removes a process that is gone. What it may have held is dying from now on, and counted by
    /// the scheduler.
    pub fn leave(&mut self, now: Time, id: ProcessId) {
        let Some(at) = self.find(id) else {
            return;
        };
        let dying = self.processes.remove(at).held();
        if self.processes.is_empty() {
            if self.attachment != Attachment::Absent {
                let task = self.task;
                self.tell(Event::Detach { task });
            }
            self.end_attachment(Attachment::Absent);
            return;
        }
        // The scheduler answers nothing to a task that is lost.
        self.note_missing(now);
        if self.attachment != Attachment::Absent {
            self.budget.bytes = self.budget.bytes.saturating_sub(dying);
            self.tell_regrouped(dying);
        }
    }

    /// Takes back a process that was not accepted; `known` is the task's attachment in the scheduler.
    /// Without one it is as if the process had never arrived; else it is missing, with what is counted
    /// for it, until it comes back or leaves. Returns whether it stays.
    pub fn refuse(&mut self, now: Time, id: ProcessId, known: Attachment) -> bool {
        let Some(at) = self.find(id) else {
            return false;
        };
        if known == Attachment::Absent {
            self.processes.remove(at);
            self.end_attachment(Attachment::Absent);
            self.mark_dirty(now);
            return false;
        }
        if self.processes[at].presence != Presence::Missing {
            // What it claims is not counted: only what the others leave of the budget.
            let others = self.held_budget().saturating_sub(self.processes[at].budget);
            self.processes[at] = Process {
                budget: self.budget.bytes.saturating_sub(others),
                ..Process::new(id)
            };
        }
        if known == Attachment::Lost {
            self.end_attachment(Attachment::Lost);
        }
        self.note_missing(now);
        true
    }

    /// Goes on with one present process less.
    pub(super) fn note_missing(&mut self, now: Time) {
        self.told.stale = true;
        self.renew_request();
        if self.attachment == Attachment::Attached && self.present().next().is_none() {
            let task = self.task;
            self.tell(Event::Lost { task });
            self.end_attachment(Attachment::Lost);
        }
        self.mark_dirty(now);
    }

    /// Forgets all that needs an agent, as the scheduler does.
    fn end_attachment(&mut self, attachment: Attachment) {
        self.attachment = attachment;
        self.jobs.open = None;
        self.swap = None;
        self.budget.round = None;
        self.budget.request = None;
        self.store_asked = None;
        self.told.stale = false;
    }
}
