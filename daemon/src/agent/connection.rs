//! One connection of an agent: its descriptors and its control page.

use std::os::fd::{AsFd, OwnedFd};

use rtswap_dbus::text::escape;
use rtswap_engine::input::Block;
use rtswap_engine::output::{BlockSetup, Welcome};
use rtswap_engine::{ConnectionId, Cookie, RegistrationId};
use rtswap_wire::doorbell;
use rtswap_wire::hello::{NOTICES, Notice, Reply, ReplyCode};
use rtswap_wire::page::DeviceBlock;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Signal, pidfd_send_signal};
use rustix::rand::{GetRandomFlags, getrandom};
use zerocopy::IntoBytes;

use super::awaited::Awaited;
use super::bells::Bell;
use super::reader::Reader;
use crate::config::DaemonConfig;
use crate::names;
use crate::source::cgroups::Membership;
use crate::sys::packet;
use crate::sys::page::PageMap;
use crate::sys::peer;
use crate::sys::signal::{self, BellThread};

/// One connection of an agent, or a process that the daemon before had a session with.
#[derive(Debug)]
pub struct Connection {
    /// The number by which the engine and the epoll set name this connection.
    pub(super) id: ConnectionId,
    process: OwnedFd,
    /// None for a process of the daemon before.
    link: Option<Link>,
    /// Those that its process came in: they are watched as long as it is.
    cgroups: Option<Membership>,
}

/// The socket, page and doorbells of a connection that has got its Welcome.
#[derive(Debug)]
struct Link {
    /// None once the connection has ended.
    socket: Option<OwnedFd>,
    page: PageMap,
    eventfd: OwnedFd,
    cookie: Cookie,
    thread: Option<BellThread>,
    /// Whether the agent reads notices.
    reads_notices: bool,
    /// The agent has rung since its Welcome.
    rang: bool,
    /// The rings to come that are heard even while its owner is paused.
    hearings: u8,
    /// One for each GPU in the page, by index; GPUs that are learned later are not in it.
    devices: Vec<Device>,
}

/// The page and the eventfd of a session to come: made while no program waits for them.
#[derive(Debug)]
pub struct Blank {
    page: PageMap,
    eventfd: OwnedFd,
}

impl Blank {
    /// A page of zeros, and an eventfd that is not watched.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            page: PageMap::new()?,
            eventfd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }
}

/// One GPU's block.
#[derive(Debug)]
pub(super) struct Device {
    reader: Reader,
    pub(super) bell: Bell,
    pub(super) awaited: Awaited,
}

impl Device {
    fn new(setup: &BlockSetup) -> Self {
        Self {
            reader: Reader::default(),
            bell: Bell::default(),
            awaited: Awaited::new(setup.chunk),
        }
    }
}

impl Connection {
    /// A process that the daemon before had a session with.
    pub fn awaited(id: ConnectionId, process: OwnedFd) -> Self {
        Self {
            id,
            process,
            link: None,
            cgroups: None,
        }
    }

    /// A connection for which a Welcome can be sent. Its agent has these `features`.
    pub fn greeted(
        process: OwnedFd,
        socket: OwnedFd,
        features: u64,
        welcome: &Welcome,
        blank: Blank,
    ) -> Self {
        let id = welcome.connection;
        let link = Link {
            socket: Some(socket),
            page: blank.page,
            eventfd: blank.eventfd,
            cookie: welcome.cookie,
            thread: None,
            reads_notices: features & NOTICES != 0,
            rang: false,
            hearings: 0,
            devices: welcome.blocks.iter().map(Device::new).collect(),
        };
        Self {
            id,
            process,
            link: Some(link),
            cgroups: None,
        }
    }

    /// Readable once the process has ended.
    pub fn process(&self) -> &OwnedFd {
        &self.process
    }

    /// The agent's own doorbell, to be watched and never read.
    pub fn eventfd(&self) -> Option<&OwnedFd> {
        self.link.as_ref().map(|link| &link.eventfd)
    }

    /// The control page.
    pub fn page(&self) -> Option<&PageMap> {
        self.link.as_ref().map(|link| &link.page)
    }

