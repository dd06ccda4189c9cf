//! One agent: its process, its control page, and how far each GPU's block has been read.

use std::os::fd::{AsFd, OwnedFd};

use rtswap_policy::scheduler::Direction;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Nanos, Time};
use rtswap_wire::doorbell::Cookie;
use rtswap_wire::hello::Reply;
use rtswap_wire::page::DeviceBlock;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io;
use rustix::rand::{GetRandomFlags, getrandom};
use zerocopy::IntoBytes;

use crate::source::agents::DeviceView;
use crate::sys::packet;
use crate::sys::page::{self, PageMap};
use crate::sys::peer::Peer;
use crate::sys::signal::{self, BellThread};

/// How long until an unanswered doorbell is rung again.
const RING_AGAIN: Nanos = Nanos(20_000_000);

/// What one session knows of one GPU.
#[derive(Debug, Default)]
pub struct Device {
    /// The task that the agent is there; none before it did anything on this GPU.
    pub task: Option<TaskId>,
    /// How far its block has been read.
    pub view: DeviceView,
    /// The doorbell to be rung again, and when.
    bell: Option<(Direction, Time)>,
}

/// One agent.
#[derive(Debug)]
pub struct Session {
    /// Its process.
    pub peer: Peer,
    /// The number of its connection; none while it is lost.
    pub connection: Option<u64>,
    /// Known to both ends only.
    pub cookie: Cookie,
    /// By the GPUs' indices; those learned later are not in the page.
    pub devices: Vec<Device>,
    socket: Option<OwnedFd>,
    page: PageMap,
    eventfd: OwnedFd,
    thread: Option<BellThread>,
}

/// What a Welcome says beside the cookie.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// As in [`Reply`].
    pub orphan_timeout_ms: u32,
    /// As in [`Reply`].
    pub idle_gap_us: u32,
    /// As in [`Reply`].
    pub drain_bound_ms: u32,
    /// As in [`Reply`].
    pub max_in_flight: u32,
}

impl Session {
    /// A session of `peer` with a fresh page for `gpus` GPUs. It has no doorbell thread yet.
    pub fn new(peer: Peer, socket: OwnedFd, cookie: Cookie, gpus: usize) -> io::Result<Self> {
        Ok(Self {
            peer,
            connection: None,
            cookie,
            devices: (0..gpus).map(|_| Device::default()).collect(),
            socket: Some(socket),
            page: PageMap::new()?,
            eventfd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            thread: None,
        })
    }

    /// Learns what a Welcome need not wait for: where doorbells go, and when the process started.
    pub fn learn(&mut self, thread: Option<BellThread>) {
        self.thread = thread;
        self.peer.learn_start();
    }

    /// The control page.
    pub fn page(&self) -> &PageMap {
        &self.page
    }

    /// The page's block of a GPU.
    pub fn block(&self, gpu: usize) -> &DeviceBlock {
        &self.page.devices()[gpu]
    }

    /// The page's block of a GPU, and what is known of it.
    pub fn block_and_device(&mut self, gpu: usize) -> (&DeviceBlock, &mut Device) {
        (&self.page.devices()[gpu], &mut self.devices[gpu])
    }

    /// The agent's own doorbell, to be watched and never read.
    pub fn eventfd(&self) -> &OwnedFd {
        &self.eventfd
    }

    /// The socket, unless the session is lost.
    pub fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// Sends page, eventfd and cookie.
    pub fn welcome(&self, registration: u64, terms: Terms) -> io::Result<()> {
        let reply = Reply {
            raw_code: rtswap_wire::hello::ReplyCode::Welcome as u16,
            registration,
            cookie: self.cookie.0,
            orphan_timeout_ms: terms.orphan_timeout_ms,
            idle_gap_us: terms.idle_gap_us,
            drain_bound_ms: terms.drain_bound_ms,
            max_in_flight: terms.max_in_flight,
            ..Reply::refusal(rtswap_wire::hello::ReplyCode::Welcome, "")
        };
        let socket = self.socket.as_ref().ok_or(io::Errno::NOTCONN)?;
        let fds = [self.page.fd(), self.eventfd.as_fd()];
        packet::send(socket, reply.as_bytes(), &fds).map(drop)
    }

    /// The connection ended; the process may live on.
    pub fn lose(&mut self) {
        self.socket = None;
        self.connection = None;
        for device in &mut self.devices {
            device.bell = None;
        }
    }

    /// Whether the agent can be talked to.
    pub fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// Rings the doorbell for a GPU, again and again until [`DeviceView::is_heard`].
    pub fn ring(&mut self, gpu: usize, direction: Direction, now: Time) {
        self.devices[gpu].bell = Some((direction, now + RING_AGAIN));
        self.ring_once(gpu, direction);
    }

    /// Rings those again whose time has come, and forgets those that were heard.
    pub fn ring_again(&mut self, now: Time) {
        for gpu in 0..self.devices.len() {
            let device = &mut self.devices[gpu];
            let Some((direction, due)) = device.bell else {
                continue;
            };
            if device.view.is_heard(&self.page.devices()[gpu]) {
                device.bell = None;
            } else if due <= now {
                self.ring(gpu, direction, now);
            }
        }
    }

    /// When to [`Self::ring_again`].
    pub fn next_ring(&self) -> Option<Time> {
        let due = |device: &Device| device.bell.map(|(_, due)| due);
        self.devices.iter().filter_map(due).min()
    }

    fn ring_once(&self, gpu: usize, direction: Direction) {
        let block = self.block(gpu);
        block.daemon.ring();
        page::wake(block.daemon.bell_word());
        let signal = match direction {
            Direction::Out => libc::SIGUSR1,
            Direction::In => libc::SIGUSR2,
        };
        let Some(thread) = &self.thread else {
            return;
        };
        if let Err(error) = signal::ring(thread, signal, self.cookie) {
            // The futex word was rung too, and the agent looks every 100 ms by itself.
            tracing::debug!(pid = self.peer.pid, %error, "a doorbell's signal was not sent");
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
