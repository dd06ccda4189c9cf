//! The JSON of the checkpoint and of the journal's lines. Fields are added, never changed: the previous
//! daemon and the next one may be of other versions.

use rtswap_engine::Claimant;
use rtswap_engine::registry::TaskDeclaration;
use rtswap_engine::saved::{
    NextRelease, Record, Saved, SavedOrigin, SavedRegistration, SavedSession,
};
use rtswap_engine::{Cookie, RegistrationId, Uuid};
use rtswap_policy::task::{Class, MemoryProfile, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The version of the checkpoint's format.
pub(super) const VERSION: u32 = 1;

/// The file `state`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    pub(super) version: u32,
    /// The boot_id of its boot: times and pids of another boot mean nothing.
    pub(super) boot: String,
    /// The number of the last record that it includes: the lines after it continue this state. None in one
    /// by a daemon that knows no journal: whatever lines there are, they are older.
    pub(super) record: Option<u64>,
    next: u64,
    registrations: Vec<Registration>,
    sessions: Vec<Session>,
    /// GPU, task name, and next release in ns of CLOCK_MONOTONIC.
    next_releases: Vec<(String, String, u64)>,
}

/// One line of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) boot: String,
    /// Greater than in any line or checkpoint before, also in those that the daemon could not read.
    pub(super) record: u64,
    next: u64,
    registrations: Vec<Registration>,
    ended: Vec<u64>,
    sessions: Vec<Session>,
    left: Vec<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Registration {
    id: u64,
    uid: u32,
    name: String,
    /// Period T, deadline D and WCET C in ns; none for best-effort.
    timing: Option<(u64, u64, u64)>,
    #[serde(default)]
    demoted: bool,
    #[serde(default)]
    parked: bool,
    /// Footprint m in bytes.
    footprint: u64,
    /// Swappable memory mˢ in bytes.
    swappable: u64,
    /// None in a state by a daemon that knows no weights: it is the default then.
    weight: Option<u32>,
    /// In ns; none in a state by a daemon that knows no idle times, too.
    #[serde(default)]
    idle_after: Option<u64>,
    gpu: Option<String>,
    #[serde(with = "Origin")]
    origin: SavedOrigin,
    #[serde(default)]
    leased: bool,
    /// Pid and start, in hundredths of a second since boot, of the only process that may claim it.
    #[serde(default)]
    process: Option<(u32, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SavedOrigin")]
enum Origin {
    Call,
    File,
    Session,
}

#[derive(Debug, Serialize, Deserialize)]
struct Session(#[serde(with = "SessionFields")] SavedSession);

#[derive(Serialize, Deserialize)]
#[serde(remote = "SavedSession")]
struct SessionFields {
    #[serde(with = "Id")]
    registration: RegistrationId,
    #[serde(with = "Secret")]
    cookie: Cookie,
    pid: u32,
    start_ticks: u64,
    #[serde(with = "budgets", default)]
    budgets: Vec<(Uuid, Bytes)>,
}

/// UUID and bytes. A GPU without a readable UUID is left out: its budget counts as none.
mod budgets {
    use super::{Bytes, Deserialize, Deserializer, Serializer, Uuid};

    pub(super) fn serialize<S: Serializer>(
        budgets: &[(Uuid, Bytes)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            budgets
                .iter()
                .map(|(gpu, bytes)| (gpu.to_string(), bytes.0)),
        )
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        deserializer: D,
    ) -> Result<Vec<(Uuid, Bytes)>, D::Error> {
        let budgets = Vec::<(String, u64)>::deserialize(deserializer)?;
        let read = |(gpu, bytes): (String, u64)| Some((gpu.parse().ok()?, Bytes(bytes)));
        Ok(budgets.into_iter().filter_map(read).collect())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RegistrationId")]
struct Id(u64);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Cookie")]
struct Secret(u64);

impl Checkpoint {
    /// The state after record number `record`.
    pub(super) fn new(boot: &str, record: u64, saved: &Saved) -> Self {
        let releases = saved.next_releases.iter();
        Self {
            version: VERSION,
            boot: boot.to_owned(),
            record: Some(record),
            next: saved.next,
            registrations: saved.registrations.iter().map(Registration::new).collect(),
            sessions: saved.sessions.iter().cloned().map(Session).collect(),
            next_releases: releases
                .map(|it| (it.gpu.to_string(), it.task.clone(), it.at.0))
                .collect(),
        }
    }

    pub(super) fn saved(self) -> Saved {
        let releases = self.next_releases.into_iter();
        Saved {
            next: self.next,
            registrations: registrations(self.registrations),
            sessions: sessions(self.sessions),
            next_releases: releases
                .filter_map(|(gpu, task, at)| {
                    let (gpu, at) = (gpu.parse().ok()?, Time(at));
                    let task = full_name(task);
                    Some(NextRelease { gpu, task, at })
                })
                .collect(),
        }
    }
}

/// Before 0.2 the tasks of the daemon's own user went by their plain names.
fn full_name(task: String) -> String {
    if task.contains('@') {
        return task;
    }
    format!("{task}@{}", rustix::process::geteuid().as_raw())
}

impl Line {
    /// The record number `number`.
    pub(super) fn new(boot: &str, number: u64, record: &Record) -> Self {
        Self {
            boot: boot.to_owned(),
            record: number,
            next: record.next,
            registrations: record.registrations.iter().map(Registration::new).collect(),
            ended: record.ended.iter().map(|id| id.0).collect(),
            sessions: record.sessions.iter().cloned().map(Session).collect(),
            left: record.left.iter().map(|cookie| cookie.0).collect(),
        }
    }

    pub(super) fn record(self) -> Record {
        Record {
            next: self.next,
            registrations: registrations(self.registrations),
            ended: self.ended.into_iter().map(RegistrationId).collect(),
            sessions: sessions(self.sessions),
            left: self.left.into_iter().map(Cookie).collect(),
        }
    }
}

fn registrations(all: Vec<Registration>) -> Vec<SavedRegistration> {
    all.into_iter().map(Registration::saved).collect()
}

fn sessions(all: Vec<Session>) -> Vec<SavedSession> {
    all.into_iter().map(|Session(saved)| saved).collect()
}

impl Registration {
    fn new(saved: &SavedRegistration) -> Self {
        Self {
            id: saved.id.0,
            uid: saved.uid,
            name: saved.task.name.clone(),
            timing: match saved.task.class {
                Class::Realtime(it) => Some((it.period.0, it.deadline.0, it.wcet.0)),
                Class::BestEffort => None,
            },
            demoted: saved.demoted,
            parked: saved.parked,
            footprint: saved.task.memory.footprint.0,
            swappable: saved.task.memory.swappable.0,
            weight: Some(saved.task.weight.get()),
            idle_after: saved.task.idle_after.map(|span| span.0),
            gpu: saved.gpu.map(|uuid| uuid.to_string()),
            origin: saved.origin,
            leased: saved.is_leased,
            process: saved.claimant.map(|it| (it.pid, it.start_ticks)),
        }
    }

    fn saved(self) -> SavedRegistration {
        let timing = self.timing.map(|(period, deadline, wcet)| Timing {
            period: Nanos(period),
            deadline: Nanos(deadline),
            wcet: Nanos(wcet),
        });
        SavedRegistration {
            id: RegistrationId(self.id),
            uid: self.uid,
            task: TaskDeclaration {
                name: self.name,
                class: timing.map_or(Class::BestEffort, Class::Realtime),
                memory: MemoryProfile {
                    footprint: Bytes(self.footprint),
                    swappable: Bytes(self.swappable),
                },
                weight: self.weight.and_then(Weight::new).unwrap_or_default(),
                idle_after: self.idle_after.map(Nanos),
                gpu: None,
            },
            demoted: self.demoted,
            parked: self.parked,
            gpu: self.gpu.and_then(|uuid| uuid.parse().ok()),
            origin: self.origin,
            is_leased: self.leased,
            claimant: self
                .process
                .map(|(pid, start_ticks)| Claimant { pid, start_ticks }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_without_records_is_read() {
        // As a daemon without a journal wrote it.
        let text = r#"{"version":1,"boot":"b","next":9,"registrations":[{"id":3,"uid":7,
            "name":"yolo","timing":[30,20,10],"demoted":true,"footprint":6,"swappable":5,
            "gpu":"GPU-01234567-89ab-cdef-0123-456789abcdef","origin":"Call","process":[12,34]}],
            "sessions":[{"registration":3,"cookie":18446744073709551615,"pid":12,"start_ticks":34}],
            "next_releases":[["GPU-01234567-89ab-cdef-0123-456789abcdef","yolo@7",99]]}"#;
        let checkpoint: Checkpoint = serde_json::from_str(text).unwrap();
        assert!(
            !format!("{checkpoint:?}").contains(&u64::MAX.to_string()),
            "no cookie in a log"
        );
        assert_eq!((checkpoint.version, checkpoint.record), (VERSION, None));
        let mut saved = checkpoint.saved();
        assert_eq!((saved.next, saved.next_releases[0].at), (9, Time(99)));
        let entry = &saved.registrations[0];
        assert!(matches!(entry.task.class, Class::Realtime(it) if it.wcet == Nanos(10)));
        assert_eq!(entry.claimant.map(|it| it.start_ticks), Some(34));
        assert_eq!(saved.sessions[0].cookie, Cookie(u64::MAX));
        let gpu = saved.next_releases[0].gpu;
        assert_eq!(saved.sessions[0].budget(gpu), Bytes::ZERO, "none was kept");
        saved.sessions[0].budgets = vec![(gpu, Bytes(77))];
        assert!(!saved.registrations[0].is_leased);
        saved.registrations[0].is_leased = true;
        assert!(!saved.registrations[0].parked);
        saved.registrations[0].parked = true;
        assert_eq!(saved.registrations[0].task.weight, Weight::default());
        saved.registrations[0].task.weight = Weight::new(300).unwrap();
        assert_eq!(saved.registrations[0].task.idle_after, None);
        saved.registrations[0].task.idle_after = Some(Nanos(5));
        let again = Checkpoint::new("b", 4, &saved);
        assert_eq!(again.record, Some(4));
        assert_eq!(again.saved(), saved);
    }
}
