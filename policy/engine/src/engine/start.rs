//! From one daemon to the next: what is taken over, and which processes are awaited.
//!
//! Until every process that had a session with the daemon before is back or dead, or a grace has
//! passed, blocks are read but requests are not: nothing is granted. Memory and running jobs are taken
//! over at once. A process that stays silent counts as unmanaged; when it returns later, its cookie is
//! still known.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::mem;

use rtswap_policy::units::Nanos;

use super::Engine;
use crate::Uuid;
use crate::error::CallError;
use crate::ids::{ConnectionId, RegistrationId};
use crate::input::{Start, TaskFile};
use crate::output::{Level, LogLine, Output};
use crate::registry::{Origin, Registration, Registry};
use crate::saved::{NextRelease, SavedOrigin, SavedRegistration, SavedSession};
use crate::timers::Timer;

/// How long the other processes wait for a silent one.
const GRACE: Nanos = Nanos(2_000_000_000);

/// Sessions of the previous daemon that no process has resumed yet.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// The sessions with a living process that has not said Hello again, by the number under which the
    /// shell watches that process.
    awaited: BTreeMap<ConnectionId, SavedSession>,
    /// Whether requests of others wait for these sessions.
    is_holding: bool,
    /// Eligible times on GPUs that are not known yet.
    pub(super) next_releases: Vec<NextRelease>,
}

impl Recovery {
    /// Whether requests are not read yet.
    pub(crate) fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// The processes that requests wait for.
    pub(crate) fn pids(&self) -> BTreeSet<u32> {
        if self.is_holding {
            self.awaited.values().map(|session| session.pid).collect()
        } else {
            BTreeSet::new()
        }
    }

    /// The sessions that may still be resumed, by the number of their process.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (ConnectionId, &SavedSession)> {
        let all = self.awaited.iter();
        all.map(|(connection, session)| (*connection, session))
    }

    pub(super) fn of(
        &self,
        registration: RegistrationId,
    ) -> impl Iterator<Item = (ConnectionId, &SavedSession)> {
        let all = self.awaited();
        all.filter(move |(_, session)| session.registration == registration)
    }

    pub(super) fn awaits(&self, registration: RegistrationId) -> bool {
        self.of(registration).next().is_some()
    }

    /// Takes out the eligible times on a GPU that is known now.
    pub(super) fn take_releases(&mut self, gpu: Uuid) -> Vec<NextRelease> {
        let all = mem::take(&mut self.next_releases);
        let (ours, others) = all.into_iter().partition(|release| release.gpu == gpu);
        self.next_releases = others;
        ours
    }
}

impl Engine {
    /// Takes over from the daemon before, and begins.
    pub(super) fn start(&mut self, start: Start) {
        let saved = start.saved;
        self.registry = Registry::new(saved.next, self.config.subordinates.clone());
        self.recovery.next_releases = saved.next_releases;
        let numbers: BTreeMap<_, _> = saved
            .registrations
            .iter()
            .map(|entry| ((entry.uid, entry.task.name.clone()), entry))
            .collect();
        self.policy.run_time = start.run_time_rules;
        for file in start.tasks {
            let before = numbers.get(&(file.uid, file.options.name.clone()));
            self.add_file(file, before.copied());
        }
        for entry in saved.registrations {
            self.revive(entry);
        }
        for (connection, at) in start.awaited {
            if let Some(session) = saved.sessions.get(at) {
                self.await_session(connection, session.clone());
            }
        }
        self.drop_deserted();
        self.restore_calibrations(start.calibrations);
        self.add_first_gpus(start.nvml);
        self.note_change();
        // From here on the records continue this state.
        self.checkpoint();
    }

