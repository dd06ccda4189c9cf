//! One attachment to the daemon: socket, control page, eventfd, cookie.
//! `connect` makes one, `page` maps what the daemon sends, `tell` rings the daemon, `descriptor`
//! keeps what is ours apart from what is the program's,
//! `headroom` out of its way.

mod connect;
mod descriptor;
mod headroom;
mod page;
mod tell;

#[cfg(test)]
pub(crate) mod fake_daemon;

pub use connect::{ConnectError, connect};
pub use descriptor::{Descriptor, Mark};
pub use headroom::{Headroom, NoHeadroom};
pub use page::{Page, PageError};
pub use tell::Bell;

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rtswap_wire::doorbell::Cookie;
use rtswap_wire::hello::Notice;
use rtswap_wire::page::{AgentDevice, DaemonDevice};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::gate::lock_briefly;
use crate::log::say;

/// What both ends agreed on, as long as the daemon lives.
#[derive(Debug)]
pub struct Session {
    socket: Descriptor,
    page: Page,
    bell: Bell,
    /// Tells doorbells from the program's signals.
    pub cookie: Cookie,
    /// The registration that this process is attached to.
    pub registration: u64,
    /// How long to wait for another daemon once this one is gone.
    pub orphan_timeout: Duration,
    /// How long the streams of an implicit job stay idle before it is complete.
    pub idle_gap: Duration,
    /// How long a drain may take.
    pub drain_bound: Duration,
    /// How many calls may be in flight on a GPU; 0 for any number.
    pub max_in_flight: u32,
    /// Held while a thread tells the user what the daemon has sent.
    pub(crate) telling: Mutex<()>,
    lost: AtomicBool,
}

impl Session {
    /// Whether the daemon is gone.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Notes that the daemon is gone.
    pub fn set_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// The socket: it says when the daemon is gone, and little else. Nothing if the program closed it,
    /// which ends the session as well.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get()
    }

    /// Tells the user what the daemon has sent; false once the daemon is gone. All that was sent before the call has
    /// been told when it returns, even what another thread was reading.
    pub fn read_notices(&self) -> bool {
        let _one_at_a_time = lock_briefly(&self.telling);
        let Some(socket) = self.socket() else {
            return false;
        };
        let mut packet = [0; size_of::<Notice>() + 1];
        loop {
            match rustix::net::recv(socket, &mut packet[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((length, _)) => {
                    let packet = packet.get(..length).unwrap_or_default();
                    let notice = Notice::parse(packet);
                    if let Some(text) = notice.as_ref().and_then(Notice::text) {
                        say(format_args!("{}", text.escape_debug()));
                    }
                }
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// This session's descriptors, for the child of a fork to close.
    pub fn marks(&self) -> impl Iterator<Item = Mark> {
        [self.socket.mark(), self.bell.mark()].into_iter()
    }

    /// Tells the daemon that the page changed.
    pub fn tell(&self) {
        self.bell.ring();
    }

    /// The block of the GPU with this UUID, if the daemon manages it.
    pub fn view(self: &Arc<Self>, uuid: [u8; 16]) -> Option<View> {
        let blocks = self.page.control().devices();
        let index = blocks
            .iter()
            .position(|block| block.daemon.uuid() == uuid)?;
        Some(View {
            session: Arc::clone(self),
            index,
        })
    }
}

/// One GPU's block of one session's page.
#[derive(Clone, Debug)]
pub struct View {
    /// The session.
    pub session: Arc<Session>,
    index: usize,
}

impl View {
    /// The daemon's fields: hostile.
    pub fn daemon(&self) -> &DaemonDevice {
        &self.session.page.control().devices()[self.index].daemon
    }

    /// Our fields.
    pub fn agent(&self) -> &AgentDevice {
        &self.session.page.control().devices()[self.index].agent
    }
}
