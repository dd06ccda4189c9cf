//! Ends: of processes, of connections, of registrations.

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use super::{Dispatcher, SessionId};
use crate::registry::{Origin, RegistrationId};

impl Dispatcher {
    /// The process of a session is gone: the only proof of death there is.
    pub(super) fn process_ended(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.sessions.remove(&id) else {
            return;
        };
        // The agent may hold it too, and then closing our end would not take it from the set.
        self.poll.remove(session.eventfd());
        self.connections.retain(|_, owner| *owner != id);
        let registration = id.0;
        let name = self.registration_name(registration).unwrap_or_default();
        tracing::info!(task = name, pid = session.peer.pid, "process ended");
        self.recovery.is_back(registration, session.cookie);
        self.unsaved = true;
        self.unpublished = true;
        for (gpu, device) in session.devices.iter().enumerate() {
            let Some(task) = device.task else {
                continue;
            };
            if let Some(members) = self.members(task) {
                members.leave(now, id.1);
            }
            self.feed_members_own(gpu, task, now);
            if self.dying(gpu, task) > Bytes::ZERO {
                self.bury(gpu, task, &session.peer, now);
            }
        }
        if self.sessions_of(registration).next().is_none() {
            self.last_process_ended(registration, now);
        }
    }

    /// A registration has no process any more.
    pub(super) fn last_process_ended(&mut self, registration: RegistrationId, now: Time) {
        let claim_until = now + self.config.daemon.claim_timeout();
        let Some(entry) = self.registry.get_mut(registration) else {
            return;
        };
        match entry.origin {
            Origin::Session => self.end_registration(registration, now),
            Origin::Call => entry.claim_until = Some(claim_until),
            Origin::Lease(_) | Origin::File => {}
        }
    }

    /// What the dead of a task have left on a GPU.
    pub(super) fn dying(&self, gpu: usize, task: TaskId) -> Bytes {
        let status = self.gpus[gpu].scheduler.state().task(task);
        status.map_or(Bytes::ZERO, |status| status.dying)
    }

    /// The connection is gone. A forked child may have closed it: the process may live on, and
    /// its memory with it.
    pub(super) fn connection_ended(&mut self, id: SessionId, now: Time) {
        let session = self.sessions.get_mut(&id);
        let Some(session) = session.filter(|session| session.is_connected()) else {
            return;
        };
        session.lose();
        self.poll.remove(session.eventfd());
        let tasks: Vec<_> = session.devices.iter().map(|device| device.task).collect();
        tracing::info!(pid = session.peer.pid, "the agent's connection ended");
        for (gpu, task) in tasks.into_iter().enumerate() {
            if let Some(task) = task {
                if let Some(members) = self.members(task) {
                    members.lose(now, id.1);
                }
                self.feed_members_own(gpu, task, now);
            }
        }
    }

    /// Ends a registration. A process under it goes on as best-effort, and keeps the name until it
    /// ends.
    pub(super) fn end_registration(&mut self, registration: RegistrationId, now: Time) {
        self.unsaved = true;
        self.unpublished = true;
        for task in self.tasks_of(registration) {
            let Some(place) = self.places.get_mut(&task) else {
                continue;
            };
            let gpu = place.gpu;
            if !std::mem::replace(&mut place.ended, true) {
                self.feed_own(gpu, now, Event::Unregister { task });
            }
        }
        let attached = self.sessions_of(registration).next().is_some();
        if !attached {
            for task in self.tasks_of(registration) {
                if let Some(place) = self.places.remove(&task) {
                    self.tasks.remove(&(registration, place.gpu));
                }
            }
        }
        // One that is awaited from before lives too, and knows the number.
        if attached || self.recovery.awaits(registration) {
            if let Some(entry) = self.registry.get_mut(registration) {
                entry.origin = Origin::Session;
                entry.claim_until = None;
                entry.class = rtswap_policy::task::Class::BestEffort;
            }
            return;
        }
        self.statistics.remove(&registration);
        if let Some(entry) = self.registry.remove(registration) {
            tracing::info!(task = entry.name, uid = entry.uid, "registration ended");
        }
    }

    /// Ends the registrations that no process claimed, frees what is dead long enough where NVML
    /// does not tell.
    pub(super) fn expire(&mut self, now: Time) {
        let unclaimed: Vec<_> = self
            .registry
            .iter()
            .filter(|entry| entry.claim_until.is_some_and(|until| until <= now))
            .map(|entry| entry.id)
            .collect();
        for registration in unclaimed {
            tracing::info!(task = registration.0, "no process claimed it in time");
            self.end_registration(registration, now);
        }
        for (gpu, task) in self.graces.over(now) {
            // The driver is asked about those that died since.
            if self.gpus[gpu].dead.iter().all(|dead| dead.task != task) {
                self.release(gpu, task, now);
            }
        }
        self.listener.expire(now);
    }
}
