//! Saying Hello.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rtswap_wire::doorbell::Cookie;
use rtswap_wire::hello::{Hello, HelloError, Reply, ReplyCode};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use zerocopy::IntoBytes;

use super::{Bell, Page, PageError, Session, keep_high};

/// How long the daemon may take to answer.
const REPLY_BOUND_S: i64 = 5;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No daemon listens: the ordinary case on a machine where rtswap is not used.
    #[error("no rtswapd listens at {0}")]
    NoDaemon(String),
    /// The daemon said no.
    #[error("rtswapd refuses this process: {text}")]
    Refused {
        /// Its reason, if this version knows it.
        code: Option<ReplyCode>,
        /// Its words.
        text: String,
    },
    /// The daemon does not answer.
    #[error("rtswapd did not answer within {REPLY_BOUND_S} s; see `systemctl status rtswapd`")]
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
    swap_thread: Option<&OwnedFd>,
) -> Result<Session, ConnectError> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let socket = keep_high(socket);
    let absent = |_| ConnectError::NoDaemon(path.display().to_string());
    let address = SocketAddrUnix::new(path).map_err(absent)?;
    rustix::net::connect(&socket, &address).map_err(absent)?;

    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = swap_thread.map(|fd| [fd.as_fd()]);
    if let Some(fds) = &fds {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let iov = [IoSlice::new(hello.as_bytes())];
    rustix::net::sendmsg(&socket, &iov, &mut ancillary, SendFlags::NOSIGNAL)?;

    let (reply, fds) = receive(&socket)?;
    if reply.code() != Some(ReplyCode::Welcome) {
        return Err(ConnectError::Refused {
            code: reply.code(),
            text: reply.text().escape_debug().to_string(),
        });
    }
    let [page, event] = <[OwnedFd; 2]>::try_from(fds).map_err(|_| HelloError::Malformed)?;
    Ok(Session {
        socket,
        page: Page::map(page.as_fd())?,
        bell: Bell::new(event)?,
        cookie: Cookie(reply.cookie),
        registration: reply.registration,
        orphan_timeout: Duration::from_millis(reply.orphan_timeout_ms.into()),
        idle_gap: Duration::from_micros(reply.idle_gap_us.into()),
        drain_bound: Duration::from_millis(reply.drain_bound_ms.into()),
        lost: false.into(),
    })
}

fn receive(socket: &OwnedFd) -> Result<(Reply, Vec<OwnedFd>), ConnectError> {
    let timeout = rustix::event::Timespec {
        tv_sec: REPLY_BOUND_S,
        tv_nsec: 0,
    };
    let mut waited = [PollFd::new(socket, PollFlags::IN)];
    if poll(&mut waited, Some(&timeout))? == 0 {
        return Err(ConnectError::Silent);
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