    /// Whether the agent's socket is open: orders reach it.
    pub fn is_connected(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.socket.is_some())
    }

    /// Sends page, eventfd and cookie.
    pub fn welcome(&self, registration: RegistrationId, terms: &DaemonConfig) -> io::Result<()> {
        let link = self.link.as_ref().ok_or(io::Errno::NOTCONN)?;
        let socket = link.socket.as_ref().ok_or(io::Errno::NOTCONN)?;
        let reply = Reply {
            raw_code: ReplyCode::Welcome as u16,
            registration: registration.0,
            cookie: link.cookie.0,
            orphan_timeout_ms: terms.orphan_timeout_ms,
            idle_gap_us: terms.idle_gap_us,
            drain_bound_ms: terms.drain_bound_ms,
            max_in_flight: terms.max_in_flight,
            ..Reply::refusal(ReplyCode::Welcome, "")
        };
        let fds = [link.page.fd(), link.eventfd.as_fd()];
        packet::send(socket, reply.as_bytes(), &fds).map(drop)
    }

    /// Sets the thread to which doorbells are signalled. After the Welcome: without the cookie, a signal
    /// would be taken for the program's own.
    pub fn set_thread(&mut self, thread: Option<BellThread>) {
        if let Some(link) = &mut self.link {
            link.thread = thread;
        }
    }

    /// Has the cgroups of its process be watched.
    pub fn set_cgroups(&mut self, cgroups: Membership) {
        self.cgroups = Some(cgroups);
    }

    /// Closes the socket. Page and process stay.
    pub fn close(&mut self) {
        if let Some(link) = &mut self.link {
            link.socket = None;
        }
    }

    /// Records that the agent rang. True if it did so for the first time since its Welcome.
    pub fn record_ring(&mut self) -> bool {
        let link = self.link.as_mut();
        link.is_some_and(|link| !std::mem::replace(&mut link.rang, true))
    }

    /// Reads a GPU's block. None where it has not changed, unless `anyway`. The second value tells whether
    /// the agent has rung since its Welcome.
    pub fn read(&mut self, gpu: usize, anyway: bool) -> Option<(Block, bool)> {
        let link = self.link.as_mut().filter(|link| link.socket.is_some())?;
        let device = link.devices.get_mut(gpu)?;
        let agent = &link.page.devices()[gpu].agent;
        let block = device.reader.read(agent, anyway)?;
        device.awaited.record(&block);
        Some((block, link.rang))
    }

    /// Whether an order has no answer yet that was read, and a bound for it.
    pub fn is_bounded(&self) -> bool {
        let link = self.link.as_ref().filter(|link| link.socket.is_some());
        link.is_some_and(|link| {
            link.devices
                .iter()
                .any(|device| device.awaited.is_bounded())
        })
    }

    /// Whether its page has an answer to an order that was not read yet.
    pub fn has_answered(&self) -> bool {
        let Some(link) = self.link.as_ref().filter(|link| link.socket.is_some()) else {
            return false;
        };
        let mut devices = link.devices.iter().zip(link.page.devices());
        devices.any(|(Device { awaited, .. }, block)| {
            awaited.is_open() && awaited.is_answered(&Reader::peek(&block.agent))
        })
    }

    /// Sees to it that at least `count` more rings are heard even while its owner is paused.
    pub fn promise_hearings(&mut self, count: u8) {
        if let Some(link) = &mut self.link {
            link.hearings = link.hearings.max(count);
        }
    }

    /// Whether a ring is heard although its owner is paused: it brings an answer, or is one of those promised, which
    /// it uses up.
    pub fn take_hearing(&mut self) -> bool {
        if self.has_answered() {
            return true;
        }
        let Some(link) = &mut self.link else {
            return false;
        };
        let is_promised = link.hearings > 0;
        link.hearings -= u8::from(is_promised);
        is_promised
    }

    /// The number of GPUs in its page.
    pub fn gpus(&self) -> usize {
        self.link.as_ref().map_or(0, |link| link.devices.len())
    }

    /// Sends SIGKILL to the process.
    pub fn kill(&self) -> io::Result<()> {
        pidfd_send_signal(&self.process, Signal::KILL)
    }

    /// Sends the agent words for its user, where it reads such. One that has not read the last ones gets no
    /// more.
    pub fn notify(&self, text: &str) {
        let link = self.link.as_ref().filter(|link| link.reads_notices);
        let Some(socket) = link.and_then(|link| link.socket.as_ref()) else {
            return;
        };
        // Its user may not see the names of others' tasks. No user has the last number.
        let uid = socket_peercred(socket).map_or(u32::MAX, |peer| peer.uid.as_raw());
        let text = names::show_to(&escape(text), uid);
        if let Err(error) = packet::send(socket, Notice::new(&text).as_bytes(), &[]) {
            tracing::debug!(connection = self.id.0, %error, "a notice was not sent");
        }
    }

    /// Whether the process is stopped, by SIGSTOP or a debugger.
    pub fn is_stopped(&self) -> bool {
        peer::pidfd_id(&self.process).is_some_and(peer::is_stopped)
    }

    /// A GPU's block, and what is known of it, while the agent is connected.
    pub(super) fn device(&mut self, gpu: usize) -> Option<(&DeviceBlock, &mut Device)> {
        let link = self.link.as_mut().filter(|link| link.socket.is_some())?;
        let device = link.devices.get_mut(gpu)?;
        Some((&link.page.devices()[gpu], device))
    }

    /// Queues `signal` for the agent's swap thread, where that is known.
    pub(super) fn signal(&self, signal: i32) {
        let Some(link) = &self.link else {
            return;
        };
        if let Some(thread) = &link.thread
            && let Err(error) = signal::ring(thread, signal, doorbell::Cookie(link.cookie.0))
        {
            // The futex word was rung too, and the agent looks every 100 ms by itself.
            tracing::debug!(connection = self.id.0, %error, "a doorbell's signal was not sent");
        }
    }
}

/// A cookie that nobody can guess.
pub fn random_cookie() -> io::Result<Cookie> {
    let mut bytes = [0; 8];
    loop {
        // Eight bytes come whole once the kernel's pool is ready, and this waits for it.
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        // Zero means none on the wire.
        match u64::from_ne_bytes(bytes) {
            0 => {}
            number => return Ok(Cookie(number)),
        }
    }
}

/// Where doorbells go. A thread that is not the peer's own is not rung: it would be hit by a signal
/// that its program does not expect.
pub fn bell_thread(thread: Option<OwnedFd>, pid: u32, tid: u32) -> Option<BellThread> {
    if let Some(thread) = thread {
        peer::thread_of(&thread, pid)?;
        return Some(BellThread::Pidfd(thread));
    }
    let tid = peer::thread_by_own_id(pid, tid)?;
    Some(BellThread::Ids { pid, tid })
}
