//! The virtual memory calls.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::physical::{Physical, Purpose, Wishes};
use super::{Access, Driver, lock};
use crate::clock::Lasting;
use crate::config::GRANULE;
use crate::{Error, Result};

impl Driver {
    /// cuMemAddressReserve; `align` 0 is the granularity, `hint` 0 is anywhere.
    pub fn reserve_address(&self, size: u64, align: u64, hint: u64) -> Result<u64> {
        self.process.space_mut().reserve(size, align, hint)
    }

    /// cuMemAddressFree of a whole reservation in which nothing is mapped.
    pub fn free_address(&self, address: u64, size: u64) -> Result<()> {
        self.process.space_mut().unreserve(address, size)
    }

    /// cuMemCreate with nothing wished for; returns the handle.
    pub fn create_physical(&self, ordinal: i32, size: u64) -> Result<u64> {
        self.create_physical_with(ordinal, size, Wishes::default())
    }

    /// cuMemCreate; returns the handle.
    pub fn create_physical_with(&self, ordinal: i32, size: u64, wishes: Wishes) -> Result<u64> {
        let costs = self.gpu(ordinal)?;
        if !costs.virtual_memory {
            return Err(Error::NotSupported);
        }
        if size == 0 || !size.is_multiple_of(GRANULE) {
            return Err(Error::InvalidValue);
        }
        let _cost = Lasting::us(costs.create_us);
        let gpu = ordinal as usize;
        let physical = Physical::new(&self.process, gpu, size, Purpose::Data, wishes)?;
        let handle = self.keep(physical);
        self.process.counters(gpu).creates.fetch_add(1, Relaxed);
        Ok(handle)
    }

    /// Keeps an allocation for the program; returns its handle.
    fn keep(&self, physical: Arc<Physical>) -> u64 {
        let handle = Arc::as_ptr(&physical) as u64;
        let mut handles = lock(&self.process.handles);
        handles.entry(handle).or_insert((physical, 0)).1 += 1;
        handle
    }

    /// cuMemExportToShareableHandle of what was created for that.
    pub fn export_physical(&self, handle: u64, handle_type: u32) -> Result<OwnedFd> {
        let physical = self.physical(handle)?;
        if physical.wishes.handle_types & handle_type == 0 {
            return Err(Error::InvalidValue);
        }
        physical.export()
    }

    /// cuMemImportFromShareableHandle; returns the handle.
    pub fn import_physical(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        Ok(self.keep(Physical::import(&self.process, fd)?))
    }

    /// cuMemRelease: what is still mapped stays until it is unmapped.
    pub fn release_physical(&self, handle: u64) -> Result<()> {
        let mut handles = lock(&self.process.handles);
        let (physical, retained) = handles.get_mut(&handle).ok_or(Error::InvalidValue)?;
        let gpu = physical.gpu;
        let _cost = Lasting::us(self.process.machine.gpu(gpu).release_us);
        *retained -= 1;
        let released = (*retained == 0).then(|| handles.remove(&handle));
        drop(handles);
        drop(released);
        self.process.counters(gpu).releases.fetch_add(1, Relaxed);
        Ok(())
    }

    /// The allocation behind a handle.
    pub fn physical(&self, handle: u64) -> Result<Arc<Physical>> {
        let handles = lock(&self.process.handles);
        handles
            .get(&handle)
            .map(|(physical, _)| physical.clone())
            .ok_or(Error::InvalidValue)
    }

    /// cuMemRetainAllocationHandle: a handle of what is mapped at an address.
    pub fn retain_physical(&self, address: u64) -> Result<u64> {
        let mapping = self.process.space().mapping(address);
        let (_, _, physical) = mapping.ok_or(Error::InvalidValue)?;
        Ok(self.keep(physical))
    }

    /// cuMemMap of an allocation from its start on.
    pub fn map(&self, address: u64, size: u64, handle: u64) -> Result<()> {
        let physical = self.physical(handle)?;
        let _cost = Lasting::us(self.process.machine.gpu(physical.gpu).map_us);
        self.process.space_mut().map(address, size, &physical)?;
        self.process
            .counters(physical.gpu)
            .maps
            .fetch_add(1, Relaxed);
        Ok(())
    }

    /// cuMemUnmap of whole mappings that fill the range.
    pub fn unmap(&self, address: u64, size: u64) -> Result<()> {
        let mapping = self.process.space().mapping(address);
        let (_, _, physical) = mapping.ok_or(Error::InvalidValue)?;
        let _cost = Lasting::us(self.process.machine.gpu(physical.gpu).unmap_us);
        let unmapped = self.process.space_mut().unmap(address, size)?;
        drop(unmapped);
        self.process
            .counters(physical.gpu)
            .unmaps
            .fetch_add(1, Relaxed);
        Ok(())
    }

    /// cuMemSetAccess of one GPU to a range that is wholly mapped.
    pub fn set_access(&self, address: u64, size: u64, ordinal: i32, access: Access) -> Result<()> {
        let costs = self.gpu(ordinal)?;
        let _cost = Lasting::us(costs.access_us);
        self.process
            .space_mut()
            .set_access(address, size, ordinal as usize, access)?;
        self.process
            .counters(ordinal as usize)
            .accesses
            .fetch_add(1, Relaxed);
        Ok(())
    }

    /// cuMemGetAccess.
    pub fn access(&self, address: u64, ordinal: i32) -> Result<Access> {
        self.gpu(ordinal)?;
        self.process.space().access(address, ordinal as usize)
    }
}