    /// Adds the registration of a file, under its number from before where it has one. Its GPU is looked
    /// up when GPUs are known.
    fn add_file(&mut self, file: TaskFile, before: Option<&SavedRegistration>) {
        let TaskFile { uid, options } = file;
        let name = options.name.clone();
        let admitted = match before {
            Some(_) => self.takes_over(uid, &name),
            None => self.admits(uid, &name),
        };
        let task = match options.check().and_then(|task| admitted.map(|()| task)) {
            Ok(task) => task,
            Err(complaint) => {
                let text = format!("refused from tasks.d: {complaint}");
                return self.log(LogLine::new(Level::Error, text).task(Some(&name)));
            }
        };
        let Some(before) = before else {
            let id = self.registry.add(uid, task, Origin::File).id;
            // The number must outlive a kill that comes before the first checkpoint is written.
            return self.unrecorded.note_registration(id);
        };
        let entry = Registration::new(before.id, uid, task, Origin::File);
        let entry = self.registry.insert(entry);
        entry.parked = before.parked;
        // A file that says something else now is a new registration under the old number.
        entry.demoted = *before
            == SavedRegistration {
                gpu: before.gpu,
                demoted: true,
                ..entry.saved()
            };
        self.unrecorded.note_registration(before.id);
    }

    /// Whether a registration from before may go on. It was admitted, so that the most that its user may have now
    /// does not count.
    fn takes_over(&self, uid: u32, name: &str) -> Result<(), CallError> {
        let owner = self.registry.user(uid);
        self.registry.admits(&owner, uid, name, usize::MAX)
    }

    /// Takes over a registration that is no file's.
    fn revive(&mut self, saved: SavedRegistration) {
        let origin = match saved.origin {
            SavedOrigin::Call if saved.is_leased => Origin::FormerLease,
            SavedOrigin::Call => Origin::Call,
            SavedOrigin::Session => Origin::Session,
            SavedOrigin::File => return,
        };
        if let Err(error) = self.takes_over(saved.uid, &saved.task.name) {
            let text = format!("its registration is not taken over: {error}");
            return self.log(LogLine::new(Level::Error, text).task(Some(&saved.task.name)));
        }
        let entry = Registration::new(saved.id, saved.uid, saved.task, origin);
        self.registry.insert(Registration {
            gpu: saved.gpu,
            demoted: saved.demoted,
            parked: saved.parked,
            claimant: saved.claimant,
            ..entry
        });
        if matches!(origin, Origin::Call | Origin::FormerLease) {
            self.await_claim(saved.id);
        }
    }

    fn await_session(&mut self, connection: ConnectionId, session: SavedSession) {
        let id = session.registration;
        if self.registry.get(id).is_none() {
            return self.emit(Output::Forget(connection));
        }
        self.timers.set(Timer::Claim(id), None);
        let line = self.line(Level::Info, id, "its process is awaited from before");
        self.log(line.pid(session.pid));
        self.recovery.awaited.insert(connection, session);
        self.recovery.is_holding = true;
        self.timers.set(Timer::Recovery, Some(self.now + GRACE));
    }

    /// Drops the registrations of processes' own that are gone.
    fn drop_deserted(&mut self) {
        let own = self.registry.of_origin(Origin::Session);
        let deserted = own.filter(|entry| !self.recovery.awaits(entry.id));
        let deserted: Vec<_> = deserted.map(|entry| entry.id).collect();
        for id in deserted {
            self.registry.remove(id);
        }
    }

    /// An awaited process is back or gone.
    pub(super) fn stop_awaiting(&mut self, connection: ConnectionId) -> Option<SavedSession> {
        let session = self.recovery.awaited.remove(&connection)?;
        if self.recovery.awaited.is_empty() && self.recovery.is_holding {
            self.end_recovery();
        }
        Some(session)
    }

    pub(super) fn recovery_over(&mut self) {
        let silent = self.recovery.awaited.len();
        let text = format!("going on without {silent} processes that did not come back");
        self.log(LogLine::new(Level::Warn, text));
        // Their memory is unmanaged now: NVML is asked before much is granted.
        self.hurry_nvml(true);
        self.end_recovery();
    }

    /// Reads the requests that were held back.
    fn end_recovery(&mut self) {
        self.recovery.is_holding = false;
        self.timers.set(Timer::Recovery, None);
        let sessions = self.sessions.iter();
        let all: Vec<_> = sessions
            .map(|(id, session)| (id, session.devices.len()))
            .collect();
        for (id, gpus) in all {
            for gpu in 0..gpus {
                self.look_again(id, gpu);
            }
        }
    }
}
