//! Events of the outside world → the engine's inputs.

use std::os::fd::OwnedFd;

use rtswap_dbus::Error;
use rtswap_engine::input::{self, DeviceState, Input, Usage};
use rtswap_engine::sample::CgroupSample;
use rtswap_engine::{CallId, ConnectionId, Cookie, RegistrationId};
use rtswap_policy::units::{Bytes, Nanos, Time};
use rtswap_wire::hello::{self, Hello, ReplyCode};

use super::Dispatcher;
use super::agents::Greeting;
use super::calls::OpenCall;
use super::message::{Notice, Request};
use super::token::Token;
use crate::agent::connection::{Connection, random_cookie};
use crate::agent::listener::{Pending, refuse};
use crate::log;
use crate::origin;
use crate::sys::clock::worked;
use crate::sys::poll::Watch;

/// New connections that are accepted before other descriptors have their turn.
const ACCEPTED_AT_ONCE: u32 = 4;

impl Dispatcher {
    /// Hands an input in, and carries out what follows.
    pub(super) fn handle(&mut self, input: Input, now: Time) {
        tracing::trace!(at = now.0, ?input);
        self.engine.handle(now, input);
        self.carry_out(now);
    }

    /// Hands in all processes that have ended by now.
    pub(super) fn take_deaths(&mut self, now: Time) -> rustix::io::Result<()> {
        loop {
            let ended = self.agents.take_ended(&self.poll)?;
            if ended.is_empty() {
                return Ok(());
            }
            for id in ended {
                // The connection may be removed by what followed from another one's end.
                if self.agents.connections.contains_key(&id) {
                    self.handle(Input::ProcessEnded(id), now);
                }
            }
        }
    }

    pub(super) fn lease_ended(&mut self, call: CallId, now: Time) {
        if let Some(registration) = self.calls.end_lease(call) {
            self.handle(Input::LeaseEnded(registration), now);
        }
    }

    /// Looks at the processes that the engine asked about.
    pub(super) fn inspect(&mut self, now: Time) {
        for connection in std::mem::take(&mut self.agents.inspections) {
            let looked_at = self.agents.connections.get(&connection);
            if let Some(is_stopped) = looked_at.map(Connection::is_stopped) {
                let input = Input::Inspected {
                    connection,
                    is_stopped,
                };
                self.handle(input, now);
            }
        }
    }

    /// Reads all blocks before a sample is handed in, so that the engine knows every value that an agent
    /// had published when the sample was taken.
    fn read_all(&mut self, now: Time) {
        let all: Vec<_> = self.agents.connections.keys().copied().collect();
        for id in all {
            self.read_charged(id, now);
        }
    }

    /// Accepts some of the waiting connections. The others wake the thread again, so that a program that
    /// connects as fast as it can does not keep the others from their turns.
    pub(super) fn accept(&mut self, now: Time) {
        let before = worked();
        self.accept_some(now);
        self.charge(before, now);
    }

    /// Charges the processor time since `before` to the allowance for connections, and stops accepting while that is
    /// used up.
    fn charge(&mut self, before: Nanos, now: Time) {
        if self.agents.allowance.charge(now, worked() - before) {
            self.poll.remove(self.agents.listener.fd());
        }
    }

    /// Accepts connections again, if they have waited long enough.
    pub(super) fn accept_again(&mut self, now: Time) -> rustix::io::Result<()> {
        if self.agents.allowance.resume(now) {
            let listener = self.agents.listener.fd();
            self.poll
                .add(listener, Token::Listener.into(), Watch::Readable)?;
        }
        Ok(())
    }

