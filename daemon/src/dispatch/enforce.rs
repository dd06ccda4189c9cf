//! Violations: said, counted and told; then what `on_violation` says follows from some of them, once
//! the schedulers have drawn their own conclusions.

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::Class;
use rtswap_policy::units::{Bytes, Time};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use super::{Dispatcher, News, SessionId};
use crate::config::OnViolation;
use crate::ledger::Disagreement;
use crate::members::MemberId;
use crate::registry::{Registration, RegistrationId};

/// What is yet to follow from a violation that has been said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sentence {
    /// All tasks of the registration are best-effort.
    Demote(RegistrationId),
    /// That process ends.
    Kill(SessionId),
}

impl Dispatcher {
    /// A promise was broken.
    pub(super) fn violated(&mut self, id: RegistrationId, kind: &'static str, detail: String) {
        let task = self.registration_name(id);
        tracing::warn!(task, kind, "violation: {detail}");
        self.statistics.entry(id).or_default().violations += 1;
        self.tell(News::Violation {
            task: id,
            kind,
            detail,
        });
    }

    /// As [`Self::violated`], where it is for the administrator to say what follows. `culprits` are the
    /// processes that broke it.
    pub(super) fn sentence(
        &mut self,
        id: RegistrationId,
        kind: &'static str,
        mut detail: String,
        culprits: &[MemberId],
    ) {
        match self.config.daemon.on_violation {
            OnViolation::Warn => {}
            OnViolation::Demote => {
                let realtime =
                    |entry: &Registration| matches!(entry.scheduled_class(), Class::Realtime(_));
                if self.registry.get(id).is_some_and(realtime) {
                    detail.push_str("; its task is best-effort from now on");
                    self.sentences.push(Sentence::Demote(id));
                }
            }
            OnViolation::Kill => {
                for &member in culprits {
                    let culprit = (id, member);
                    let Some(session) = self.sessions.get(&culprit) else {
                        continue;
                    };
                    detail = format!("{detail}; process {} is killed", session.peer.pid);
                    self.sentences.push(Sentence::Kill(culprit));
                }
            }
        }
        self.violated(id, kind, detail);
    }

    /// A process holds more than its agent says.
    pub(super) fn holds_more(
        &mut self,
        pid: u32,
        named: Disagreement,
        (holds, by, says): (Bytes, &str, Bytes),
    ) {
        let mut sessions = self.sessions.iter();
        let Some((&(id, member), _)) = sessions.find(|(_, session)| session.peer.pid == pid) else {
            return;
        };
        let detail = format!("process {pid} holds {holds} by {by}, and its agent says {says}");
        self.sentence(id, named.name(), detail, &[member]);
    }

    /// Does what was said to follow.
    pub(super) fn execute(&mut self, now: Time) {
        for sentence in std::mem::take(&mut self.sentences) {
            match sentence {
                Sentence::Demote(id) => {
                    if let Some(entry) = self.registry.get_mut(id) {
                        entry.demoted = true;
                        self.unsaved = true;
                    }
                    for task in self.tasks_of(id) {
                        if let Some(gpu) = self.places.get(&task).map(|place| place.gpu) {
                            self.feed_own(gpu, now, Event::Demote { task });
                        }
                    }
                }
                Sentence::Kill(id) => self.kill(id),
            }
        }
    }

    /// By its pidfd: no other process can be hit, and its death is seen as any other's.
    fn kill(&self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let pid = session.peer.pid;
        match pidfd_send_signal(&session.peer.pidfd, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => tracing::error!(
                pid,
                %error,
                "a process that on_violation = \"kill\" ends cannot be killed: rtswapd needs CAP_KILL"
            ),
        }
    }
}
