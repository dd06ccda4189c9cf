//! What a client may see of tasks, by docs/security.md, "What another user may see": a user its own, root,
//! the daemon's own user and those that may manage others' tasks without a password all.

use std::collections::{BTreeMap, HashMap};

use rtswap_dbus::text::escape;
use rtswap_dbus::{Error, GpuProperties, TaskProperties};
use zbus::message::Header;
use zbus::{Connection, ObjectPath, Variant};

use super::auth::{self, Door, Visit};
use super::limits::Limits;
use crate::dispatch::Snapshot;
use crate::names;

/// The values of one interface by the names of its properties.
pub(super) type Values = BTreeMap<&'static str, Variant<'static>>;

/// A client, or all listeners of a broadcast signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Viewer {
    /// None for everybody.
    uid: Option<u32>,
    /// Whether it sees all tasks.
    all: bool,
}

impl Viewer {
    /// The caller of `visit`. polkit is asked only where something of a user that is `foreign` to it is
    /// to be seen.
    pub(super) async fn of_visit(
        visit: &Visit<'_>,
        limits: &Limits,
        foreign: impl FnOnce(Self) -> bool,
    ) -> Self {
        let viewer = Self {
            uid: Some(visit.caller.uid),
            all: visit.caller.privileged,
        };
        let all = viewer.all || (foreign(viewer) && visit.may_see_others(limits).await);
        Self { all, ..viewer }
    }

    /// The client on the other end of a connection; on a bus, everybody.
    pub(super) async fn of_peer(door: Door, connection: &Connection) -> Self {
        let uid = match door {
            Door::Socket => auth::peer(connection).await,
            Door::Bus { .. } => None,
        };
        Self {
            uid,
            all: uid.is_some_and(auth::is_privileged),
        }
    }

    /// The sender of `header`, which asks for something of the user `owner`; without a header, the client
    /// on the other end.
    pub(super) async fn of(
        door: Door,
        connection: &Connection,
        header: Option<&Header<'_>>,
        limits: &Limits,
        owner: Option<u32>,
    ) -> Result<Self, Error> {
        let Some(header) = header else {
            return Ok(Self::of_peer(door, connection).await);
        };
        let visit = Visit::of(door, connection, header).await?;
        let foreign = |viewer: Self| owner.is_some_and(|owner| !viewer.sees(owner));
        Ok(Self::of_visit(&visit, limits, foreign).await)
    }

    /// Its user; none for everybody.
    pub(super) fn uid(self) -> Option<u32> {
        self.uid
    }

    /// Whether it sees the tasks of the user `owner`.
    pub(super) fn sees(self, owner: u32) -> bool {
        self.all || self.uid == Some(owner)
    }

    /// Whether it sees the tasks of all users.
    pub(super) fn sees_all(self) -> bool {
        self.all
    }

    /// A text of the engine, without names that it may not see.
    pub(super) fn text(self, text: &str) -> String {
        let text = &escape(text);
        if self.all {
            return names::show_all(text);
        }
        // No user has this number.
        let plain = self.uid.unwrap_or(u32::MAX);
        names::show(text, plain, |owner| self.sees(owner))
    }

    /// A refusal, likewise.
    pub(super) fn error(self, error: Error) -> Error {
        match error {
            Error::NotSchedulable(text) => Error::NotSchedulable(self.text(&text)),
            error => error,
        }
    }

    /// The properties of a task that it sees.
    pub(super) fn task_values(self, task: &TaskProperties) -> Values {
        let mut values = task.to_wire();
        if self.sees(task.user_id) {
            let texts = texts(task).into_iter().filter(|(_, text)| !text.is_empty());
            values.extend(texts.map(|(name, text)| (name, self.text(text).into())));
        } else {
            values.retain(|name, _| TaskProperties::is_public(name));
        }
        values
    }

    /// What changed of a task since `before` and is announced: the values that it sees, and the names of the
    /// others.
    pub(super) fn task_changes(
        self,
        task: &TaskProperties,
        before: &TaskProperties,
    ) -> (HashMap<&'static str, Variant<'static>>, Vec<&'static str>) {
        let mut changes = task.changes(before);
        if self.sees(task.user_id) {
            for (name, text) in texts(task) {
                if let Some(value) = changes.get_mut(name) {
                    *value = self.text(text).into();
                }
            }
            return (changes, Vec::new());
        }
        let hidden = changes.keys().copied();
        let hidden = hidden.filter(|name| !TaskProperties::is_public(name));
        let hidden = hidden.collect();
        changes.retain(|name, _| TaskProperties::is_public(name));
        (changes, hidden)
    }

    /// The properties of a GPU as it sees them.
    pub(super) fn gpu_values(self, gpu: &GpuProperties, snapshot: &Snapshot) -> Values {
        let mut values = gpu.to_wire();
        if running(gpu, snapshot).is_some_and(|owner| !self.sees(owner)) {
            let other = ObjectPath::from_static_str_unchecked(rtswap_dbus::OTHER_TASK_PATH);
            values.insert("RunningTask", other.into());
        }
        values
    }
}

/// The engine's texts about a task, by the names of their properties.
fn texts(task: &TaskProperties) -> [(&'static str, &str); 3] {
    [
        ("Waits", &task.waits),
        ("LastDeadlineMiss", &task.last_deadline_miss),
        ("LastViolation", &task.last_violation),
    ]
}

/// The user of the task that runs on a GPU.
pub(super) fn running(gpu: &GpuProperties, snapshot: &Snapshot) -> Option<u32> {
    let id = rtswap_dbus::task_id(gpu.running_task.as_str())?;
    Some(snapshot.tasks.get(&id)?.user_id)
}
