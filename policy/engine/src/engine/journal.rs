//! What the next daemon needs: a record of each change, and from time to time a checkpoint of the
//! whole state, which alone has the eligible times.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::mem;

use rtswap_policy::units::{Bytes, Nanos, Time};

use super::Engine;
use crate::ids::{Cookie, RegistrationId};
use crate::output::Output;
use crate::registry::Registration;
use crate::saved::{NextRelease, Record, Saved, SavedSession};
use crate::sessions::{Session, SessionId};
use crate::timers::Timer;

/// The longest time that a checkpoint may lack the eligible time of a job.
const CHECKPOINT_DELAY: Nanos = Nanos(250_000_000);

/// The records after which a checkpoint follows, so that the journal stays short.
const RECORDS: u32 = 256;

/// What has changed since the last record, and how far the next checkpoint is.
#[derive(Debug, Default)]
pub(crate) struct Unrecorded {
    /// Registrations that began, changed or ended.
    registrations: BTreeSet<RegistrationId>,
    /// Sessions that began or ended, as the next record says it.
    next: Record,
    /// The records since the last checkpoint.
    records: u32,
    /// Whether [`Timer::Checkpoint`] is set.
    awaits_checkpoint: bool,
}

impl Unrecorded {
    /// Notes that a registration began, changed or ended. The record has its state of the time when it
    /// is written, so this may come before the change.
    pub(super) fn note_registration(&mut self, id: RegistrationId) {
        self.registrations.insert(id);
    }

    /// Notes that a session begins.
    pub(super) fn note_session(&mut self, session: SavedSession) {
        self.next.left.retain(|cookie| *cookie != session.cookie);
        self.next.sessions.push(session);
    }

    /// Notes that the session of that secret ended.
    pub(super) fn note_session_left(&mut self, cookie: Cookie) {
        let sessions = &mut self.next.sessions;
        sessions.retain(|session| session.cookie != cookie);
        self.next.left.push(cookie);
    }
}

impl Engine {
    /// A task broke a promise and is best-effort from now on, for the next daemon too.
    pub(super) fn record_demotion(&mut self, id: RegistrationId) {
        if let Some(entry) = self.registry.get_mut(id)
            && !mem::replace(&mut entry.demoted, true)
        {
            self.unrecorded.note_registration(id);
        }
    }

    /// A job ended, so the eligible time of its task may have changed.
    pub(super) fn await_checkpoint(&mut self) {
        if !self.unrecorded.awaits_checkpoint {
            self.set_checkpoint(self.now + CHECKPOINT_DELAY);
        }
    }

    /// Gives a record of all changes since the last one; false where nothing changed.
    pub(super) fn emit_record(&mut self) -> bool {
        let unrecorded = &mut self.unrecorded;
        let mut record = mem::take(&mut unrecorded.next);
        record.next = self.registry.next();
        for id in mem::take(&mut unrecorded.registrations) {
            match self.registry.get(id) {
                Some(entry) => record.registrations.push(entry.saved()),
                None => record.ended.push(id),
            }
        }
        if record.is_empty() {
            return false;
        }
        unrecorded.records += 1;
        if unrecorded.records >= RECORDS {
            // Not at once: a session that is under way is in no checkpoint before its Welcome.
            self.set_checkpoint(self.now);
        }
        self.emit(Output::Record(Box::new(record)));
        true
    }

    /// Has the whole state written anew.
    pub(super) fn checkpoint(&mut self) {
        self.unrecorded.awaits_checkpoint = false;
        self.unrecorded.records = 0;
        self.emit(Output::Checkpoint);
    }

    fn set_checkpoint(&mut self, at: Time) {
        self.unrecorded.awaits_checkpoint = true;
        self.timers.set(Timer::Checkpoint, Some(at));
    }

    /// What the next daemon needs of the state as it is now.
    pub fn saved(&self) -> Saved {
        let sessions = self.sessions.iter();
        let sessions = sessions.map(|(id, session)| self.saved_session(id, session));
        let awaited = self.recovery.awaited().map(|(_, session)| session.clone());
        Saved {
            next: self.registry.next(),
            registrations: self.registry.iter().map(Registration::saved).collect(),
            sessions: sessions.chain(awaited).collect(),
            next_releases: self.next_releases().collect(),
        }
    }

    fn next_releases(&self) -> impl Iterator<Item = NextRelease> + '_ {
        let known = self.gpus.iter().flat_map(|gpu| {
            let tasks = gpu.scheduler.state().tasks();
            let later = tasks.filter(|task| task.next_release > Time::ZERO);
            later.map(|task| NextRelease {
                gpu: gpu.uuid,
                task: task.name,
                at: task.next_release,
            })
        });
        known.chain(self.recovery.next_releases.iter().cloned())
    }

    /// What the next daemon needs of a session.
    pub(super) fn saved_session(&self, id: SessionId, session: &Session) -> SavedSession {
        let devices = session.devices.iter().zip(&self.gpus);
        let budgets = devices.filter(|(device, _)| device.held > Bytes::ZERO);
        SavedSession {
            registration: id.registration,
            cookie: session.cookie,
            pid: session.peer.pid,
            start_ticks: session.peer.start_ticks,
            budgets: budgets
                .map(|(device, gpu)| (gpu.uuid, device.held))
                .collect(),
        }
    }
}
