//! Virtual memory management.

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::ptr;

use simgpu_core::config::GRANULE;
use simgpu_core::driver::{Access, Place, Wishes, driver};
use simgpu_core::{Error, Result};

use crate::abi::{
    AccessDesc, AllocationProp, FABRIC, In, Location, ON_DEVICE, ON_HOST, ON_NODE, ON_OWN_NODE,
    Out, POSIX_FD,
};

/// CU_MEM_ALLOCATION_TYPE_PINNED, the only type there is.
const PINNED: c_uint = 1;

api! {
    10020 fn cuMemAddressReserve(
        address: Out<u64>,
        size: usize,
        alignment: usize,
        hint: u64,
        flags: c_ulonglong,
    ) {
        address.check()?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        address.set(driver()?.reserve_address(size as u64, alignment as u64, hint)?)
    }

    10020 fn cuMemAddressFree(address: u64, size: usize) {
        driver()?.free_address(address, size as u64)
    }

    10020 fn cuMemCreate(
        handle: Out<u64>,
        size: usize,
        prop: In<AllocationProp>,
        flags: c_ulonglong,
    ) {
        handle.check()?;
        let AllocationProp { requested_handle_types: handle_types, flags: wanted, .. } = prop.get()?;
        // No fabric is set up on the simulated machine.
        if handle_types & FABRIC != 0 {
            return Err(Error::NotPermitted);
        }
        let place = place_of(prop)?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        let Place::Gpu(device) = place else {
            return handle.set(driver()?.create_on_host(place, size as u64)?);
        };
        let device = device as c_int;
        let wishes = Wishes { handle_types, flags: wanted };
        handle.set(driver()?.create_physical_with(device, size as u64, wishes)?)
    }

    10020 fn cuMemExportToShareableHandle(
        shareable: Out<c_int>,
        handle: u64,
        handle_type: c_uint,
        flags: c_ulonglong,
    ) {
        shareable.check()?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        if !matches!(handle_type, POSIX_FD | FABRIC) {
            return Err(Error::NotSupported);
        }
        // No memory is created for a fabric, so that this gives a descriptor, which the program closes.
        let descriptor = driver()?.export_physical(handle, handle_type)?;
        shareable.set(descriptor.into_raw_fd())
    }

    10020 fn cuMemImportFromShareableHandle(
        handle: Out<u64>,
        shareable: usize,
        handle_type: c_uint,
    ) {
        handle.check()?;
        if handle_type != POSIX_FD {
            return Err(Error::NotSupported);
        }
        let number = c_int::try_from(shareable).map_err(|_| Error::InvalidValue)?;
        if number < 0 {
            return Err(Error::InvalidValue);
        }
        // SAFETY: the program's own descriptor for the time of this call; a
        // number that is none is refused when it is duplicated.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        handle.set(driver()?.import_physical(descriptor)?)
    }

    10020 fn cuMemRelease(handle: u64) {
        driver()?.release_physical(handle)
    }

    10020 fn cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: c_ulonglong) {
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        if offset != 0 {
            return Err(Error::NotSupported);
        }
        driver()?.map(address, size as u64, handle)
    }

    10020 fn cuMemUnmap(address: u64, size: usize) {
        driver()?.unmap(address, size as u64)
    }

    10020 fn cuMemSetAccess(address: u64, size: usize, descs: In<AccessDesc>, count: usize) {
        let driver = driver()?;
        if count == 0 {
            return Err(Error::InvalidValue);
        }
        // SAFETY: as many descriptions as the program says.
        for desc in unsafe { descs.list(count) } {
            let desc = desc?;
            let access = access_of(desc.flags)?;
            if is_host(desc.location) {
                driver.set_host_access(address, size as u64, access)?;
                continue;
            }
            let device = on_device(desc.location)?;
            driver.set_access(address, size as u64, device, access)?;
        }
        Ok(())
    }

    10020 fn cuMemGetAccess(flags: Out<c_ulonglong>, location: In<Location>, address: u64) {
        let location = location.get()?;
        let access = if is_host(location) {
            driver()?.host_access(address)?
        } else {
            driver()?.access(address, on_device(location)?)?
        };
        flags.set(flags_of(access).into())
    }

    10020 fn cuMemGetAllocationGranularity(
        granularity: Out<usize>,
        prop: In<AllocationProp>,
        option: c_uint,
    ) {
        place_of(prop)?;
        // Minimum and recommended.
        if option > 1 {
            return Err(Error::InvalidValue);
        }
        granularity.set(GRANULE as usize)
    }

    10020 fn cuMemGetAllocationPropertiesFromHandle(prop: Out<AllocationProp>, handle: u64) {
        let physical = driver()?.physical(handle)?;
        prop.set(AllocationProp {
            kind: PINNED,
            requested_handle_types: physical.wishes.handle_types,
            location: match physical.place {
                Place::Gpu(gpu) => Location { kind: ON_DEVICE, id: gpu as c_int },
                Place::Host(kind, id) => Location { kind, id },
            },
            win32_meta_data: ptr::null_mut(),
            flags: physical.wishes.flags,
        })
    }

    11000 fn cuMemRetainAllocationHandle(handle: Out<u64>, address: u64) {
        handle.check()?;
        handle.set(driver()?.retain_physical(address)?)
    }
}

fn place_of(prop: In<AllocationProp>) -> Result<Place> {
    let prop = prop.get()?;
    if prop.kind != PINNED {
        return Err(Error::InvalidValue);
    }
    // Descriptors are the only handles that exist here.
    if prop.requested_handle_types & !POSIX_FD != 0 {
        return Err(Error::NotSupported);
    }
    let place = place_at(prop.location)?;
    if let Place::Host(kind, _) = place
        && prop.requested_handle_types != 0
    {
        // Of the host at large nothing can be exported; of a node it is not simulated.
        let by_documentation = kind == ON_HOST;
        return Err(if by_documentation {
            Error::InvalidValue
        } else {
            Error::NotSupported
        });
    }
    Ok(place)
}

/// A GPU, or a node of the host: the machine is taken to have one.
pub(super) fn place_at(location: Location) -> Result<Place> {
    let Location { kind, id } = location;
    match kind {
        ON_DEVICE => {
            driver()?.gpu(id)?;
            Ok(Place::Gpu(id as usize))
        }
        ON_HOST => Ok(Place::Host(kind, 0)),
        ON_NODE if id == 0 => Ok(Place::Host(kind, 0)),
        // cuMemCreate names the thread's own node as invalid, cuMemPoolCreate too.
        ON_NODE | ON_OWN_NODE => Err(Error::InvalidValue),
        _ => Err(Error::NotSupported),
    }
}

/// Whether access for the processors is meant: all are of the one node.
pub(super) fn is_host(location: Location) -> bool {
    matches!(location.kind, ON_HOST | ON_NODE)
}

/// CUmemAccess_flags as what it lets a GPU do.
pub(super) fn access_of(flags: c_uint) -> Result<Access> {
    match flags {
        0 => Ok(Access::None),
        1 => Ok(Access::Read),
        3 => Ok(Access::ReadWrite),
        _ => Err(Error::InvalidValue),
    }
}

/// The other way round.
pub(super) fn flags_of(access: Access) -> c_uint {
    match access {
        Access::None => 0,
        Access::Read => 1,
        Access::ReadWrite => 3,
    }
}

pub(super) fn on_device(location: Location) -> Result<c_int> {
    if location.kind == ON_DEVICE {
        Ok(location.id)
    } else {
        Err(Error::NotSupported)
    }
}
