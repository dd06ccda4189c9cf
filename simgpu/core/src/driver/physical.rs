//! Physical allocations: granules of one GPU that belong to this process.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::in_forked_child;
use super::process::Process;
use crate::config::GRANULE;
use crate::machine::{Identity, Machine};
use crate::{Error, Result};

/// What memory is taken for; each has its own sum in the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The program's data.
    Data,
    /// What a context takes for itself.
    Context,
}

/// A physical allocation. It is given back when its last handle is released
/// and its last mapping gone, whichever comes later.
#[derive(Debug)]
pub struct Physical {
    machine: Arc<Machine>,
    identity: Identity,
    purpose: Purpose,
    /// Ordinal of the GPU it is on.
    pub gpu: usize,
    pub(crate) granules: Box<[u32]>,
}

impl Physical {
    /// Takes `size` bytes, a multiple of the granule.
    pub(crate) fn new(
        process: &Process,
        gpu: usize,
        size: u64,
        purpose: Purpose,
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
            gpu,
            granules,
        };
        physical.sum().fetch_add(size, Relaxed);
        if physical.machine.config().scrub {
            for index in &physical.granules {
                // SAFETY: the granule has GRANULE bytes and is ours since just now.
                unsafe {
                    ptr::write_bytes(physical.machine.granule(gpu, *index), 0, GRANULE as usize);
                };
            }
        }
        Ok(Arc::new(physical))
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.granules.len() as u64 * GRANULE
    }

    fn sum(&self) -> &AtomicU64 {
        let counters = self.machine.counters(self.gpu, self.identity.slot);
        match self.purpose {
            Purpose::Data => &counters.memory_bytes,
            Purpose::Context => &counters.context_bytes,
        }
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // What a forked child has is a copy of the account, not the memory.
        if !in_forked_child() {
            self.sum().fetch_sub(self.size(), Relaxed);
            self.machine.give(self.gpu, self.identity, &self.granules);
        }
    }
}
