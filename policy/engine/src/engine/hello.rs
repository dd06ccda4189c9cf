//! From a Hello to a session.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rtswap_policy::scheduler::{JobKind, Usage};
use rtswap_policy::units::Bytes;

use super::Engine;
use super::journal::saved_session;
use super::work::{Chore, Work};
use crate::Uuid;
use crate::groups::{MAX_PROCESSES, ProcessId};
use crate::ids::{ConnectionId, Cookie, RegistrationId};
use crate::input::{Claimant, DeviceState, Hello, Peer};
use crate::output::{BlockSetup, Level, LogLine, Output, RefusalCode, Welcome};
use crate::registry::{Origin, Registration, TaskOptions};
use crate::sessions::{BlockReader, Device, Session, SessionId};

/// A session that begins once its Welcome is sent.
#[derive(Debug)]
pub(super) struct Arrival {
    id: SessionId,
    session: Session,
    /// The lost connection of the same session, or the number of the awaited process.
    former: Option<ConnectionId>,
    /// The GPUs on which the process joins its task at once.
    attached: Vec<usize>,
}

/// The reason why a Hello is not welcome, for the agent and for people.
struct Refusal(RefusalCode, String);

/// What a Hello's claim to a former session is worth.
enum Resumption {
    /// It makes none, or to one that nobody knows: it begins anew.
    New,
    /// It is the session that it names.
    Same(Seat),
    /// It fits in part only.
    Foreign(RegistrationId),
}

/// The place that a session takes.
struct Seat {
    id: SessionId,
    cookie: Cookie,
    /// As [`Arrival::former`].
    former: Option<ConnectionId>,
}

impl Engine {
    /// Takes a Hello in. It is answered once no GPU has work: what its process was before may have to go
    /// first.
    pub(super) fn greet(&mut self, hello: Box<Hello>) {
        for device in &hello.devices {
            if device.uuid != [0; 16] {
                self.learn_gpu(Uuid::of(device.uuid), device.memory);
            }
        }
        if matches!(self.resumption(&hello), Resumption::New) {
            self.end_former_image(hello.peer.pid);
        }
        self.chore(Chore::Greet(hello));
    }

    /// A process that lost its sessions and comes without a secret has executed another program: what it
    /// held went with the one before.
    fn end_former_image(&mut self, pid: u32) {
        let sessions = self.sessions.of_pid(pid);
        let lost = sessions.filter(|(_, session)| !session.is_connected);
        let lost: Vec<_> = lost.map(|(id, _)| id).collect();
        for id in lost {
            self.process_ended(id, false);
        }
        let awaited: Vec<_> = self.recovery.of_pid(pid).collect();
        for connection in awaited {
            self.awaited_ended(connection);
        }
    }

    fn resumption(&self, hello: &Hello) -> Resumption {
        let Some((registration, cookie)) = hello.resumes else {
            return Resumption::New;
        };
        let Some(entry) = self.registry.get(registration) else {
            return Resumption::New;
        };
        let pid = hello.peer.pid;
        let mut sessions = self.sessions.of(registration);
        let same = |it: &Session| (it.cookie, it.peer.pid) == (cookie, pid);
        let session = sessions.find(|(_, session)| same(session));
        let session = session.map(|(id, session)| (id.process, session.connection));
        let process = ProcessId(hello.connection.0);
        let awaited = self.recovery.find(registration, cookie, pid);
        let known = session.or_else(|| Some((process, awaited?)));
        if entry.uid == hello.peer.uid
            && let Some((process, former)) = known
        {
            let id = SessionId {
                registration,
                process,
            };
            return Resumption::Same(Seat {
                id,
                cookie,
                former: Some(former),
            });
        }
        let half = |it: &Session| it.cookie == cookie || it.peer.pid == pid;
        let mut sessions = self.sessions.of(registration);
        if sessions.any(|(_, session)| half(session))
            || self.recovery.half_knows(registration, cookie, pid)
        {
            return Resumption::Foreign(registration);
        }
        // The daemon before was killed before the number was kept, and the next one has given it to
        // another task.
        Resumption::New
    }

    /// Answers a Hello with a Welcome or a refusal.
    pub(super) fn admit(&mut self, hello: Box<Hello>) {
        match self.find_seat(&hello) {
            Ok(seat) => self.welcome(*hello, &seat),
            Err(Refusal(code, text)) => {
                let peer = &hello.peer;
                let line = format!("refused a process of user {}: {text}", peer.uid);
                self.complain(LogLine::new(Level::Warn, line).pid(peer.pid));
                let connection = hello.connection;
                self.emit(Output::Refuse {
                    connection,
                    code,
                    text,
                });
            }
        }
    }

    fn find_seat(&mut self, hello: &Hello) -> Result<Seat, Refusal> {
        match self.resumption(hello) {
            Resumption::Same(seat) => return Ok(seat),
            Resumption::Foreign(RegistrationId(number)) => {
                let text = format!("registration {number} belongs to another session");
                return Err(Refusal(RefusalCode::Claim, text));
            }
            Resumption::New => {}
        }
        let registration = match &hello.name {
            Some(name) => self.claim(name, &hello.peer)?,
            None => self.own_registration(&hello.peer)?,
        };
        let id = SessionId {
            registration,
            process: ProcessId(hello.connection.0),
        };
        Ok(Seat {
            id,
            cookie: hello.cookie,
            former: None,
        })
    }

