//! The process that offers: a datagram socket by which the swap thread gives descriptors of chunks
//! to whoever knows the secret of an object and runs as the same user.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock};

use rustix::io::Errno;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType,
};
use zerocopy::{FromBytes, IntoBytes};

use super::message::{BATCH, IpcHandle, Reply, Request};
use crate::agent::Agent;
use crate::cuda::{Status, Stream};
use crate::enter::Clue;
use crate::gate::lock;
use crate::log::{debug, say};
use crate::memory::KeptFor;
use crate::ops::{Found, Owner};
use crate::session::{Descriptor, Mark};

/// Requests answered before the swap thread looks after its own work again.
const AT_ONCE: usize = 16;

/// What this process offers to others.
#[derive(Debug, Default)]
pub struct Offers {
    socket: OnceLock<Option<Open>>,
    /// Each object's handle, by where it starts.
    handles: Mutex<BTreeMap<u64, IpcHandle>>,
}

#[derive(Debug)]
struct Open {
    socket: Descriptor,
    name: u64,
}

/// The address of the socket of that name, in the network namespace.
pub(super) fn address(name: u64) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("rtswap-ipc-{name:016x}").as_bytes())
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], Errno> {
    let mut bytes = [0; N];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    // Up to 256 bytes come whole.
    (got == N).then_some(bytes).ok_or(Errno::IO)
}

impl Open {
    fn new() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        rustix::net::sockopt::set_socket_passcred(&socket, true)?;
        let name = u64::from_ne_bytes(random()?);
        rustix::net::bind(&socket, &address(name)?)?;
        let socket = Descriptor::new(socket)?;
        Ok(Self { socket, name })
    }
}

impl Offers {
    fn open(&self) -> Option<&Open> {
        let open = self.socket.get_or_init(|| match Open::new() {
            Ok(open) => Some(open),
            Err(error) => {
                say(format_args!(
                    "no memory can be shared with other processes: {error}"
                ));
                None
            }
        });
        open.as_ref()
    }

    /// The socket to be watched, once there is one.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get()?.as_ref()?.socket.get()
    }

    /// For the child of a fork.
    pub fn mark(&self) -> Option<Mark> {
        Some(self.socket.get()?.as_ref()?.socket.mark())
    }

    /// Whether a handle is of this process.
    pub(super) fn has(&self, handle: &IpcHandle) -> bool {
        let own = self.socket.get().and_then(Option::as_ref);
        own.is_some_and(|own| own.name == handle.socket)
    }
}

impl Agent {
    /// Whether an object can be opened by other processes.
    pub fn can_offer(&self, found: &Found) -> bool {
        matches!(found.owner, Owner::Context(_)) && self.driver.can_export(found.ordinal)
    }

    /// cuIpcGetMemHandle of the arena's object around `at`: holds its chunks for good, once they
    /// are all there.
    pub fn offer(&self, at: u64) -> Option<Result<IpcHandle, Status>> {
        let found = match self.allocated_at(at)? {
            Ok(found) => found,
            Err(status) => return Some(Err(status)),
        };
        // As the driver, which has another way for pools.
        if matches!(found.owner, Owner::Pool(_)) {
            return Some(Err(Status::INVALID_VALUE));
        }
        let device = self.device(found.ordinal)?;
        if !self.can_offer(&found) {
            say(format_args!(
                "this GPU's memory cannot be shared with other processes under rtswap: the driver \
                 exports no descriptors, or is older than CUDA 12.2"
            ));
            return Some(Err(Status::NOT_SUPPORTED));
        }
        Some(self.offer_found(found.at, found.bytes, found.id, device))
    }

    fn offer_found(
        &self,
        at: u64,
        bytes: u64,
        id: u64,
        device: &crate::device::Device,
    ) -> Result<IpcHandle, Status> {
        let open = self.offers.open().ok_or(Status::NOT_SUPPORTED)?;
        let secret = random().map_err(|_| Status::UNKNOWN)?;
        let call = self.enter_on(Stream::LEGACY, &|clue| clue(Clue::Address(at)));
        device.memory().hold_range(at, bytes, KeptFor::Processes)?;
        drop(call);
        let mut handles = lock(&self.offers.handles);
        let fresh = IpcHandle::new(open.name, secret, at, bytes, id);
        let handle = handles
            .entry(at)
            .and_modify(|known| {
                // Another object lies there by now.
                if known.id != id {
                    *known = fresh;
                }
            })
            .or_insert(fresh);
        let handle = *handle;
        drop(handles);
        // The swap thread watches a socket that is new, a forked child closes it.
        self.mark_descriptors();
        self.wake.ring();
        Ok(handle)
    }

