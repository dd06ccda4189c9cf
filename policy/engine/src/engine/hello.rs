//! From a Hello to the place of its session: one from before, a claimed task or a task of its own.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Engine;
use super::agenda::Chore;
use super::welcome::Seat;
use crate::groups::{MAX_PROCESSES, ProcessId};
use crate::ids::{Claimant, RegistrationId};
use crate::input::{Hello, Peer};
use crate::output::{Level, LogLine, Output, RefusalCode};
use crate::owners::{Owner, has_room};
use crate::registry::{Origin, Registration, TaskOptions};
use crate::sessions::SessionId;
use crate::timers::Timer;

/// The reason why a Hello is not welcome, for the agent and for people.
struct Refusal(RefusalCode, String);

impl Engine {
    /// Takes a Hello in. It is answered once no GPU has work: what its process was before may have to go
    /// first.
    pub(super) fn greet(&mut self, hello: Box<Hello>) {
        if matches!(self.resumption(&hello), Ok(None)) {
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
        let awaited = self.recovery.awaited();
        let awaited = awaited.filter(|(_, session)| session.pid == pid);
        let awaited: Vec<_> = awaited.map(|(connection, _)| connection).collect();
        for connection in awaited {
            self.awaited_ended(connection);
        }
    }

    /// The place of the session that a Hello names; none where it names none or an unknown one, so that
    /// a new one begins.
    fn resumption(&self, hello: &Hello) -> Result<Option<Seat>, Refusal> {
        let Some((registration, cookie)) = hello.resumes else {
            return Ok(None);
        };
        let Some(entry) = self.registry.get(registration) else {
            return Ok(None);
        };
        let sessions = self.sessions.of(registration);
        let sessions = sessions.map(|(id, it)| (id.process, it.connection, it.cookie, it.peer.pid));
        let awaited = self.recovery.of(registration);
        let process = ProcessId(hello.connection.0);
        let awaited = awaited.map(|(connection, it)| (process, connection, it.cookie, it.pid));
        let mut is_foreign = false;
        for (process, former, its_cookie, its_pid) in sessions.chain(awaited) {
            let (has_cookie, has_pid) = (its_cookie == cookie, its_pid == hello.peer.pid);
            if has_cookie && has_pid && entry.uid == hello.peer.uid {
                return Ok(Some(Seat {
                    id: SessionId::new(registration, process),
                    cookie,
                    former: Some(former),
                }));
            }
            is_foreign |= has_cookie || has_pid;
        }
        if is_foreign {
            let text = format!("registration {} belongs to another session", registration.0);
            return Err(Refusal(RefusalCode::Claim, text));
        }
        // The daemon before was killed before the number was kept, and the next one has given it to
        // another task.
        Ok(None)
    }

    pub(super) fn admit(&mut self, hello: Box<Hello>) {
        match self.find_seat(&hello) {
            Ok(seat) => self.welcome(*hello, seat),
            Err(Refusal(code, text)) => {
                let peer = &hello.peer;
                let line = format!("refused a process of user {}: {text}", peer.uid);
                let line = LogLine::new(Level::Warn, line)
                    .user(Some(peer.uid))
                    .pid(peer.pid);
                self.log(line);
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
        if let Some(seat) = self.resumption(hello)? {
            return Ok(seat);
        }
        self.admit_session(&hello.peer)?;
        let registration = match &hello.name {
            Some(name) => self.claim(name, &hello.peer)?,
            None => self.own_registration(&hello.peer)?,
        };
        Ok(Seat {
            id: SessionId::new(registration, ProcessId(hello.connection.0)),
            cookie: hello.cookie,
            former: None,
        })
    }

    /// Who answers for a process.
    pub(super) fn owner(&self, peer: &Peer) -> Owner {
        match &peer.unit {
            Some(unit) if peer.uid == 0 => Owner::Unit(unit.clone()),
            _ => Owner::User(self.config.subordinates.user(peer.uid)),
        }
    }

    /// Whether the owner of a process may have one more session.
    fn admit_session(&self, peer: &Peer) -> Result<(), Refusal> {
        let owner = self.owner(peer);
        let (own, all) = self.sessions.count(&owner);
        let most = self.config.max_sessions;
        // Root of the host itself is not limited: it must get in to set things right.
        if owner == Owner::User(0) || has_room(own, all, most) {
            return Ok(());
        }
        let text = format!(
            "{owner} has {own} of {all} processes with a session, of {most} that rtswapd has descriptors \
             for: one owner may have half of what the others leave; end some, or raise LimitNOFILE"
        );
        Err(Refusal(RefusalCode::Busy, text))
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
        self.timers.set(Timer::Claim(id), None);
        Ok(id)
    }

    /// Registers a best-effort task of the process's own.
    fn own_registration(&mut self, peer: &Peer) -> Result<RegistrationId, Refusal> {
        let mut name = format!("{}-{}", peer.comm, peer.pid);
        if self.registry.find(peer.uid, &name).is_some() {
            name = format!("{name}-{}", self.registry.next());
        }
        let busy = |text| Refusal(RefusalCode::Busy, text);
        let owner = self.owner(peer);
        let admitted = self.admits_of(&owner, peer.uid, &name);
        admitted.map_err(|error| busy(error.to_string()))?;
        let task = TaskOptions::best_effort(name).check();
        let task = task.map_err(|error| busy(error.to_string()))?;
        let id = RegistrationId(self.registry.next());
        self.registry.insert(Registration {
            owner,
            ..Registration::new(id, peer.uid, task, Origin::Session)
        });
        self.unrecorded.note_registration(id);
        Ok(id)
    }
}
