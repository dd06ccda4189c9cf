//! Physical allocations: granules of one GPU that belong to this process, or
//! that it holds together with others.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use super::place::{HostGranules, Place};
use super::process::Process;
use super::{in_forked_child, lock};
use crate::config::GRANULE;
use crate::machine::{Identity, Machine, Share, Shared};
use crate::{Error, Result};

/// What memory is taken for; each has its own sum in the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The program's data.
    Data,
    /// What a context takes for itself.
    Context,
}

/// What cuMemCreate was asked for beyond size and place; told to who asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wishes {
    /// CUmemAllocationHandleType bits.
    pub handle_types: u32,
    /// `allocFlags` as they came.
    pub flags: [u8; 8],
}

/// A physical allocation. It is given back when its last handle is released
/// and its last mapping gone, whichever comes later; shared memory when that
/// is so in all processes.
#[derive(Debug)]
pub struct Physical {
    machine: Arc<Machine>,
    identity: Identity,
    purpose: Purpose,
    /// Whether this process took it, and so is charged for it.
    is_own: bool,
    share: Mutex<Option<Share>>,
    /// Where it lies.
    pub place: Place,
    /// What else was asked for.
    pub wishes: Wishes,
    pub(crate) granules: Box<[u32]>,
}

impl Physical {
    /// Takes `size` bytes, a multiple of the granule.
    pub(crate) fn new(
        process: &Process,
        gpu: usize,
        size: u64,
        purpose: Purpose,
        wishes: Wishes,
    ) -> Result<Arc<Self>> {
        let machine = process.machine.clone();
        let identity = process.identity;
        let count = usize::try_from(size / GRANULE).map_err(|_| Error::OutOfMemory)?;
        let granules = machine
            .take(gpu, identity, count)
            .ok_or(Error::OutOfMemory)?;
        let physical = Self {
            machine,
            identity,
            purpose,
            is_own: true,
            share: Mutex::default(),
            place: Place::Gpu(gpu),
            wishes,
            granules,
        };
        physical.sum(gpu).fetch_add(size, Relaxed);
        Ok(Arc::new(physical))
    }

    /// Takes as much of the host: memory of this process alone.
    pub(crate) fn on_host(process: &Process, place: Place, size: u64) -> Result<Arc<Self>> {
        let count = usize::try_from(size / GRANULE).map_err(|_| Error::OutOfMemory)?;
        let granules = HostGranules::get()?.take(count);
        Ok(Arc::new(Self {
            machine: process.machine.clone(),
            identity: process.identity,
            purpose: Purpose::Data,
            is_own: true,
            share: Mutex::default(),
            place,
            wishes: Wishes::default(),
            granules: granules.ok_or(Error::OutOfMemory)?,
        }))
    }

    /// Holds what another process, or this one, made and shared.
    fn shared(process: &Process, shared: Shared) -> Arc<Self> {
        let [handle_types, flags] = shared.wishes;
        Arc::new(Self {
            machine: process.machine.clone(),
            identity: process.identity,
            purpose: Purpose::Data,
            is_own: false,
            share: Mutex::new(Some(shared.share)),
            place: Place::Gpu(shared.gpu),
            wishes: Wishes {
                handle_types: handle_types as u32,
                flags: flags.to_le_bytes(),
            },
            granules: shared.granules,
        })
    }

    /// Holds what is behind a descriptor.
    pub(crate) fn import(process: &Process, fd: BorrowedFd<'_>) -> Result<Arc<Self>> {
        let shared = process.machine.import(fd)?;
        Ok(Self::shared(process, shared))
    }

    /// Holds the share with this tag.
    pub(crate) fn open(process: &Process, tag: u64) -> Result<Arc<Self>> {
        let shared = process.machine.open_share(tag)?;
        Ok(Self::shared(process, shared))
    }

    /// A descriptor by which another process can hold it too.
    pub(crate) fn export(&self) -> Result<OwnedFd> {
        self.with_share(Share::descriptor)
    }

    /// The tag by which another process can hold it too.
    pub(crate) fn tag(&self) -> Result<u64> {
        self.with_share(|share| Ok(share.tag))
    }

    /// Makes it a share if it is none yet.
    fn with_share<T>(&self, then: impl FnOnce(&Share) -> Result<T>) -> Result<T> {
        let gpu = self.place.gpu().ok_or(Error::NotSupported)?;
        let mut share = lock(&self.share);
        if share.is_none() {
            let wishes = [
                u64::from(self.wishes.handle_types),
                u64::from_le_bytes(self.wishes.flags),
            ];
            let made = self
                .machine
                .share(gpu, self.identity, &self.granules, wishes)?;
            self.shared_sum(gpu).fetch_add(self.size(), Relaxed);
            *share = Some(made);
        }
        share.as_ref().map_or(Err(Error::Unknown), then)
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.granules.len() as u64 * GRANULE
    }

    fn sum(&self, gpu: usize) -> &AtomicU64 {
        let counters = self.machine.counters(gpu, self.identity.slot);
        match self.purpose {
            Purpose::Data => &counters.memory_bytes,
            Purpose::Context => &counters.context_bytes,
        }
    }

    fn shared_sum(&self, gpu: usize) -> &AtomicU64 {
        let counters = self.machine.counters(gpu, self.identity.slot);
        &counters.shared_bytes
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // What a forked child has is a copy of the account, not the memory.
        if in_forked_child() {
            return;
        }
        let Some(gpu) = self.place.gpu() else {
            if let Ok(host) = HostGranules::get() {
                host.give(&self.granules);
            }
            return;
        };
        if self.is_own {
            self.sum(gpu).fetch_sub(self.size(), Relaxed);
        }
        let Some(share) = lock(&self.share).take() else {
            self.machine.give(gpu, self.identity, &self.granules);
            return;
        };
        if self.is_own {
            self.shared_sum(gpu).fetch_sub(self.size(), Relaxed);
        }
        drop(share);
        self.machine.reap_shares();
    }
}
