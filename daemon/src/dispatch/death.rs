//! Ends: of processes, of connections, of registrations.

use rtswap_policy::scheduler::Event;
use rtswap_policy::units::{Bytes, Time};

use super::Dispatcher;
use crate::registry::{Origin, RegistrationId};

impl Dispatcher {
    /// The process of a session is gone: the only proof of death there is.
    pub(super) fn process_ended(&mut self, registration: RegistrationId, now: Time) {
        let Some(session) = self.sessions.remove(&registration) else {
            return;
        };
        // The agent may hold it too, and then closing our end would not take it from the set.
        self.poll.remove(session.eventfd());
        self.connections.retain(|_, owner| *owner != registration);
        let name = self.registration_name(registration).unwrap_or_default();
        tracing::info!(task = name, pid = session.peer.pid, "process ended");
        self.recovery.is_back(registration);
        self.unsaved = true;
        for (gpu, device) in session.devices.iter().enumerate() {
            let Some(task) = device.task else {
                continue;
            };
            self.feed_own(gpu, now, Event::Detach { task });
            let status = self.gpus[gpu].scheduler.state().task(task);
            if status.is_some_and(|status| status.dying > Bytes::ZERO) {
                self.bury(gpu, task, &session.peer, now);
            }
        }
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

    /// The connection is gone. A forked child may have closed it: the process may live on, and
    /// its memory with it.
    pub(super) fn connection_ended(&mut self, registration: RegistrationId, now: Time) {
        let session = self.sessions.get_mut(&registration);
        let Some(session) = session.filter(|session| session.is_connected()) else {
            return;
        };
        session.lose();
        self.poll.remove(session.eventfd());
        let tasks: Vec<_> = session.devices.iter().map(|device| device.task).collect();
        tracing::info!(pid = session.peer.pid, "the agent's connection ended");
        for (gpu, task) in tasks.into_iter().enumerate() {
            if let Some(task) = task {
                self.feed_own(gpu, now, Event::Lost { task });
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
        let attached = self.sessions.contains_key(&registration);
        if !attached {
            for task in self.tasks_of(registration) {
                if let Some(place) = self.places.remove(&task) {
                    self.tasks.remove(&(registration, place.gpu));
                }
            }
        }
        // One that is awaited from before lives too, and knows the number.
        if attached || self.recovery.process(registration).is_some() {
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
