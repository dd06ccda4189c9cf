//! From a Welcome to a session: it begins once the Welcome is sent, and its record comes before.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{JobKind, Usage};
use rtswap_policy::units::Bytes;

use super::Engine;
use crate::ids::{ConnectionId, Cookie};
use crate::input::{DeviceState, Hello};
use crate::output::{BlockSetup, Level, Output, Welcome};
use crate::registry::Registration;
use crate::sample::CgroupSample;
use crate::sessions::{BlockReader, Device, Session, SessionId};

/// The place that a session takes.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) id: SessionId,
    pub(super) cookie: Cookie,
    /// The lost connection of the same session, or the number of the awaited process.
    pub(super) former: Option<ConnectionId>,
}

/// A session that begins once its Welcome is sent.
#[derive(Debug)]
pub(super) struct Arrival {
    seat: Seat,
    session: Session,
    /// The GPUs on which the process joins its task at once.
    attached: Vec<usize>,
    /// Those that the process is in, and what it brings pinned memory of.
    cgroups: Vec<CgroupSample>,
    pinned: Bytes,
}

impl Engine {
    /// Gives the Welcome, after the record of what it begins.
    pub(super) fn welcome(&mut self, hello: Hello, seat: Seat) {
        let (id, connection) = (seat.id, hello.connection);
        let entry = self.registry.get(id.registration);
        let home = entry.and_then(|entry| entry.gpu);
        // Hello does not tell the kind of an open job.
        let kind = if entry.is_some_and(Registration::is_realtime) {
            JobKind::Declared
        } else {
            JobKind::Implicit
        };
        let mut attached = Vec::new();
        let mut blocks = Vec::with_capacity(self.gpus.len());
        let mut devices = Vec::with_capacity(self.gpus.len());
        for (at, gpu) in self.gpus.iter().enumerate() {
            let uuid = gpu.uuid;
            let mut states = hello.devices.iter();
            let state = states.find(|state| state.uuid == uuid.bytes());
            let state = state.copied().unwrap_or_default();
            let has_task = self.tasks.on(id.registration, at).is_some();
            let mut device = Device {
                held: self.inherited(&seat, at),
                ..Device::default()
            };
            if has_task || home == Some(uuid) || is_active(&state) {
                attached.push(at);
                device.reader = BlockReader::resume(&state, kind);
            }
            blocks.push(BlockSetup {
                uuid,
                chunk: gpu.config.chunk,
                capacity: gpu.config.capacity,
                granted: device.reader.running().map(|open| open.job),
            });
            devices.push(device);
        }
        let pinned = hello.devices.iter().map(|device| device.backing).sum();
        let session = Session {
            owner: self.owner(&hello.peer),
            peer: hello.peer,
            cookie: seat.cookie,
            connection,
            is_connected: true,
            began: self.now,
            undrained_since: None,
            lost_since: None,
            has_dodged: false,
            dodges: 0,
            stopped_since: None,
            notified: None,
            refused: None,
            devices,
        };
        if seat.former.is_none() {
            self.unrecorded
                .note_session(self.saved_session(id, &session));
        }
        self.emit_record();
        self.emit(Output::Welcome(Box::new(Welcome {
            connection,
            former: seat.former,
            registration: id.registration,
            cookie: seat.cookie,
            blocks,
        })));
        self.desk.arrival = Some(Arrival {
            seat,
            session,
            attached,
            cgroups: hello.cgroups,
            pinned,
        });
    }

    /// The budget that a session had on a GPU under its connection before, or under the daemon before.
    fn inherited(&self, seat: &Seat, gpu: usize) -> Bytes {
        let Some(former) = seat.former else {
            return Bytes::ZERO;
        };
        if let Some(session) = self.sessions.get(seat.id) {
            return session.devices.get(gpu).map_or(Bytes::ZERO, |it| it.held);
        }
        let mut awaited = self.recovery.of(seat.id.registration);
        let awaited = awaited.find(|(connection, _)| *connection == former);
        awaited.map_or(Bytes::ZERO, |(_, session)| {
            session.budget(self.gpus[gpu].uuid)
        })
    }

    pub(super) fn welcomed(&mut self, sent: bool) {
        let Some(arrival) = self.desk.arrival.take() else {
            return;
        };
        let Arrival {
            seat: Seat { id, former, .. },
            session,
            attached,
            cgroups,
            pinned,
        } = arrival;
        let peer = &session.peer;
        self.note_change();
        if !sent {
            let text = "cannot begin a session: the connection, descriptors or memory are lacking";
            let line = self.line(Level::Error, id.registration, text);
            self.log(line.pid(peer.pid));
            self.emit(Output::Forget(session.connection));
            if former.is_none() {
                // The process may have heard of its session, and comes back as a new one.
                self.unrecorded.note_session_left(session.cookie);
                self.process_gone(id.registration);
            }
            return;
        }
        let again = if former.is_some() { " again" } else { "" };
        let text = format!("a process of user {} has a session{again}", peer.uid);
        let line = self.line(Level::Info, id.registration, text);
        self.log(line.pid(peer.pid));
        let mut session = session;
        let mut has_dodged = false;
        if let Some(before) = self.sessions.get(id) {
            // To come back ends no offence, and no limit of what is told.
            session.began = before.began;
            session.notified = before.notified;
            session.refused.clone_from(&before.refused);
            session.dodges = before.dodges + u32::from(before.has_dodged);
            has_dodged = before.has_dodged;
            if before.undrained_since.is_some() {
                let (owner, uid) = (before.owner.clone(), before.peer.uid);
                self.note_end_undrained(&owner, uid);
            }
        }
        self.sessions.insert(id, session);
        if has_dodged {
            self.note_dodge(id);
        }
        // Before it is told to pin anything.
        self.cgroups.enter(id, cgroups, pinned);
        for gpu in attached {
            self.join_task(id, gpu);
        }
        // Last: what it holds is taken in before requests are.
        if let Some(former) = former {
            self.stop_awaiting(former);
        }
    }
}

/// Whether an agent that says this is, or was, active on the GPU.
fn is_active(state: &DeviceState) -> bool {
    let held = state.usage != Usage::default() || state.backing > Bytes::ZERO;
    held || state.requested != 0
}