    fn accept_some(&mut self, now: Time) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let id = self.agents.next_id();
            let Some(socket) = self.agents.listener.accept(id.0, now) else {
                return;
            };
            let token = Token::Socket(id).into();
            let added = self.poll.add(socket, token, Watch::Readable);
            if let Err(error) = added
                && log::may_say(log::ANYBODY, "watch")
            {
                tracing::error!(%error, "cannot watch an agent's connection");
            }
            self.agents.take_id();
        }
    }

    /// Takes a Hello that came on a connection, or the connection's end.
    pub(super) fn socket_ready(&mut self, id: ConnectionId, now: Time) -> rustix::io::Result<()> {
        if let Some(connection) = self.agents.connections.get(&id) {
            // An agent sends nothing after its Hello: anything readable now ends the connection.
            if connection.is_connected() {
                self.close(id);
                self.handle(Input::Disconnected(id), now);
            }
            return Ok(());
        }
        if self.agents.hellos_left == 0 {
            return Ok(());
        }
        let before = worked();
        let received = self.agents.listener.receive(id.0);
        if received.is_none() {
            self.charge(before, now);
        }
        if let Some((hello, thread, pending)) = received {
            self.agents.hellos_left -= 1;
            // A process that died before this Hello must not count as alive when it is judged.
            self.take_deaths(now)?;
            self.greet(id, &hello, thread, pending, now);
        }
        Ok(())
    }

    fn greet(
        &mut self,
        id: ConnectionId,
        hello: &Hello,
        thread: Option<OwnedFd>,
        pending: Pending,
        now: Time,
    ) {
        let cookie = match random_cookie() {
            Ok(cookie) => cookie,
            Err(error) => {
                let text = format!("no random numbers to be had: {error}");
                refuse(&pending.socket, ReplyCode::Busy, &text);
                return;
            }
        };
        let (membership, cgroups) = self.cgroups.enter(pending.peer.pid);
        let input = hello_of(id, hello, &pending, cookie, cgroups);
        self.agents.greeting = Some(Greeting {
            id,
            pending,
            thread,
            tid: hello.tid,
            features: hello.features,
        });
        self.handle(Input::Hello(Box::new(input)), now);
        self.agents.greeting = None;
        if let Some(connection) = self.agents.connections.get_mut(&id) {
            connection.set_cgroups(membership);
        }
        // The agent may have written and rung before its eventfd was watched.
        self.read_blocks(id, false, now);
    }

    /// Takes one call, and all samples and notices of other threads. False if it is time to stop.
    pub(super) fn take_messages(&mut self, now: Time) -> bool {
        self.inbox.clear();
        if let Some(request) = self.inbox.take_call()
            && !self.take_call(request, now)
        {
            return false;
        }
        while let Some(notice) = self.inbox.take_notice() {
            match notice {
                Notice::Nvml(sample) => {
                    self.read_all(now);
                    self.handle(Input::Nvml(sample), now);
                }
                Notice::Probes(sample) => {
                    self.read_all(now);
                    self.handle(Input::Probes(sample), now);
                }
                Notice::Host(sample) => self.handle(Input::Host(sample), now),
                Notice::Checkpointed(position) => self.keeper.checkpointed(position),
            }
        }
        true
    }

    fn take_call(&mut self, request: Request, now: Time) -> bool {
        let (call, open) = match request {
            Request::Call(call, open) => (call, open),
            Request::Plan { reply } => {
                let _ = reply.send(Ok(self.engine.plan()));
                return true;
            }
            Request::Ping { reply } => {
                let _ = reply.send(Ok(()));
                return true;
            }
            Request::Stop => return false,
        };
        let id = self.calls.next_id();
        if let OpenCall::Register { lease, reply } = open {
            let watch = |lease| self.poll.add(lease, Token::Lease(id).into(), Watch::Closed);
            if let Some(Err(error)) = lease.as_ref().map(watch) {
                let _ = reply.send(Err(Error::Busy(format!("cannot watch a lease: {error}"))));
                return true;
            }
            self.calls.open(id, OpenCall::Register { lease, reply });
        } else {
            self.calls.open(id, open);
        }
        self.handle(Input::Call(id, call), now);
        true
    }
}

/// Converts a Hello for the engine.
fn hello_of(
    id: ConnectionId,
    hello: &Hello,
    pending: &Pending,
    cookie: Cookie,
    cgroups: Vec<CgroupSample>,
) -> input::Hello {
    let peer = &pending.peer;
    let former = (RegistrationId(hello.registration), Cookie(hello.cookie));
    let devices = hello.devices.iter();
    input::Hello {
        connection: id,
        peer: input::Peer {
            pid: peer.pid,
            uid: peer.uid,
            comm: peer.stat.comm.clone(),
            start_ticks: peer.stat.start_ticks,
            unit: (peer.uid == 0)
                .then(|| origin::of_process(peer.pid))
                .flatten(),
        },
        name: hello.task_name().map(str::to_owned),
        resumes: (hello.registration != 0).then_some(former),
        cookie,
        devices: devices
            .filter(|device| device.uuid != [0; 16])
            .map(state_of)
            .collect(),
        cgroups,
    }
}

fn state_of(device: &hello::DeviceState) -> DeviceState {
    DeviceState {
        uuid: device.uuid,
        memory: Bytes(device.memory_bytes),
        usage: Usage {
            resident: Bytes(device.resident_bytes),
            swapped: Bytes(device.swapped_bytes),
            arena: Bytes(device.arena_bytes),
        },
        backing: Bytes(device.backing_bytes),
        requested: device.requested,
        granted: device.granted,
        completed: device.completed,
    }
}
