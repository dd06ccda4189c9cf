//! The virtual memory calls.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::physical::{Physical, Purpose, Wishes};
use super::place::Place;
use super::{Access, Driver, lock};
use crate::clock::Lasting;
use crate::config::{GRANULE, GpuConfig};
use crate::machine::Counters;
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

    /// cuMemCreate in the host; returns the handle.
    pub fn create_on_host(&self, place: Place, size: u64) -> Result<u64> {
        if size == 0 || !size.is_multiple_of(GRANULE) {
            return Err(Error::InvalidValue);
        }
        Ok(self.keep(Physical::on_host(&self.process, place, size)?))
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
        let gpu = physical.place.gpu();
        let _cost = self.lasting(gpu, |costs| costs.release_us);
        *retained -= 1;
        let released = (*retained == 0).then(|| handles.remove(&handle));
        drop(handles);
        drop(released);
        self.count_call(gpu, |counters| &counters.releases);
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

    /// cuMemMap of a whole allocation.
    pub fn map(&self, address: u64, size: u64, handle: u64) -> Result<()> {
        let physical = self.physical(handle)?;
        let gpu = physical.place.gpu();
        let _cost = self.lasting(gpu, |costs| costs.map_us);
        self.process.space_mut().map(address, size, &physical)?;
        self.count_call(gpu, |counters| &counters.maps);
        Ok(())
    }

    /// cuMemUnmap of whole mappings that fill the range; addresses with nothing mapped stay as they are.
    pub fn unmap(&self, address: u64, size: u64) -> Result<()> {
        let mapping = self.process.space().mapping(address);
        let gpu = mapping.and_then(|(_, _, physical)| physical.place.gpu());
        let _cost = self.lasting(gpu, |costs| costs.unmap_us);
        let unmapped = self.process.space_mut().unmap(address, size)?;
        drop(unmapped);
        self.count_call(gpu, |counters| &counters.unmaps);
        Ok(())
    }

    /// What a call takes for memory of a GPU; what it takes for the host's is not known.
    fn lasting(&self, gpu: Option<usize>, cost: impl Fn(&GpuConfig) -> f64) -> Lasting {
        Lasting::us(gpu.map_or(0.0, |gpu| cost(self.process.machine.gpu(gpu))))
    }

    /// Counts a call for memory of a GPU.
    pub(super) fn count_call(&self, gpu: Option<usize>, of: impl Fn(&Counters) -> &AtomicU64) {
        if let Some(gpu) = gpu {
            of(self.process.counters(gpu)).fetch_add(1, Relaxed);
        }
    }

    /// cuMemSetAccess of the program itself.
    pub fn set_host_access(&self, address: u64, size: u64, access: Access) -> Result<()> {
        let mut space = self.process.space_mut();
        space.set_host_access(address, size, access)
    }

    /// cuMemGetAccess of the program itself.
    pub fn host_access(&self, address: u64) -> Result<Access> {
        self.process.space().host_access(address)
    }

    /// cuMemSetAccess of one GPU to a range of whole mappings.
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
