//! From one daemon to the next: the state file, and whom to wait for.
//!
//! Until every process that the daemon before had a session with is back, is dead, or a grace has
//! passed, control pages are read but nobody's request is heard: what asks stays in the page, and
//! so nothing is granted. Memory and running jobs are taken over at once. Who stays silent counts
//! as unmanaged; when it comes back later it is still known by its cookie.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rtswap_policy::task::{Class, MemoryProfile, Timing};
use rtswap_policy::units::{Bytes, Nanos, Time};
use rtswap_wire::doorbell::Cookie;

use super::Dispatcher;
use super::gpu::Gpu;
use super::run::Token;
use crate::config::{GpuConfig, TaskFile};
use crate::registry::{
    Origin, Registration, RegistrationId, SavedOrigin, SavedRegistration, SavedSession, SavedState,
};
use crate::source::gpu::GpuSample;
use crate::sys::peer::{open_process, pidfd_id, start_ticks};
use crate::sys::poll::Watch;

/// How long the others wait for who is silent.
const GRACE: Nanos = Nanos(2_000_000_000);

/// A process that the daemon before had a session with.
#[derive(Debug)]
struct Awaited {
    registration: RegistrationId,
    cookie: Cookie,
    process: OwnedFd,
}

/// Whom a fresh daemon waits for, by number.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    awaited: BTreeMap<u64, Awaited>,
    /// Nothing is granted before this, while somebody is awaited.
    until: Option<Time>,
    /// Eligible times by (GPU, name), for GPUs that are not known yet.
    next_releases: Vec<(String, String, u64)>,
}

impl Recovery {
    /// Whether requests stay unheard.
    pub(super) fn holds(&self) -> bool {
        self.until.is_some()
    }

    /// It has a session again, or never will.
    pub(super) fn is_back(&mut self, registration: RegistrationId, cookie: Cookie) {
        let other = |it: &Awaited| (it.registration, it.cookie) != (registration, cookie);
        self.awaited.retain(|_, it| other(it));
        if self.awaited.is_empty() {
            self.until = None;
        }
    }

    fn of(&self, registration: RegistrationId) -> impl Iterator<Item = &Awaited> {
        let all = self.awaited.values();
        all.filter(move |awaited| awaited.registration == registration)
    }

    /// Whether a session of this cookie and process is awaited.
    pub(super) fn knows(&self, registration: RegistrationId, cookie: Cookie, pid: u32) -> bool {
        let is = |it: &Awaited| it.cookie == cookie && pidfd_id(&it.process) == Some(pid);
        self.of(registration).any(is)
    }

    /// Whether one of this cookie or this process is.
    pub(super) fn half_knows(
        &self,
        registration: RegistrationId,
        cookie: Cookie,
        pid: u32,
    ) -> bool {
        let is = |it: &Awaited| it.cookie == cookie || pidfd_id(&it.process) == Some(pid);
        self.of(registration).any(is)
    }

    /// A process of an awaited session, while it lives.
    pub(super) fn process(&self, registration: RegistrationId) -> Option<u32> {
        self.of(registration).find_map(|it| pidfd_id(&it.process))
    }

    /// Whether a living process is awaited.
    pub(super) fn awaits(&self, registration: RegistrationId) -> bool {
        self.process(registration).is_some()
    }

    /// The processes that are awaited.
    pub(super) fn pids(&self) -> BTreeSet<u32> {
        if !self.holds() {
            return BTreeSet::new();
        }
        let processes = self.awaited.values();
        processes
            .filter_map(|awaited| pidfd_id(&awaited.process))
            .collect()
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.until
    }

    /// Whether they are waited for no more from now on.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let over = self.until.is_some_and(|until| until <= now);
        if over {
            self.until = None;
            let silent = self.awaited.len();
            tracing::warn!(silent, "going on without those that did not come back");
        }
        over
    }
}

impl Dispatcher {
    /// Takes over from the daemon before.
    pub(super) fn recover(&mut self, saved: SavedState, files: Vec<TaskFile>, now: Time) {
        self.recovery.next_releases = saved.next_releases;
        let numbers: BTreeMap<_, _> = saved
            .registrations
            .iter()
            .map(|entry| ((entry.uid, entry.name.clone()), entry.clone()))
            .collect();
        for file in files {
            self.add_file(file, &numbers);
        }
        let claim_until = now + self.config.daemon.claim_timeout();
        for entry in saved.registrations {
            if entry.origin != SavedOrigin::File
                && self.registry.admits(entry.uid, &entry.name).is_ok()
            {
                match entry.process.map(|(pid, ticks)| open_again(pid, ticks)) {
                    Some(None) => tracing::info!(task = entry.name, "its only process is gone"),
                    process => {
                        let registration = self.registry.insert(revive(entry, claim_until));
                        registration.process = process.flatten();
                    }
                }
            }
        }
        for session in saved.sessions {
            self.await_session(&session, now);
        }
        let alone: Vec<_> = self
            .registry
            .iter()
            .filter(|entry| matches!(entry.origin, Origin::Session))
            .filter(|entry| self.recovery.of(entry.id).next().is_none())
            .map(|entry| entry.id)
            .collect();
        for registration in alone {
            self.registry.remove(registration);
        }
    }

