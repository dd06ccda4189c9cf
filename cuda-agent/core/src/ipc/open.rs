//! The process that opens: asks for the chunks and maps them in a row.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use zerocopy::{FromBytes, IntoBytes};

use super::message::{BATCH, IpcHandle, Reply, Request};
use super::offer::{address, random};
use crate::agent::Agent;
use crate::cuda::{Access, Context, Handle, Status};
use crate::driver::Driver;
use crate::gate::lock;
use crate::log::say;
use crate::ops::{Found, Owner};
use crate::work::in_context;

/// How long the other process may take; it may be swapping.
const BOUND: Duration = Duration::from_secs(10);
/// How often it is asked again.
const AGAIN: Duration = Duration::from_millis(250);
/// The GPU's memory is mapped in units of so many bytes at most; addresses are aligned to it.
const ALIGN: u64 = 2 << 20;

/// What this process opened, by its address here.
#[derive(Debug, Default)]
pub struct Opened(Mutex<BTreeMap<u64, Mapped>>);

#[derive(Debug)]
struct Mapped {
    handle: IpcHandle,
    context: Context,
    ordinal: i32,
    /// How often it was opened.
    count: u32,
    region: Region,
}

/// Mapped chunks in a row.
#[derive(Debug)]
struct Region {
    at: u64,
    bytes: u64,
    chunk: u64,
    handles: Vec<Handle>,
}

impl Region {
    /// Unmaps all of it.
    fn close(self, driver: &dyn Driver) -> Result<(), Status> {
        let mapped = self.handles.len() as u64 * self.chunk;
        if mapped > 0 {
            driver.unmap(self.at, mapped)?;
        }
        for handle in self.handles {
            driver.release(handle)?;
        }
        driver.unreserve(self.at, self.bytes)
    }
}

impl Opened {
    /// Counts what is open already once more.
    fn again(&self, handle: &IpcHandle, ordinal: i32) -> Option<u64> {
        let mut opened = lock(&self.0);
        let mut known = opened.iter_mut();
        let (&at, known) =
            known.find(|(_, known)| known.handle == *handle && known.ordinal == ordinal)?;
        known.count += 1;
        Some(at)
    }
}

impl Agent {
    /// cuIpcOpenMemHandle of another agent's handle: the object's address here. What is open already
    /// is counted once more.
    pub fn open(&self, handle: IpcHandle) -> Result<u64, Status> {
        // The driver does not open what its own process made either.
        if self.offers.has(&handle) {
            return Err(Status::INVALID_CONTEXT);
        }
        let context = self.driver.current_context()?;
        let context = context.ok_or(Status::INVALID_CONTEXT)?;
        let ordinal = self.driver.current_device()?;
        if let Some(at) = self.opened.again(&handle, ordinal) {
            return Ok(at);
        }
        let (at, region) = map(self.driver, &handle, ordinal).inspect_err(|status| {
            say(format_args!(
                "memory of another process was not opened ({status:?}): it must run under rtswap as \
                 the same user, in the same network namespace, and must not have freed it"
            ));
        })?;
        // Another thread may have been faster.
        if let Some(known) = self.opened.again(&handle, ordinal) {
            region.close(self.driver)?;
            return Ok(known);
        }
        let mapped = Mapped {
            handle,
            context,
            ordinal,
            count: 1,
            region,
        };
        lock(&self.opened.0).insert(at, mapped);
        Ok(at)
    }

    /// cuIpcCloseMemHandle. Nothing if it was not opened by [`Self::open`].
    pub fn close(&self, at: u64) -> Option<Result<(), Status>> {
        let mut opened = lock(&self.opened.0);
        let known = opened.get_mut(&at)?;
        known.count -= 1;
        if known.count > 0 {
            return Some(Ok(()));
        }
        let mapped = opened.remove(&at)?;
        drop(opened);
        let done = in_context(self.driver, mapped.context, || self.driver.synchronize());
        Some(done.and_then(|()| mapped.region.close(self.driver)))
    }

    /// The opened object that holds an address.
    pub fn opened_at(&self, address: u64) -> Option<Found> {
        let opened = lock(&self.opened.0);
        let (&at, mapped) = opened.range(..=address).next_back()?;
        (address - at < mapped.handle.bytes).then_some(Found {
            at,
            bytes: mapped.handle.bytes,
            ordinal: mapped.ordinal,
            // Addresses of the other process's objects, which are unlike our own numbers.
            id: mapped.handle.at,
            owner: Owner::Context(mapped.context),
            range: (at, mapped.handle.bytes),
            rights: Access::READ_WRITE,
            handle_types: 0,
        })
    }
}

