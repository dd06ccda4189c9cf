//! What one daemon leaves for the next: the state as a whole, and the records of what changed since.

use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::units::{Bytes, Time};

use crate::Uuid;
use crate::ids::{Claimant, Cookie, RegistrationId};
use crate::registry::TaskDeclaration;

/// The state as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// The number of the next registration.
    pub next: u64,
    /// All registrations, those of `tasks.d` too: their agents know the number.
    pub registrations: Vec<SavedRegistration>,
    /// All sessions with a process that may come back.
    pub sessions: Vec<SavedSession>,
    /// When the next job of each task may be eligible.
    pub next_releases: Vec<NextRelease>,
}

/// What the state file keeps of a registration.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRegistration {
    /// The number that agents know it by.
    pub id: RegistrationId,
    /// The id of the user that it belongs to.
    pub uid: u32,
    /// What it declared, without the GPU that it asked for.
    pub task: TaskDeclaration,
    /// Whether it broke a promise and is best-effort for that.
    pub demoted: bool,
    /// Whether it is parked.
    pub parked: bool,
    /// The GPU of a realtime task.
    pub gpu: Option<Uuid>,
    /// What ends it.
    pub origin: SavedOrigin,
    /// Whether that was a lease, which ends with the daemon.
    pub is_leased: bool,
    /// The only process that may claim it.
    pub claimant: Option<Claimant>,
}

/// What ends a registration. A daemon that knows no leases of the one before takes them for calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedOrigin {
    /// `Register` or `RegisterWithLease`.
    Call,
    /// `tasks.d`: the file decides, only the number counts.
    File,
    /// A process's own.
    Session,
}

/// What the state file keeps of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSession {
    /// The registration that the session belongs to.
    pub registration: RegistrationId,
    /// The secret that proves the right to resume the session.
    pub cookie: Cookie,
    /// The id of its process in the daemon's PID namespace.
    pub pid: u32,
    /// When the process started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The budget that it had last, in bytes, on each GPU where it had one.
    pub budgets: Vec<(Uuid, Bytes)>,
}

impl SavedSession {
    /// The budget that it had last on a GPU, in bytes.
    pub fn budget(&self, gpu: Uuid) -> Bytes {
        let on = self.budgets.iter().find(|(uuid, _)| *uuid == gpu);
        on.map_or(Bytes::ZERO, |(_, bytes)| *bytes)
    }
}

/// The earliest eligible time of a task's next job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextRelease {
    /// The GPU that the task is on.
    pub gpu: Uuid,
    /// Its name in that GPU's scheduler.
    pub task: String,
    /// By the monotonic clock of this boot.
    pub at: Time,
}

/// What changed since the last record or checkpoint. Applied in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The number of the next registration.
    pub next: u64,
    /// Registrations that are new or changed.
    pub registrations: Vec<SavedRegistration>,
    /// Registrations that ended.
    pub ended: Vec<RegistrationId>,
    /// Sessions that began.
    pub sessions: Vec<SavedSession>,
    /// Sessions that ended, by their secrets.
    pub left: Vec<Cookie>,
}

impl Record {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        let Self {
            next: _,
            registrations,
            ended,
            sessions,
            left,
        } = self;
        registrations.is_empty() && ended.is_empty() && sessions.is_empty() && left.is_empty()
    }
}

impl Saved {
    /// Takes one record in.
    pub fn apply(&mut self, record: Record) {
        self.next = self.next.max(record.next);
        for entry in record.registrations {
            match self.registrations.iter_mut().find(|it| it.id == entry.id) {
                Some(same) => *same = entry,
                None => self.registrations.push(entry),
            }
        }
        self.registrations
            .retain(|it| !record.ended.contains(&it.id));
        for session in record.sessions {
            let same = |it: &SavedSession| it.cookie == session.cookie;
            self.sessions.retain(|it| !same(it));
            self.sessions.push(session);
        }
        self.sessions.retain(|it| !record.left.contains(&it.cookie));
    }
}