    fn add_file(&mut self, file: TaskFile, numbers: &BTreeMap<(u32, String), SavedRegistration>) {
        let (uid, name) = (file.uid, file.declaration.name.clone());
        let checked = match file.declaration.check() {
            Ok(checked) => checked,
            Err(complaint) => {
                tracing::error!(task = name, "refused from tasks.d: {complaint}");
                return;
            }
        };
        if let Err(error) = self.registry.admits(uid, &name) {
            tracing::error!(task = name, "refused from tasks.d: {error}");
            return;
        }
        // Which GPU it is on is looked up when GPUs are known.
        let wanted = checked.gpu.clone();
        let id = match numbers.get(&(uid, name.clone())) {
            Some(before) => {
                let registration = Registration {
                    id: RegistrationId(before.id),
                    uid,
                    name,
                    class: checked.class,
                    memory: checked.memory,
                    gpu: None,
                    origin: Origin::File,
                    process: None,
                    demoted: false,
                    claim_until: None,
                };
                let entry = self.registry.insert(registration);
                // A file that says something else now is a new registration under the old number.
                entry.demoted = *before
                    == SavedRegistration {
                        gpu: before.gpu.clone(),
                        demoted: true,
                        ..keep(entry)
                    };
                entry.id
            }
            None => self.registry.add(uid, checked, None, Origin::File).id,
        };
        self.unplaced.insert(id, wanted);
    }

    fn await_session(&mut self, session: &SavedSession, now: Time) {
        let id = RegistrationId(session.registration);
        let Some(entry) = self.registry.get_mut(id) else {
            return;
        };
        let Some(process) = open_again(session.pid, session.start_ticks) else {
            return;
        };
        let number = self.recovery.awaited.len() as u64;
        let token = Token::Awaited(number).into();
        if let Err(error) = self.poll.add(&process, token, Watch::Readable) {
            tracing::error!(%error, "cannot watch a process");
            return;
        }
        entry.claim_until = None;
        tracing::info!(task = entry.name, pid = session.pid, "awaited from before");
        let awaited = Awaited {
            registration: id,
            cookie: Cookie(session.cookie),
            process,
        };
        self.recovery.awaited.insert(number, awaited);
        self.recovery.until = Some(now + GRACE);
    }

    /// A process of the daemon before died without coming back.
    pub(super) fn awaited_ended(&mut self, number: u64, now: Time) {
        let Some(awaited) = self.recovery.awaited.get(&number) else {
            return;
        };
        let (registration, cookie) = (awaited.registration, awaited.cookie);
        self.recovery.is_back(registration, cookie);
        self.unsaved = true;
        let attached = self.sessions_of(registration).next().is_some();
        if !attached && self.recovery.of(registration).next().is_none() {
            self.last_process_ended(registration, now);
        }
    }

    /// Takes a GPU in, with what NVML shows of it now and what is remembered of it.
    pub(super) fn add_gpu(&mut self, gpu: &GpuConfig, shown: Option<GpuSample>, now: Time) {
        if let Some(complaint) = gpu.complaint() {
            tracing::error!(uuid = %gpu.uuid, "a GPU that cannot be managed: {complaint}");
            return;
        }
        let index = self.gpus.len();
        self.gpus.push(Gpu::new(gpu, &self.config));
        self.unpublished = true;
        let scheduler = &mut self.gpus[index].scheduler;
        self.recovery.next_releases.retain(|(of, name, at)| {
            let ours = of.parse() == Ok(gpu.uuid);
            if ours {
                scheduler.remember(name.clone(), Time(*at));
            }
            !ours
        });
        let name = shown.as_ref().map(|shown| Arc::clone(&shown.name));
        tracing::info!(
            index, uuid = %gpu.uuid, name = name.as_deref(), capacity = %gpu.capacity(), chunk = %gpu.chunk(), "GPU"
        );
        if let Some(shown) = shown {
            self.reconcile(index, shown, now);
        }
    }

    /// Places what was registered for GPUs that are known now.
    pub(super) fn place_registered(&mut self, now: Time) {
        for (id, wanted) in std::mem::take(&mut self.unplaced) {
            match self.find_gpu(wanted.as_deref()) {
                Ok(found) => {
                    let uuid = self.gpus[found].uuid;
                    if let Some(entry) = self.registry.get_mut(id) {
                        entry.gpu = Some(uuid);
                    }
                }
                Err(error) => {
                    tracing::warn!(task = id.0, "waits for its GPU: {error}");
                    self.unplaced.insert(id, wanted);
                }
            }
        }
        self.place_all(now);
    }

