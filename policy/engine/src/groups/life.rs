//! How processes come, are lost, come back and go.

use rtswap_policy::scheduler::{Event, EventError, OpenJob, Usage};
use rtswap_policy::units::{Bytes, Time};

use super::job::TaskJob;
use super::member::{Job, Member, State};
use super::{MemberId, Members, Session};

impl Members {
    /// A process says Hello: it is new, or back with what it holds.
    pub fn attach(
        &mut self,
        now: Time,
        id: MemberId,
        usage: Usage,
        backing: Bytes,
        open: Option<OpenJob>,
    ) -> Result<(), EventError> {
        let task = self.task;
        if self.find(id).is_some() {
            self.lose(now, id);
        } else {
            self.all.push(Member::new(id));
        }
        let Some(at) = self.find(id) else {
            return Err(EventError::NotAttached(task));
        };
        let plausible = usage.check(task, usage.swapped, backing, self.chunk);
        let runs = open.is_some_and(|open| open.running);
        let wrong = plausible.err().or_else(|| {
            (runs && usage.swapped > Bytes::ZERO).then_some(EventError::Impossible {
                task,
                what: "swapped out while its job runs",
                bytes: usage.swapped,
            })
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let member = &mut self.all[at];
        *member = Member {
            state: State::Returning,
            usage,
            budget: member.budget,
            new_page: true,
            backing,
            job: open.map(|open| Job {
                seq: open.job,
                kind: open.kind,
                since: now,
                granted: open.running,
                revoked: false,
            }),
            ..Member::new(id)
        };
        self.stir(now);
        Ok(())
    }

    /// Takes in who is back, as soon as nothing is disturbed by it. Who brings nothing is simply
    /// there; with what others bring the task begins anew.
    pub(super) fn take_back(&mut self) {
        if self.swap.is_some() {
            return;
        }
        for at in 0..self.all.len() {
            let member = &self.all[at];
            if member.state != State::Returning {
                continue;
            }
            let (usage, runs) = (member.usage, member.runs());
            let first = self.session != Session::Attached;
            let job_runs = self.job.is_some_and(|job| job.granted);
            let out = self
                .present()
                .any(|other| other.usage.swapped > Bytes::ZERO);
            let brings = usage != Usage::default() || member.budget > Bytes::ZERO;
            if runs && !job_runs && out && !first {
                // It goes on beside the task until it has followed.
                self.revoke(at);
                continue;
            }
            if usage.swapped > Bytes::ZERO && job_runs && !first {
                // A best-effort job may last as long as nobody else waits.
                if !self.realtime {
                    self.revoke_all();
                }
                continue;
            }
            let member = &mut self.all[at];
            member.state = State::Present;
            member.served = runs;
            if member.new_page {
                // Nothing but what it holds already.
                member.budget = usage.resident;
            }
            if first || brings || (runs && !job_runs) {
                return self.begin_anew();
            }
        }
    }

    /// Tells the scheduler all that is known, as of a task that has just come.
    fn begin_anew(&mut self) {
        self.session = Session::Attached;
        self.swap = None;
        self.question = None;
        self.volume = None;
        for member in &mut self.all {
            member.backing_asked = None;
        }
        let runs = self.present().find(|member| member.runs());
        let running = runs.and_then(|member| member.job);
        let open = match (running, self.job) {
            (Some(_), Some(job)) => Some((job, true)),
            (Some(job), None) => {
                let seq = self.number(job.seq);
                Some((TaskJob::new(seq, job.kind, true), true))
            }
            (None, Some(job)) => Some((job, false)),
            (None, None) => None,
        };
        self.job = open.map(|(job, granted)| TaskJob::new(job.seq, job.kind, granted));
        let (usage, backing) = (self.usage(), self.backing());
        self.told = usage;
        self.usage_changed = false;
        self.told_backing = backing;
        let task = self.task;
        self.tell(Event::Attach {
            task,
            usage,
            backing,
            open: open.map(|(job, running)| OpenJob {
                job: job.seq,
                running,
                kind: job.kind,
            }),
        });
    }

    /// The agent of a process is silent. What it may hold stays counted.
    pub fn lose(&mut self, now: Time, id: MemberId) {
        let Some(at) = self.find(id) else {
            return;
        };
        let member = &mut self.all[at];
        let budget = member.budget.max(member.usage.resident);
        *member = Member {
            budget,
            ..Member::new(id)
        };
        self.go_on_without(now);
    }

    /// A process is gone. What it might hold is dying from now on: the scheduler counts it.
    pub fn leave(&mut self, now: Time, id: MemberId) {
        let Some(at) = self.find(id) else {
            return;
        };
        let member = self.all.remove(at);
        let dying = match member.state {
            State::Present => member.budget.max(member.usage.resident),
            State::Away | State::Returning => member.budget,
        };
        if self.all.is_empty() {
            if self.session != Session::Absent {
                let task = self.task;
                self.tell(Event::Detach { task });
            }
            self.forget_business(Session::Absent);
            return;
        }
        // To a task that is not talked to any more the scheduler sends nothing in answer.
        self.go_on_without(now);
        if self.session != Session::Absent {
            self.budget = self.budget.saturating_sub(dying);
            self.tell_changes(dying);
        }
    }

    /// The scheduler has not taken in what the process brings: it is as if it had never come.
    pub fn refuse(&mut self, id: MemberId) {
        self.all.retain(|member| member.id != id);
        if self.all.is_empty() {
            self.forget_business(Session::Absent);
        }
    }

    fn go_on_without(&mut self, now: Time) {
        self.usage_changed = true;
        self.ask_anew();
        if self.session == Session::Attached && self.present().next().is_none() {
            let task = self.task;
            self.tell(Event::Lost { task });
            self.forget_business(Session::Lost);
        }
        self.stir(now);
    }

    /// The scheduler has ended all that needs an agent.
    fn forget_business(&mut self, session: Session) {
        self.session = session;
        self.job = None;
        self.swap = None;
        self.balance = None;
        self.question = None;
        self.volume = None;
        self.usage_changed = false;
    }
}
