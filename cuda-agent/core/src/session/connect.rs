//! Saying Hello.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rtswap_wire::doorbell::Cookie;
use rtswap_wire::hello::{Hello, HelloError, Reply, ReplyCode};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use zerocopy::IntoBytes;

use super::{Bell, Descriptor, Page, PageError, Session};

/// How long the daemon may take to answer.
const REPLY_BOUND: Duration = Duration::from_secs(5);

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No daemon listens: the ordinary case on a machine where rtswap is not used.
    #[error("no rtswapd listens at {0}")]
    NoDaemon(String),
    /// A daemon may be there, but this process may not talk to it.
    #[error("{0} may not be connected to: {1}")]
    Denied(String, Errno),
    /// The daemon said no.
    #[error("rtswapd refuses this process: {text}")]
    Refused {
        /// Its reason, if this version knows it.
        code: Option<ReplyCode>,
        /// Its words.
        text: String,
    },
    /// The daemon does not answer.
    #[error("rtswapd did not answer within {REPLY_BOUND:?}; see `systemctl status rtswapd`")]
    Silent,
    /// The socket failed.
    #[error("the socket to rtswapd failed: {0}")]
    Socket(#[from] Errno),
    /// No reply of the protocol.
    #[error("rtswapd answered in another protocol: {0}")]
    Reply(#[from] HelloError),
    /// No usable page.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// Connects to the daemon at `path` and says `hello`; `swap_thread` is the pidfd that doorbells
/// go to, where the kernel has one.
pub fn connect(
    path: &Path,
    hello: &Hello,
    swap_thread: Option<BorrowedFd<'_>>,
) -> Result<Session, ConnectError> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        // A daemon that hangs with a full queue must not hang this process for ever.
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    let absent = |_| ConnectError::NoDaemon(path.display().to_string());
    let address = SocketAddrUnix::new(path).map_err(absent)?;
    let end = Instant::now() + REPLY_BOUND;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Errno::AGAIN | Errno::INTR) => return Err(ConnectError::Silent),
            Err(error @ (Errno::ACCESS | Errno::PERM)) => {
                return Err(ConnectError::Denied(path.display().to_string(), error));
            }
            Err(error) => return Err(absent(error)),
        }
    }

    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = swap_thread.map(|fd| [fd]);
    if let Some(fds) = &fds {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let iov = [IoSlice::new(hello.as_bytes())];
    rustix::net::sendmsg(&socket, &iov, &mut ancillary, SendFlags::NOSIGNAL)?;

    let (reply, fds) = receive(&socket, end)?;
    if reply.code() != Some(ReplyCode::Welcome) {
        return Err(ConnectError::Refused {
            code: reply.code(),
            text: reply.text().escape_debug().to_string(),
        });
    }
    let [page, event] = <[OwnedFd; 2]>::try_from(fds).map_err(|_| HelloError::Malformed)?;
    Ok(Session {
        socket: Descriptor::new(socket)?,
        page: Page::map(page.as_fd())?,
        bell: Bell::new(event)?,
        cookie: Cookie(reply.cookie),
        registration: reply.registration,
        orphan_timeout: Duration::from_millis(reply.orphan_timeout_ms.into()),
        idle_gap: Duration::from_micros(reply.idle_gap_us.into()),
        drain_bound: Duration::from_millis(reply.drain_bound_ms.into()),
        max_in_flight: reply.max_in_flight,
        telling: Mutex::default(),
        lost: false.into(),
    })
}

fn receive(socket: &OwnedFd, end: Instant) -> Result<(Reply, Vec<OwnedFd>), ConnectError> {
    let mut waited = [PollFd::new(socket, PollFlags::IN)];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = rustix::event::Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut waited, Some(&left)) {
            Ok(0) => return Err(ConnectError::Silent),
            Ok(_) => break,
            // A signal of the program, which may have many.
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut packet = [0; size_of::<Reply>() + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut packet)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )?;
    let fds = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    Ok((Reply::parse(&packet[..got.bytes])?, fds))
}