    /// Synchronous copies for an allocation, asked for by `call`: what other devices read or write
    /// directly must stay where it is.
    pub fn set_attribute(&self, found: &Found, call: impl Fn() -> Status) -> Status {
        let Some(device) = self.device(found.ordinal) else {
            return call();
        };
        let within = self.enter_on(Stream::LEGACY, &|clue| clue(Clue::Address(found.at)));
        let status = call();
        if status != Status::SUCCESS {
            return status;
        }
        if found.owner != Owner::Program {
            let mut memory = device.memory();
            return memory
                .hold_range(found.at, found.bytes, KeptFor::Devices)
                .into();
        }
        drop(within);
        match self.share_mapping(found.at) {
            // Of the one allocation.
            Ok(true) => call(),
            Ok(false) => {
                let _call = self.enter_on(Stream::LEGACY, &|clue| clue(Clue::Address(found.at)));
                self.hold_mapping(found.at).into()
            }
            Err(status) => status,
        }
    }

    /// Whether an allocation is held where it is.
    pub fn is_held(&self, found: &Found) -> bool {
        if found.owner == Owner::Program {
            return self.is_mapping_held(found.at);
        }
        let device = self.device(found.ordinal);
        device.is_some_and(|device| device.memory().is_held(found.at, found.bytes))
    }

    /// Answers those who want chunks. In the swap thread; never blocks.
    pub fn answer_offers(&self) {
        for _ in 0..AT_ONCE {
            let Some(socket) = self.offers.fd() else {
                return;
            };
            match receive(socket) {
                Ok(Some((request, from))) => {
                    if let Err(error) = self.answer(socket, &request, &from) {
                        debug(format_args!("chunks were not given away: {error}"));
                        // Who asks hears it at once, or after a while.
                        let no = Reply::NO;
                        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                        let _ = rustix::net::sendto(socket, no.as_bytes(), flags, &from);
                    }
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    fn answer(
        &self,
        socket: BorrowedFd<'_>,
        request: &Request,
        to: &SocketAddrAny,
    ) -> Result<(), Errno> {
        let at = request.handle.at;
        let known = lock(&self.offers.handles).get(&at) == Some(&request.handle);
        let found = self.allocated_at(at).and_then(Result::ok);
        let Some(found) = found.filter(|found| known && found.at == at) else {
            return Err(Errno::ACCESS);
        };
        let device = self.device(found.ordinal).ok_or(Errno::NODEV)?;
        // Locked from the look at who lies there until all descriptors are made: what is freed and
        // made anew meanwhile may have the same address and the same handles of the driver.
        let memory = device.memory();
        let handles = memory
            .held_handles(at, request.handle.id)
            .ok_or(Errno::STALE)?;
        let batch = handles
            .iter()
            .skip(usize::try_from(request.first).map_err(|_| Errno::INVAL)?)
            .take(BATCH as usize)
            .map(|&handle| self.driver.export(handle))
            .collect::<Result<Vec<OwnedFd>, Status>>()
            .map_err(|_| Errno::IO)?;
        let chunk_bytes = memory.chunk_bytes();
        drop(memory);
        let reply = Reply {
            first: request.first,
            chunks: handles.len() as u64,
            chunk_bytes,
            offset: at % chunk_bytes,
        };
        let fds: Vec<BorrowedFd<'_>> = batch.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH as usize))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if fds.is_empty() || !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Errno::INVAL);
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let iov = [IoSlice::new(reply.as_bytes())];
        rustix::net::sendmsg_addr(socket, to, &iov, &mut ancillary, flags)?;
        Ok(())
    }
}

/// A request and who sent it; nothing if it is none, or from another user.
fn receive(socket: BorrowedFd<'_>) -> Result<Option<(Request, SocketAddrAny)>, Errno> {
    let mut packet = [0; size_of::<Request>() + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let iov = &mut [IoSliceMut::new(&mut packet)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, iov, &mut ancillary, flags)?;
    let me = rustix::process::geteuid();
    let same_user = ancillary.drain().any(|message| match message {
        RecvAncillaryMessage::ScmCredentials(who) => who.uid == me || who.uid.is_root(),
        _ => false,
    });
    let request = Request::read_from_bytes(&packet[..got.bytes]).ok();
    Ok(request.zip(got.address).filter(|_| same_user))
}