/// Maps all chunks of an offered object for a GPU: its address, and what to close.
fn map(driver: &dyn Driver, handle: &IpcHandle, ordinal: i32) -> Result<(u64, Region), Status> {
    let socket = connect(handle.socket).map_err(|_| Status::INVALID_VALUE)?;
    let end = Instant::now() + BOUND;
    let mut region: Option<Region> = None;
    let mut mapped = 0;
    loop {
        let asked = ask(&socket, handle, mapped, end);
        let step = asked
            .map_err(|_| Status::INVALID_VALUE)
            .and_then(|(reply, fds)| {
                if region.is_none() {
                    let bytes = reply.chunks * reply.chunk_bytes;
                    let at = driver.reserve(bytes, ALIGN.max(reply.chunk_bytes))?;
                    let chunk = reply.chunk_bytes;
                    let handles = Vec::new();
                    region = Some(Region {
                        at,
                        bytes,
                        chunk,
                        handles,
                    });
                }
                let region = region.as_mut().expect("made above");
                // The other process may not change its mind.
                if region.bytes != reply.chunks * reply.chunk_bytes
                    || region.chunk != reply.chunk_bytes
                {
                    return Err(Status::INVALID_VALUE);
                }
                for fd in fds {
                    let chunk = driver.import(fd.as_fd())?;
                    let at = region.at + mapped * region.chunk;
                    if let Err(status) = driver.map(at, region.chunk, chunk) {
                        driver.release(chunk)?;
                        return Err(status);
                    }
                    region.handles.push(chunk);
                    mapped += 1;
                }
                if mapped < reply.chunks {
                    return Ok(None);
                }
                driver.set_access(region.at, region.bytes, &[Access::full(ordinal)])?;
                Ok(Some(region.at + reply.offset))
            });
        match (step, region.take()) {
            (Ok(Some(at)), Some(region)) => return Ok((at, region)),
            (Ok(_), kept) => region = kept,
            (Err(status), kept) => {
                if let Some(region) = kept {
                    region.close(driver)?;
                }
                return Err(status);
            }
        }
    }
}

/// A socket that hears nobody but the process of that name.
pub(super) fn connect(name: u64) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let own = format!("rtswap-ipc-{:016x}", u64::from_ne_bytes(random()?));
    rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(own.as_bytes())?)?;
    rustix::net::connect(&socket, &address(name)?)?;
    Ok(socket)
}

/// Asks for the chunks from `first` on, until they come or the time is over.
pub(super) fn ask(
    socket: &OwnedFd,
    handle: &IpcHandle,
    first: u64,
    end: Instant,
) -> Result<(Reply, Vec<OwnedFd>), Errno> {
    let request = Request {
        handle: *handle,
        first,
    };
    while Instant::now() < end {
        match rustix::net::send(socket, request.as_bytes(), SendFlags::NOSIGNAL) {
            // Full: it is asked again below.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let mut waited = [PollFd::new(socket, PollFlags::IN)];
        let again = Timespec {
            tv_sec: 0,
            tv_nsec: AGAIN.subsec_nanos().into(),
        };
        match poll(&mut waited, Some(&again)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        // An answer to what was asked twice comes twice.
        while let Some((reply, fds)) = receive(socket)? {
            if reply == Reply::NO {
                return Err(Errno::ACCESS);
            }
            if reply.is_sound(handle.bytes, first, fds.len()) {
                return Ok((reply, fds));
            }
        }
    }
    Err(Errno::TIMEDOUT)
}

fn receive(socket: &OwnedFd) -> Result<Option<(Reply, Vec<OwnedFd>)>, Errno> {
    let mut packet = [0; size_of::<Reply>() + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH as usize))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let iov = &mut [IoSliceMut::new(&mut packet)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = match rustix::net::recvmsg(socket, iov, &mut ancillary, flags) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error),
    };
    let fds = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    let reply = Reply::read_from_bytes(&packet[..got.bytes]).ok();
    Ok(reply.map(|reply| (reply, fds)))
}
