//! Violations: said, counted and announced; then what the policy's `on_violation` says follows
//! from some of them, once the schedulers have drawn their own conclusions.
//!
//! Memory that an agent hides is charged to the capacity at once, whatever `on_violation` says: the
//! ledger sees to that. A kill goes through the process's pidfd, so it cannot hit a later process with
//! the same pid.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::Class;

use super::Engine;
use super::agenda::{Chore, Enforcement};
use crate::config::OnViolation;
use crate::groups::ProcessId;
use crate::ids::RegistrationId;
use crate::output::{Level, News, Output};
use crate::sessions::SessionId;

impl Engine {
    /// Reports that a task broke a promise.
    pub(super) fn violated(&mut self, id: RegistrationId, kind: &'static str, detail: String) {
        let line = self.line(Level::Warn, id, format!("violation: {detail}"));
        self.log(line.kind(kind));
        self.count_violation(id);
        self.announce(News::Violation {
            task: id,
            kind,
            detail,
        });
    }

    /// As [`Self::violated`], where the configuration says what follows. `culprits` are the processes
    /// that broke the promise.
    pub(super) fn punish(
        &mut self,
        id: RegistrationId,
        kind: &'static str,
        mut detail: String,
        culprits: &[ProcessId],
    ) {
        let Some(entry) = self.registry.get(id) else {
            return self.violated(id, kind, detail);
        };
        let follows = self
            .policy
            .on_violation(entry.owner.uid(), entry.uid, &entry.task.name);
        match follows {
            OnViolation::Warn => {}
            OnViolation::Demote => {
                if matches!(self.scheduled_class(entry), Class::Realtime(_)) {
                    detail.push_str("; its task is best-effort from now on");
                    self.chore(Chore::Enforce(Enforcement::Demote(id)));
                }
            }
            OnViolation::Kill => {
                for pid in self.kill(id, culprits) {
                    detail = format!("{detail}; process {pid} is killed");
                }
            }
        }
        self.violated(id, kind, detail);
    }

    /// Has processes killed; returns their pids.
    pub(super) fn kill(&mut self, id: RegistrationId, culprits: &[ProcessId]) -> Vec<u32> {
        let mut pids = Vec::new();
        for &process in culprits {
            let culprit = SessionId::new(id, process);
            if let Some(session) = self.sessions.get(culprit) {
                pids.push(session.peer.pid);
                self.chore(Chore::Enforce(Enforcement::Kill(culprit)));
            }
        }
        pids
    }

    pub(super) fn enforce(&mut self, enforcement: Enforcement) {
        match enforcement {
            Enforcement::Demote(id) => {
                self.record_demotion(id);
                let tasks: Vec<_> = self.tasks.of(id).collect();
                for (gpu, task) in tasks {
                    self.tell(gpu, Event::Demote { task });
                }
            }
            Enforcement::Kill(id) => {
                if let Some(session) = self.sessions.get(id) {
                    let connection = session.connection;
                    self.emit(Output::Kill(connection));
                }
            }
        }
    }
}
