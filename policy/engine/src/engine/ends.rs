//! Ends: of connections, of processes, of registrations.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::Class;

use super::Engine;
use super::agenda::{Chore, Work};
use crate::ids::{ConnectionId, RegistrationId};
use crate::output::{Level, LogLine, Output};
use crate::registry::Origin;
use crate::sessions::SessionId;
use crate::timers::Timer;

impl Engine {
    pub(super) fn disconnected(&mut self, connection: ConnectionId) {
        if let Some(id) = self.sessions.of_connection(connection) {
            self.lose_session(id);
            self.note_change();
        }
    }

    pub(super) fn connection_died(&mut self, connection: ConnectionId) {
        match self.sessions.of_connection(connection) {
            Some(id) => self.process_ended(id, true),
            None => self.awaited_ended(connection),
        }
    }

    /// The process of a session is gone; `died` is false where it executed another program, which keeps
    /// its number.
    pub(super) fn process_ended(&mut self, id: SessionId, died: bool) {
        let Some(session) = self.sessions.remove(id) else {
            return;
        };
        self.stopped.remove(&id);
        self.cgroups.leave(id);
        self.timers.set(Timer::Lost(id), None);
        let text = if died {
            "the process ended"
        } else {
            "the process executed another program"
        };
        let line = self.line(Level::Info, id.registration, text);
        self.log(line.pid(session.peer.pid));
        self.unrecorded.note_session_left(session.cookie);
        if session.undrained_since.is_some() {
            self.note_end_undrained(&session.owner, session.peer.uid);
        }
        if !died {
            self.note_begun_anew(id, &session);
        }
        self.emit(Output::Forget(session.connection));
        for (gpu, device) in session.devices.iter().enumerate() {
            self.timers.set(Timer::Doubt(id, gpu), None);
            self.timers.set(Timer::Reserved(id, gpu), None);
            if let Some(task) = device.task {
                let work = Work::Leave {
                    session: id,
                    task,
                    peer: Box::new(session.peer.clone()),
                    died,
                };
                self.queue(gpu, work);
            }
        }
        self.chore(Chore::ProcessGone(id.registration));
        self.note_change();
    }

    /// A process of the daemon before is gone without having come back.
    pub(super) fn awaited_ended(&mut self, connection: ConnectionId) {
        if let Some(session) = self.stop_awaiting(connection) {
            self.unrecorded.note_session_left(session.cookie);
            self.emit(Output::Forget(connection));
            self.chore(Chore::ProcessGone(session.registration));
        }
    }

    /// A process of a registration is gone. Without any, the registration waits for another or ends, as
    /// its origin has it.
    pub(super) fn process_gone(&mut self, id: RegistrationId) {
        if self.has_process(id) {
            return;
        }
        match self.registry.get(id).map(|entry| entry.origin) {
            Some(Origin::Session | Origin::FormerLease) => self.end_registration(id),
            Some(Origin::Call) => self.await_claim(id),
            Some(Origin::Lease | Origin::File) | None => {}
        }
    }

    /// Whether a process lives under a registration, with a session or awaited.
    pub(super) fn has_process(&self, id: RegistrationId) -> bool {
        self.sessions.of(id).next().is_some() || self.recovery.awaits(id)
    }

    /// Ends a registration after `claim_timeout`, unless a process claims it before.
    pub(super) fn await_claim(&mut self, id: RegistrationId) {
        let until = self.now + self.config.settings.claim_timeout;
        self.timers.set(Timer::Claim(id), Some(until));
    }

    pub(super) fn claim_expired(&mut self, id: RegistrationId) {
        self.log(self.line(Level::Info, id, "no process claimed it in time"));
        self.end_registration(id);
    }

    /// Ends a registration. A process under it goes on as best-effort, and keeps the name until it ends.
    pub(super) fn end_registration(&mut self, id: RegistrationId) {
        if self.registry.get(id).is_none() {
            return;
        }
        self.unrecorded.note_registration(id);
        self.note_change();
        self.timers.set(Timer::Claim(id), None);
        let attached = self.sessions.of(id).next().is_some();
        let tasks: Vec<_> = self.tasks.of(id).collect();
        for (gpu, task) in tasks {
            if let Some(entry) = self.tasks.get_mut(task)
                && !mem::replace(&mut entry.has_ended, true)
            {
                self.tell(gpu, Event::Unregister { task });
            }
            if !attached {
                self.tasks.remove(task);
                self.needs.remove(task);
                self.timers.set(Timer::Group(gpu, task), None);
            }
        }
        // An awaited process lives too, and knows the number.
        if self.has_process(id) {
            if let Some(entry) = self.registry.get_mut(id) {
                entry.origin = Origin::Session;
                entry.task.class = Class::BestEffort;
                entry.parked = false;
            }
        } else if let Some(entry) = self.registry.remove(id) {
            let name = Some(entry.task.name.as_str());
            let line = LogLine::new(Level::Info, "the registration ended");
            self.log(line.user(Some(entry.uid)).task(name));
        }
    }
}
