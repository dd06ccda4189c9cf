//! The agent socket, and its connections until they have sent a Hello.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rtswap_engine::owners::Subordinates;
use rtswap_policy::units::{Nanos, Time};
use rtswap_wire::hello::{Hello, HelloError, Reply, ReplyCode};
use rustix::io;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketFlags, accept_with};
use zerocopy::IntoBytes;

use crate::log;
use crate::sys::packet;
use crate::sys::peer::Peer;

/// How long a connection may stay silent.
const SILENCE: Nanos = Nanos(5_000_000_000);

/// Silent connections of one user at a time, so that no user can shut out the others. On a busy
/// machine hundreds of programs that start together wait between their connection and their Hello.
const SILENT_PER_USER: usize = 256;

/// A connection without a session.
#[derive(Debug)]
pub struct Pending {
    /// The connected socket, on which the Hello is expected.
    pub socket: OwnedFd,
    /// The connecting process, as the kernel names it.
    pub peer: Peer,
    until: Time,
}

/// The listening socket, and the accepted connections that have no session yet.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    pending: BTreeMap<u64, Pending>,
    /// A descriptor to give up when no other is left.
    spare: Option<OwnedFd>,
    subordinates: Subordinates,
}

impl Listener {
    /// Takes a socket that listens and does not block.
    /// A user's connections count with those under the user's subordinate ids.
    pub fn new(socket: OwnedFd, subordinates: Subordinates) -> Self {
        Self {
            spare: socket.try_clone().ok(),
            socket,
            pending: BTreeMap::new(),
            subordinates,
        }
    }

    /// The listening socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Accepts one waiting connection under the number `connection`. Returns its socket, unless it was
    /// refused.
    pub fn accept(&mut self, connection: u64, now: Time) -> Option<BorrowedFd<'_>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&self.socket, flags) {
            Ok(socket) => socket,
            Err(io::Errno::MFILE | io::Errno::NFILE) => {
                self.turn_away();
                return None;
            }
            Err(io::Errno::AGAIN | io::Errno::CONNABORTED | io::Errno::INTR) => return None,
            Err(error) => {
                if log::may_say(log::ANYBODY, "accept") {
                    tracing::error!(%error, "cannot take an agent's connection");
                }
                return None;
            }
        };
        let user = |uid: u32| self.subordinates.user(uid);
        let uid = user(socket_peercred(&socket).ok()?.uid.as_raw());
        let same = |pending: &&Pending| user(pending.peer.uid) == uid;
        if self.pending.values().filter(same).count() >= SILENT_PER_USER {
            let text = "too many connections without a Hello";
            refuse(&socket, ReplyCode::Busy, text);
            return None;
        }
        let pending = Pending {
            peer: Peer::of(&socket).ok()?,
            socket,
            until: now + SILENCE,
        };
        let entry = self.pending.entry(connection).insert_entry(pending);
        Some(entry.into_mut().socket.as_fd())
    }

    /// Refuses the waiting connection when no descriptor is left: accepts it with the spare descriptor
    /// and closes it. Left alone, it would wake the thread again and again.
    fn turn_away(&mut self) {
        if log::may_say(log::ANYBODY, "descriptors") {
            tracing::error!("no descriptor is left for an agent's connection: raise LimitNOFILE");
        }
        self.spare = None;
        if let Ok(socket) = accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        {
            let text = "rtswapd has no descriptor left; try again later";
            refuse(&socket, ReplyCode::Busy, text);
        }
        self.spare = self.socket.try_clone().ok();
    }

    /// Reads the Hello of a pending connection, with the pidfd that came with it. None if none has come yet,
    /// or the peer is gone or was refused.
    pub fn receive(&mut self, connection: u64) -> Option<(Box<Hello>, Option<OwnedFd>, Pending)> {
        let pending = self.pending.get(&connection)?;
        // Longer than any Hello, so that one that is too long is not taken for its beginning.
        let mut packet = [0; size_of::<Hello>() + 1];
        let (length, fds) = match packet::receive(&pending.socket, &mut packet) {
            Err(io::Errno::AGAIN | io::Errno::INTR) => return None,
            Err(_) | Ok((0, _)) => {
                self.pending.remove(&connection);
                return None;
            }
            Ok(received) => received,
        };
        let mut pending = self.pending.remove(&connection)?;
        match Hello::parse(&packet[..length]) {
            Ok(hello) => {
                pending.peer.ensure_stat();
                Some((Box::new(hello), fds.into_iter().next(), pending))
            }
            Err(error) => {
                let code = match error {
                    HelloError::Version(_) => ReplyCode::Version,
                    _ => ReplyCode::Malformed,
                };
                if log::may_say(pending.peer.uid, "hello") {
                    tracing::warn!(pid = pending.peer.pid, uid = pending.peer.uid, "{error}");
                }
                refuse(&pending.socket, code, &error.to_string());
                None
            }
        }
    }

    /// Closes the connections that stayed silent too long.
    pub fn expire(&mut self, now: Time) {
        self.pending.retain(|_, pending| now < pending.until);
    }

    /// When to [`Self::expire`] next.
    pub fn next_expiry(&self) -> Option<Time> {
        self.pending.values().map(|pending| pending.until).min()
    }
}

/// Sends a refusal with its reason. The connection ends when its socket is dropped.
pub fn refuse<F: AsFd>(socket: F, code: ReplyCode, text: &str) {
    // A peer that is gone or does not read needs no answer.
    let _ = packet::send(socket, Reply::refusal(code, text).as_bytes(), &[]);
}
