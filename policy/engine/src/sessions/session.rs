//! One agent with its process, and all of them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use super::BlockReader;
use crate::groups::ProcessId;
use crate::ids::{ConnectionId, Cookie, RegistrationId};
use crate::input::{Block, Peer};
use crate::owners::Owner;

/// Names a session: that of one process of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId {
    pub(crate) registration: RegistrationId,
    pub(crate) process: ProcessId,
}

impl SessionId {
    pub(crate) fn new(registration: RegistrationId, process: ProcessId) -> Self {
        Self {
            registration,
            process,
        }
    }
}

/// What one session is on one GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device {
    /// Its task; none before the agent did anything on this GPU.
    pub(crate) task: Option<TaskId>,
    /// How far its block has been read.
    pub(crate) reader: BlockReader,
    /// The block as it was read last.
    pub(crate) block: Block,
    /// The budget that its page holds, in bytes; before it is told one, that of its page before.
    pub(crate) held: Bytes,
    /// Its agent says more than that, and no other witness shows it.
    pub(crate) is_unproven: bool,
}

/// A process with an agent, from its first Hello to its death.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) peer: Peer,
    pub(crate) owner: Owner,
    pub(crate) cookie: Cookie,
    /// The connection that it has, or had last.
    pub(crate) connection: ConnectionId,
    /// Whether the agent can be talked to.
    pub(crate) is_connected: bool,
    /// When its process said Hello first.
    pub(crate) began: Time,
    /// Since when its process has not left a GPU or a copy engine that it had to leave.
    pub(crate) undrained_since: Option<Time>,
    /// Since when its process has no connection; none too once it was said that it keeps memory from realtime.
    pub(crate) lost_since: Option<Time>,
    /// Its connection was lost when its process was to swap out beside realtime.
    pub(crate) has_dodged: bool,
    /// How often it came back after that.
    pub(crate) dodges: u32,
    /// Since when its process is stopped, as far as was looked.
    pub(crate) stopped_since: Option<Time>,
    /// When its agent was last told why the process waits.
    pub(crate) notified: Option<Time>,
    /// When its agent was last told why memory is refused to it, and what.
    pub(crate) refused: Option<(Time, String)>,
    /// By the GPUs' indices; GPUs that are learned later are not in its page.
    pub(crate) devices: Vec<Device>,
}

impl Session {
    /// The bytes that the agent says its process holds on a GPU.
    pub(crate) fn reported(&self, gpu: usize) -> Bytes {
        self.devices.get(gpu).map_or(Bytes::ZERO, |device| {
            if self.is_connected {
                device.block.usage.resident
            } else {
                device.reader.usage().resident
            }
        })
    }
}

/// All sessions, by registration and process, by connection and by pid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    all: BTreeMap<SessionId, Session>,
    by_connection: BTreeMap<ConnectionId, SessionId>,
    by_pid: BTreeSet<(u32, SessionId)>,
    /// How many sessions each owner has.
    counts: BTreeMap<Owner, usize>,
}

impl Sessions {
    /// Takes one in, in the place of the one of the same name.
    pub(crate) fn insert(&mut self, id: SessionId, session: Session) {
        self.remove(id);
        self.by_connection.insert(session.connection, id);
        self.by_pid.insert((session.peer.pid, id));
        *self.counts.entry(session.owner.clone()).or_default() += 1;
        self.all.insert(id, session);
    }

    pub(crate) fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.all.remove(&id)?;
        self.by_connection.remove(&session.connection);
        self.by_pid.remove(&(session.peer.pid, id));
        if let Some(count) = self.counts.get_mut(&session.owner) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&session.owner);
            }
        }
        Some(session)
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.all.get_mut(&id)
    }

    /// The session that has, or had last, this connection.
    pub(crate) fn of_connection(&self, connection: ConnectionId) -> Option<SessionId> {
        self.by_connection.get(&connection).copied()
    }

    /// The sessions of a registration, the oldest process first.
    pub(crate) fn of(
        &self,
        registration: RegistrationId,
    ) -> impl Iterator<Item = (SessionId, &Session)> {
        let at = |process| SessionId::new(registration, process);
        let all = at(ProcessId(0))..=at(ProcessId(u64::MAX));
        self.all.range(all).map(|(id, session)| (*id, session))
    }

    /// As [`Self::of`].
    pub(crate) fn of_mut(
        &mut self,
        registration: RegistrationId,
    ) -> impl Iterator<Item = &mut Session> {
        let at = |process| SessionId::new(registration, process);
        let all = at(ProcessId(0))..=at(ProcessId(u64::MAX));
        self.all.range_mut(all).map(|(_, session)| session)
    }

    /// The sessions of a process: it may have several, of several tasks.
    pub(crate) fn of_pid(&self, pid: u32) -> impl Iterator<Item = (SessionId, &Session)> {
        let id = |number| SessionId::new(RegistrationId(number), ProcessId(number));
        let all = (pid, id(0))..=(pid, id(u64::MAX));
        let ids = self.by_pid.range(all);
        ids.filter_map(|(_, id)| Some((*id, self.all.get(id)?)))
    }

    /// How many sessions an owner has, and how many there are.
    pub(crate) fn count(&self, owner: &Owner) -> (usize, usize) {
        let own = self.counts.get(owner).copied().unwrap_or_default();
        (own, self.all.len())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.all.iter().map(|(id, session)| (*id, session))
    }
}
