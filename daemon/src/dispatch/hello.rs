//! From a connection to a session.

use std::os::fd::OwnedFd;

use rtswap_policy::scheduler::{JobKind, OpenJob};
use rtswap_policy::task::{Class, TaskId};
use rtswap_policy::units::{Bytes, Time};
use rtswap_wire::doorbell::Cookie;
use rtswap_wire::hello::{Hello, ReplyCode};

use super::run::Token;
use super::{Dispatcher, SessionId};
use crate::agent::listener::{Pending, Spoken, refuse};
use crate::agent::session::{Session, Terms, random_cookie};
use crate::config::Uuid;
use crate::members::{MAX_MEMBERS, MemberId};
use crate::registry::{Declaration, Origin, RegistrationId};
use crate::source::agents::DeviceView;
use crate::sys::peer::{self, has_ended};
use crate::sys::poll::Watch;
use crate::sys::signal::BellThread;

/// New connections that are taken before others have their turn.
const ACCEPTED_AT_ONCE: u32 = 4;

/// Why a Hello is not welcome.
struct Refusal(ReplyCode, String);

impl Dispatcher {
    /// Takes some of the connections that wait. The others wake the thread again: who connects as
    /// fast as it can takes its turn like everybody else.
    pub(super) fn accept(&mut self, now: Time) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let connection = self.next_connection;
            let Some(socket) = self.listener.accept(connection, now) else {
                return;
            };
            self.next_connection += 1;
            let token = Token::Socket(connection);
            if let Err(error) = self.poll.add(socket, token.into(), Watch::Readable) {
                tracing::error!(%error, "cannot watch an agent's connection");
            }
        }
    }

    /// Something came on a connection, or its end.
    pub(super) fn socket_ready(&mut self, connection: u64, now: Time) {
        if let Some(&id) = self.connections.get(&connection) {
            // After the Hello an agent says nothing: whatever comes, its end or noise, ends it.
            let current = self.sessions.get(&id);
            if current.is_some_and(|session| session.connection == Some(connection)) {
                self.connection_ended(id, now);
            }
            return;
        }
        let Spoken::Hello(hello, thread, pending) = self.listener.hear(connection, now) else {
            return;
        };
        let (pid, uid) = (pending.peer.pid, pending.peer.uid);
        for device in &hello.devices {
            if device.uuid != [0; 16] {
                self.learn_gpu(Uuid::of(device.uuid), Bytes(device.memory_bytes), now);
            }
        }
        match self.find_registration(&hello, &pending, now) {
            Ok((registration, member, cookie)) => {
                let id = (registration, member.unwrap_or(MemberId(connection)));
                if let Err(error) =
                    self.welcome(connection, id, cookie, &hello, thread, pending, now)
                {
                    tracing::error!(pid, uid, %error, "cannot start a session");
                    let ours = self.registry.get(registration);
                    if ours.is_some_and(|entry| matches!(entry.origin, Origin::Session)) {
                        self.end_registration(registration, now);
                    }
                }
            }
            Err(Refusal(code, text)) => {
                if self.complaints.allows(now) {
                    tracing::warn!(pid, uid, "refused: {text}");
                }
                refuse(&pending.socket, code, &text);
            }
        }
    }

    /// The registration that a Hello is for, which of its processes that is, if it is known, and the
    /// cookie that its session gets.
    fn find_registration(
        &mut self,
        hello: &Hello,
        pending: &Pending,
        now: Time,
    ) -> Result<(RegistrationId, Option<MemberId>, Cookie), Refusal> {
        let uid = pending.peer.uid;
        let own = RegistrationId(hello.registration);
        if hello.registration != 0
            && let Some(entry) = self.registry.get(own)
        {
            let (cookie, pid) = (Cookie(hello.cookie), pending.peer.pid);
            let is = |session: &Session| (session.cookie, session.peer.pid) == (cookie, pid);
            let member = self.sessions_of(own).find(|(_, session)| is(session));
            let member = member.map(|((_, member), _)| member);
            let same_user = entry.uid == uid;
            if same_user && (member.is_some() || self.recovery.knows(own, cookie, pid)) {
                return Ok((own, member, cookie));
            }
            let half = |session: &Session| session.cookie == cookie || session.peer.pid == pid;
            if self.sessions_of(own).any(|(_, session)| half(session))
                || self.recovery.half_knows(own, cookie, pid)
            {
                let text = format!("registration {} belongs to another session", own.0);
                return Err(Refusal(ReplyCode::Claim, text));
            }
            // A daemon that was killed before it had written the number down: the next one has
            // given it to somebody else. The agent begins anew.
        }
        let cookie = random_cookie().map_err(|error| {
            Refusal(
                ReplyCode::Busy,
                format!("no random numbers to be had: {error}"),
            )
        })?;
        self.end_former_image(pending.peer.pid, now);
        let registration = match hello.task_name() {
            Some(name) => self.claim(name, pending, now)?,
            None => self.own_registration(pending)?,
        };
        Ok((registration, None, cookie))
    }

    /// A process that lost its session and comes without its cookie has executed another program:
    /// what it held went with the one before.
    fn end_former_image(&mut self, pid: u32, now: Time) {
        let former = self
            .sessions
            .iter()
            .find(|(_, session)| session.peer.pid == pid && !session.is_connected());
        if let Some((&id, _)) = former {
            self.process_ended(id, now);
        }
    }

    fn claim(
        &mut self,
        name: &str,
        pending: &Pending,
        now: Time,
    ) -> Result<RegistrationId, Refusal> {
        let uid = pending.peer.uid;
        let refused = |text| Err(Refusal(ReplyCode::Claim, text));
        let Some(id) = self.registry.find(uid, name) else {
            return refused(format!(
                "no task named {name} is registered for user {uid}; register it first (rtswapctl \
                 run --name {name} does both)"
            ));
        };
        let ended = self.sessions_of(id);
        let ended = ended.filter(|(_, session)| has_ended(&session.peer.pidfd));
        let ended: Vec<_> = ended.map(|(session, _)| session).collect();
        for session in ended {
            self.process_ended(session, now);
        }
        let (pid, mut others) = (pending.peer.pid, 0);
        for (_, session) in self.sessions_of(id) {
            if session.peer.pid == pid {
                return refused(format!(
                    "pid {pid} has a session of task {name} already; end the process or take \
                     another name"
                ));
            }
            others += 1;
        }
        if others >= MAX_MEMBERS {
            return refused(format!(
                "task {name} has {others} processes, which is the most; end some or take another \
                 name"
            ));
        }
        let Some(entry) = self.registry.get_mut(id) else {
            return refused(format!("task {name} has just ended; register it again"));
        };
        if let Some(process) = &entry.process
            && peer::pidfd_id(process) != Some(pending.peer.pid)
        {
            return refused(format!(
                "task {name} was registered for another process; this is pid {}",
                pending.peer.pid
            ));
        }
        entry.claim_until = None;
        Ok(id)
    }

    /// A best-effort task of the process's own.
    fn own_registration(&mut self, pending: &Pending) -> Result<RegistrationId, Refusal> {
        let peer = &pending.peer;
        let mut name = format!("{}-{}", peer.comm, peer.pid);
        if self.registry.find(peer.uid, &name).is_some() {
            name = format!("{name}-{}", self.registry.next());
        }
        let busy = |text| Refusal(ReplyCode::Busy, text);
        self.registry
            .admits(peer.uid, &name)
            .map_err(|error| busy(error.to_string()))?;
        let checked = Declaration::best_effort(name).check().map_err(busy)?;
        let entry = self.registry.add(peer.uid, checked, None, Origin::Session);
        Ok(entry.id)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what a connection has become, taken apart"
    )]
    fn welcome(
        &mut self,
        connection: u64,
        id: SessionId,
        cookie: Cookie,
        hello: &Hello,
        thread: Option<OwnedFd>,
        pending: Pending,
        now: Time,
    ) -> rustix::io::Result<()> {
        let Pending { socket, peer, .. } = pending;
        let registration = id.0;
        let gpus = self.gpus.len();
        let mut session = Session::new(peer, socket, cookie, gpus)?;
        session.connection = Some(connection);
        session.page().init(self.epoch);
        for (block, gpu) in session.page().devices().iter().zip(&self.gpus) {
            let (chunk, capacity) = (gpu.config.chunk.0, gpu.config.capacity.0);
            block.daemon.describe(gpu.uuid.bytes(), chunk, capacity);
        }
        let entry = self.registry.get(registration);
        let home = entry.and_then(|entry| entry.gpu);
        let kind = match entry.map(|entry| entry.class) {
            Some(Class::Realtime(_)) => JobKind::Declared,
            Some(Class::BestEffort) | None => JobKind::Implicit,
        };
        let mut attached = Vec::new();
        for gpu in 0..gpus {
            let uuid = self.gpus[gpu].uuid;
            let state = hello
                .devices
                .iter()
                .find(|device| device.uuid == uuid.bytes());
            let state = state.copied().unwrap_or_default();
            let known = self.task_on(registration, gpu).is_some();
            if !known && home != Some(uuid) && !DeviceView::is_active(&state) {
                continue;
            }
            let view = DeviceView::resume(&state, kind);
            if let Some((job, _)) = view.running() {
                session.block(gpu).daemon.grant(job.0);
            }
            session.devices[gpu].view = view;
            attached.push(gpu);
        }
        // The cookie first: a doorbell before it would be the program's own signal.
        session.welcome(
            registration.0,
            Terms {
                orphan_timeout_ms: self.config.daemon.orphan_timeout_ms(),
                idle_gap_us: self.config.daemon.idle_gap_us(),
                drain_bound_ms: self.config.daemon.drain_bound_ms(),
                max_in_flight: self.config.daemon.max_in_flight,
            },
        )?;
        // What takes longer is for afterwards: the program waits for its Welcome.
        let thread = bell_thread(thread, session.peer.pid, hello.tid);
        if thread.is_none() {
            tracing::warn!(
                pid = session.peer.pid,
                "its swap thread is not one of its own: no signals, only the futex"
            );
        }
        session.learn(thread);
        let bell = Token::Bell(connection).into();
        self.poll.add(session.eventfd(), bell, Watch::Edge)?;
        let process = Token::Process(connection).into();
        self.poll
            .add(&session.peer.pidfd, process, Watch::Readable)?;
        self.connections.retain(|_, owner| *owner != id);
        if let Some(former) = self.sessions.get(&id) {
            self.poll.remove(former.eventfd());
        }
        self.connections.insert(connection, id);
        tracing::info!(
            task = self.registration_name(registration),
            pid = session.peer.pid,
            uid = session.peer.uid,
            "session"
        );
        let cookie = session.cookie;
        self.sessions.insert(id, session);
        self.recovery.is_back(registration, cookie);
        self.unsaved = true;
        self.unpublished = true;
        for gpu in attached {
            self.attach(id, gpu, now);
        }
        // It may have written before the eventfd was watched.
        self.read_pages(id, now, false);
        Ok(())
    }

    /// Makes a process one of its task on a GPU, with what its Hello said of it.
    pub(super) fn attach(&mut self, id: SessionId, gpu: usize, now: Time) -> Option<TaskId> {
        let task = self.ensure_task(id.0, gpu, now)?;
        let device = &mut self.sessions.get_mut(&id)?.devices[gpu];
        device.task = Some(task);
        let (usage, backing) = (device.view.usage(), device.view.backing());
        let open = device.view.running().map(|(job, kind)| OpenJob {
            job,
            running: true,
            kind,
        });
        let joined = self.members(task)?.attach(now, id.1, usage, backing, open);
        // Also where it was refused: it may have had a session that ends with that.
        let taken = self.feed_members(gpu, task, now);
        let Err(error) = joined.and(taken) else {
            return Some(task);
        };
        tracing::warn!(task = id.0.0, gpu, "senseless Hello: {error}");
        self.members(task)?.refuse(id.1);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.devices[gpu].task = None;
        }
        self.connection_ended(id, now);
        None
    }
}

/// Where doorbells go. A thread that is not the peer's own is not rung: it would be hit by a signal
/// that its program does not expect.
fn bell_thread(thread: Option<OwnedFd>, pid: u32, tid: u32) -> Option<BellThread> {
    if let Some(thread) = thread {
        peer::thread_of(&thread, pid)?;
        return Some(BellThread::Pidfd(thread));
    }
    let tid = peer::thread_by_own_id(pid, tid)?;
    Some(BellThread::Ids { pid, tid })
}
