//! The agent socket, spoken raw.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use rtswap_wire::hello::{DeviceState, Hello, Reply, ReplyCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use zerocopy::IntoBytes;

use super::Attacker;
use super::page::Session;

/// Descriptors in one message: as many as the kernel lets through.
pub(crate) const MOST_FDS: usize = 253;

/// A connection to the agent socket.
pub(crate) struct Wire(pub OwnedFd);

impl Wire {
    /// Connects to the daemon of `runtime_dir`; waits in no queue.
    pub(crate) fn connect(runtime_dir: &Path) -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        let address = SocketAddrUnix::new(runtime_dir.join("agent.sock"))?;
        rustix::net::connect(&socket, &address)?;
        Ok(Self(socket))
    }

    /// Sends a packet with descriptors.
    pub(crate) fn send(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut with = SendAncillaryBuffer::new(&mut room);
        if !fds.is_empty() {
            ensure!(
                with.push(SendAncillaryMessage::ScmRights(fds)),
                "too many descriptors"
            );
        }
        rustix::net::sendmsg(
            &self.0,
            &[IoSlice::new(packet)],
            &mut with,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// The answer, with what came with it; none where the connection was closed or nothing comes in time.
    pub(crate) fn answer(&self, bound: Duration) -> Option<(Reply, Vec<OwnedFd>)> {
        let bound = Timespec::try_from(bound).ok()?;
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        if poll(&mut ready, Some(&bound)).ok()? == 0 {
            return None;
        }
        let mut packet = [0; size_of::<Reply>()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut iov = [IoSliceMut::new(&mut packet)];
        let got = rustix::net::recvmsg(&self.0, &mut iov, &mut ancillary, flags).ok()?;
        let reply = Reply::parse(&packet[..got.bytes]).ok()?;
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        Some((reply, fds))
    }
}

/// The time in which a daemon that is not overwhelmed answers.
pub(crate) const SOON: Duration = Duration::from_millis(400);

/// A Hello of this process, without a name.
pub(crate) fn hello() -> Hello {
    let tid = rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned();
    Hello::new(tid, None).expect("no name is a valid one")
}

/// A Hello that names a GPU which the attacker has read of.
pub(crate) fn hello_on(uuid: [u8; 16]) -> Hello {
    let mut hello = hello();
    hello.devices[0] = DeviceState {
        uuid,
        memory_bytes: 64 << 20,
        ..DeviceState::default()
    };
    hello
}

impl Attacker {
    /// The UUID of the machine's GPU, which every user may ask the driver for.
    pub(crate) fn uuid(&self) -> Result<[u8; 16]> {
        let text = std::fs::read_to_string(self.order.folder.join("uuid"))?;
        Ok(u128::from_str_radix(text.trim(), 16)?.to_be_bytes())
    }

    /// Connects.
    pub(crate) fn wire(&self) -> Result<Wire> {
        Wire::connect(&self.runtime_dir())
    }

    /// Says one packet on a connection of its own; the session, or the reason of the refusal.
    pub(crate) fn knock(&mut self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Session> {
        let knocked = self.try_knock(packet, fds);
        self.tell(&knocked);
        knocked
    }

    /// As [`Self::knock`], and neither counts nor keeps what became of it.
    pub(crate) fn try_knock(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Session> {
        let wire = self.wire()?;
        wire.send(packet, fds)?;
        let Some((reply, fds)) = wire.answer(SOON) else {
            bail!("no answer");
        };
        if reply.code() != Some(ReplyCode::Welcome) {
            bail!("{:?}: {}", reply.code(), reply.text());
        }
        Session::new(wire, (reply.registration, reply.cookie), fds)
    }

    /// A session like that of an honest agent without a name.
    pub(crate) fn session(&mut self) -> Result<Session> {
        let me = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty())?;
        let hello = hello_on(self.uuid()?);
        self.knock(hello.as_bytes(), &[pidfd.as_fd()])
    }
}