    fn claim(&mut self, name: &str, peer: &Peer) -> Result<RegistrationId, Refusal> {
        let (uid, pid) = (peer.uid, peer.pid);
        let refused = |text| Err(Refusal(RefusalCode::Claim, text));
        let entry = self
            .registry
            .find(uid, name)
            .and_then(|id| self.registry.get(id));
        let Some(entry) = entry else {
            return refused(format!(
                "no task named {name} is registered for user {uid}; register it first (rtswapctl \
                 run --name {name} does both)"
            ));
        };
        let id = entry.id;
        if self
            .sessions
            .of(id)
            .any(|(_, session)| session.peer.pid == pid)
        {
            return refused(format!(
                "pid {pid} has a session of task {name} already; end the process or take another \
                 name"
            ));
        }
        let others = self.sessions.of(id).count();
        if others >= MAX_PROCESSES {
            return refused(format!(
                "task {name} has {others} processes, which is the most; end some or take another \
                 name"
            ));
        }
        let is_other = |it: Claimant| (it.pid, it.start_ticks) != (pid, peer.start_ticks);
        if entry.claimant.is_some_and(is_other) {
            return refused(format!(
                "task {name} was registered for another process; this is pid {pid}"
            ));
        }
        self.set_claim_until(id, None);
        Ok(id)
    }

    /// Registers a best-effort task of the process's own.
    fn own_registration(&mut self, peer: &Peer) -> Result<RegistrationId, Refusal> {
        let mut name = format!("{}-{}", peer.comm, peer.pid);
        if self.registry.find(peer.uid, &name).is_some() {
            name = format!("{name}-{}", self.registry.next());
        }
        let busy = |text| Refusal(RefusalCode::Busy, text);
        let admitted = self.registry.admits(peer.uid, &name);
        admitted.map_err(|error| busy(error.to_string()))?;
        let task = TaskOptions::best_effort(name).check().map_err(busy)?;
        let id = self.registry.add(peer.uid, task, Origin::Session).id;
        self.journal.note_registration(id);
        Ok(id)
    }

    /// Gives the Welcome, after the record of what it begins.
    fn welcome(&mut self, hello: Hello, seat: &Seat) {
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
            let mut device = Device::default();
            if has_task || home == Some(uuid) || is_active(&state) {
                attached.push(at);
                device.reader = BlockReader::resume(&state, kind);
            }
            blocks.push(BlockSetup {
                uuid,
                chunk: gpu.config.chunk,
                capacity: gpu.config.capacity,
                granted: device.reader.running().map(|(job, _)| job),
            });
            devices.push(device);
        }
        let session = Session {
            peer: hello.peer,
            cookie: seat.cookie,
            connection,
            is_connected: true,
            devices,
        };
        let arrival = Arrival {
            id,
            session,
            former: seat.former,
            attached,
        };
        if seat.former.is_none() {
            self.journal
                .note_session(saved_session(id, &arrival.session));
        }
        self.desk.arrival = Some(arrival);
        self.emit_record();
        self.emit(Output::Welcome(Box::new(Welcome {
            connection,
            former: seat.former,
            registration: id.registration,
            cookie: seat.cookie,
            blocks,
        })));
    }

    /// The Welcome was sent, or could not be.
    pub(super) fn welcomed(&mut self, sent: bool) {
        let Some(arrival) = self.desk.arrival.take() else {
            return;
        };
        self.note_change();
        if sent {
            self.begin_session(arrival);
        } else {
            self.cancel_session(&arrival);
        }
    }

    fn begin_session(&mut self, arrival: Arrival) {
        let Arrival {
            id,
            session,
            former,
            attached,
        } = arrival;
        let peer = &session.peer;
        let again = if former.is_some() { " again" } else { "" };
        let text = format!("a process of user {} has a session{again}", peer.uid);
        let line = LogLine::new(Level::Info, text).pid(peer.pid);
        let line = line.task(self.registration_name(id.registration));
        self.log(line);
        self.sessions.insert(id, session);
        for gpu in attached {
            let task = self.ensure_task(id.registration, gpu);
            if let Some(session) = self.sessions.get_mut(id) {
                session.devices[gpu].task = task;
            }
            if task.is_some() {
                self.queue(gpu, Work::Attach(id));
            }
        }
        // Last: what it holds is taken in before requests are.
        if let Some(former) = former {
            self.stop_awaiting(former);
        }
    }

    /// The process never heard of its session: a new one has not been.
    fn cancel_session(&mut self, arrival: &Arrival) {
        let id = arrival.id.registration;
        let text = "the agent cannot be answered: its connection or a page of memory is lacking";
        let line = LogLine::new(Level::Error, text).pid(arrival.session.peer.pid);
        let line = line.task(self.registration_name(id));
        self.log(line);
        self.emit(Output::Forget(arrival.session.connection));
        if arrival.former.is_none() {
            self.journal.note_session_left(arrival.session.cookie);
            self.process_gone(id);
        }
    }
}

/// Whether an agent that says this is, or was, active on the GPU.
fn is_active(state: &DeviceState) -> bool {
    let held = state.usage != Usage::default() || state.backing > Bytes::ZERO;
    held || state.requested != 0
}
