//! Managed memory: device memory that the host reaches at the same address.
//!
//! It lives on the device from the start and nothing migrates: the host's pages
//! there are the device's granules. So it takes device memory whole, and there
//! cannot be more of it than that.

use super::context::Context;
use super::heap::{map_new, unmap};
use super::process::Process;
use super::space::Access;
use super::{Driver, lock};
use crate::config::GRANULE;
use crate::machine::hide;
use crate::{Error, Result};

impl Context {
    /// cuMemAllocManaged: all GPUs may access it, and the host.
    pub fn alloc_managed(&self, size: u64) -> Result<u64> {
        self.check()?;
        let process = &self.executor.process;
        process.captures.check_unsafe()?;
        if size == 0 {
            return Err(Error::InvalidValue);
        }
        let whole = size
            .checked_next_multiple_of(GRANULE)
            .ok_or(Error::OutOfMemory)?;
        let address = self.with_pools_trimmed(|| map_new(process, self.gpu(), whole))?;
        let exposed = self.expose(address, whole);
        if exposed.is_err() {
            release(process, address, whole)?;
            return exposed.map(|()| address);
        }
        lock(&self.heap).insert_managed(address, size);
        self.count_alloc();
        Ok(address)
    }

    fn expose(&self, address: u64, len: u64) -> Result<()> {
        let process = &self.executor.process;
        for gpu in 0..process.machine.config().gpus.len() {
            process
                .space_mut()
                .set_access(address, len, gpu, Access::ReadWrite)?;
        }
        let mapping = process.space().mapping(address);
        let (_, _, physical) = mapping.ok_or(Error::Unknown)?;
        let gpu = physical.place.gpu().ok_or(Error::Unknown)?;
        process
            .machine
            .expose(gpu, &physical.granules, address)
            .map_err(|_| Error::OperatingSystem)
    }

    fn is_managed(&self, address: u64) -> bool {
        lock(&self.heap).is_managed(address)
    }
}

/// Takes managed memory from host and device.
pub(super) fn release(process: &Process, address: u64, len: u64) -> Result<()> {
    hide(address, len);
    unmap(process, address, len)
}

impl Driver {
    /// Whether managed memory is around an address.
    pub fn is_managed(&self, address: u64) -> bool {
        let around = |context: &Context| context.is_managed(address);
        self.contexts.find(around).is_some()
    }

    /// Fails unless all of a range is managed memory of one allocation.
    pub fn check_managed(&self, address: u64, len: u64) -> Result<()> {
        let info = self.pointer(address)?;
        let fits = address
            .checked_add(len)
            .is_some_and(|end| len > 0 && end <= info.start + info.size);
        if self.is_managed(address) && fits {
            Ok(())
        } else {
            Err(Error::InvalidValue)
        }
    }
}