    /// Registers with their schedulers the realtime tasks that are not there yet.
    fn place_all(&mut self, now: Time) {
        let waiting: Vec<_> = self
            .registry
            .iter()
            .filter(|entry| entry.is_realtime())
            .filter_map(|entry| {
                let at = self
                    .gpus
                    .iter()
                    .position(|gpu| Some(gpu.uuid) == entry.gpu)?;
                self.task_on(entry.id, at)
                    .is_none()
                    .then_some((entry.id, at))
            })
            .collect();
        for (id, gpu) in waiting {
            if let Err(reason) = self.place(id, gpu, now) {
                tracing::error!(task = self.registration_name(id), "refused: {reason}");
                // A process may run under it: it goes on as best-effort.
                if let Some(entry) = self.registry.get_mut(id) {
                    entry.class = Class::BestEffort;
                }
            }
        }
    }

    /// Writes the state file.
    pub(super) fn save(&mut self) {
        self.unsaved = false;
        self.stale_since = None;
        let mut state = SavedState::default();
        state.next = self.registry.next();
        state.registrations = self.registry.iter().map(keep).collect();
        for ((registration, _), session) in &self.sessions {
            state.sessions.push(SavedSession {
                registration: registration.0,
                cookie: session.cookie.0,
                pid: session.peer.pid,
                start_ticks: session.peer.start_ticks,
            });
        }
        for awaited in self.recovery.awaited.values() {
            if let Some(pid) = pidfd_id(&awaited.process)
                && let Some(start_ticks) = start_ticks(pid)
            {
                state.sessions.push(SavedSession {
                    registration: awaited.registration.0,
                    cookie: awaited.cookie.0,
                    pid,
                    start_ticks,
                });
            }
        }
        for gpu in &self.gpus {
            let uuid = gpu.uuid.to_string();
            for task in gpu.scheduler.state().tasks() {
                if task.next_release > Time::default() {
                    let at = task.next_release.0;
                    state.next_releases.push((uuid.clone(), task.name, at));
                }
            }
        }
        state
            .next_releases
            .extend(self.recovery.next_releases.iter().cloned());
        if let Err(error) = self.state_file.save(state) {
            tracing::error!("{error}: a restarted rtswapd would not know its tasks");
        }
    }
}

/// The process of this number that started then, if it lives.
fn open_again(pid: u32, ticks: u64) -> Option<OwnedFd> {
    // The descriptor first: once it is open the number cannot be reused unnoticed.
    let process = open_process(pid)?;
    (start_ticks(pid) == Some(ticks)).then_some(process)
}

/// The number of a process, and when it started; of one that has ended zeros, which no process has.
fn identify(process: &OwnedFd) -> (u32, u64) {
    let living = pidfd_id(process).and_then(|pid| Some((pid, start_ticks(pid)?)));
    living.unwrap_or_default()
}

fn keep(entry: &Registration) -> SavedRegistration {
    SavedRegistration {
        id: entry.id.0,
        uid: entry.uid,
        name: entry.name.clone(),
        timing: match entry.class {
            Class::Realtime(timing) => Some((timing.period.0, timing.deadline.0, timing.wcet.0)),
            Class::BestEffort => None,
        },
        demoted: entry.demoted,
        footprint: entry.memory.footprint.0,
        swappable: entry.memory.swappable.0,
        gpu: entry.gpu.map(|uuid| uuid.to_string()),
        origin: match entry.origin {
            Origin::Call | Origin::Lease(_) => SavedOrigin::Call,
            Origin::File => SavedOrigin::File,
            Origin::Session => SavedOrigin::Session,
        },
        process: entry.process.as_ref().map(identify),
    }
}

fn revive(entry: SavedRegistration, claim_until: Time) -> Registration {
    let call = entry.origin == SavedOrigin::Call;
    Registration {
        id: RegistrationId(entry.id),
        uid: entry.uid,
        name: entry.name,
        class: match entry.timing {
            Some((period, deadline, wcet)) => Class::Realtime(Timing {
                period: Nanos(period),
                deadline: Nanos(deadline),
                wcet: Nanos(wcet),
            }),
            None => Class::BestEffort,
        },
        memory: MemoryProfile {
            footprint: Bytes(entry.footprint),
            swappable: Bytes(entry.swappable),
        },
        demoted: entry.demoted,
        gpu: entry.gpu.and_then(|uuid| uuid.parse().ok()),
        origin: if call { Origin::Call } else { Origin::Session },
        process: None,
        claim_until: call.then_some(claim_until),
    }
}
