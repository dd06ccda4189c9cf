//! Device and host allocations.

use std::ffi::c_uint;

use simgpu_core::driver::{HostKind, PointerKind, current, driver};
use simgpu_core::{Error, Result};

use crate::abi::Out;

/// All flags of cuMemHostAlloc: portable, mapped, write-combined.
const HOST_ALLOC_FLAGS: c_uint = 7;
/// All flags of cuMemHostRegister: portable, mapped, I/O memory, read-only.
const HOST_REGISTER_FLAGS: c_uint = 15;

api! {
    3020 early fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        free.clear();
        total.clear();
        let (free_bytes, total_bytes) = driver()?.memory_info(current()?.gpu());
        free.set(free_bytes as usize)?;
        total.set(total_bytes as usize)
    }

    3020 early fn cuMemAlloc_v2(address: Out<u64>, size: usize) {
        address.clear();
        driver()?;
        address.check()?;
        address.set(current()?.alloc(size as u64)?)
    }

    3020 early fn cuMemAllocPitch_v2(
        address: Out<u64>,
        pitch: Out<usize>,
        width: usize,
        height: usize,
        element: c_uint,
    ) {
        address.clear();
        pitch.clear();
        driver()?;
        address.check()?;
        pitch.check()?;
        if width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
            return Err(Error::InvalidValue);
        }
        let row = width.checked_next_multiple_of(512).ok_or(Error::OutOfMemory)?;
        let size = row.checked_mul(height).ok_or(Error::OutOfMemory)?;
        address.set(current()?.alloc(size as u64)?)?;
        pitch.set(row)
    }

    3020 fn cuMemFree_v2(address: u64) {
        free(address)
    }

    3020 early fn cuMemGetAddressRange_v2(base: Out<u64>, size: Out<usize>, address: u64) {
        base.clear();
        size.clear();
        if base.check().is_err() && size.check().is_err() {
            return Ok(());
        }
        current()?;
        let known = driver()?.pointer(address).ok();
        let device = known.filter(|info| info.kind == PointerKind::Device);
        let info = device.ok_or(Error::NotFound)?;
        base.set_if_wanted(info.start);
        size.set_if_wanted(info.size as usize);
        Ok(())
    }

    3020 early fn cuMemAllocHost_v2(address: Out<usize>, size: usize) {
        address.clear();
        driver()?;
        address.check()?;
        address.set(current()?.alloc_host(size, 0)?)
    }

    2020 early fn cuMemHostAlloc(address: Out<usize>, size: usize, flags: c_uint) {
        address.clear();
        driver()?;
        address.check()?;
        if flags & !HOST_ALLOC_FLAGS != 0 {
            return Err(Error::InvalidValue);
        }
        address.set(current()?.alloc_host(size, flags)?)
    }

    2000 fn cuMemFreeHost(address: usize) {
        if address == 0 {
            return Err(Error::InvalidValue);
        }
        driver()?.remove_host(address, HostKind::Allocated)
    }

    3020 early fn cuMemHostGetDevicePointer_v2(device: Out<u64>, host: usize, flags: c_uint) {
        device.clear();
        let driver = driver()?;
        current()?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        driver.host_flags(host)?;
        device.set(host as u64)
    }

    2030 early fn cuMemHostGetFlags(flags: Out<c_uint>, address: usize) {
        flags.check()?;
        flags.set(driver()?.host_flags(address)?)
    }

    6050 fn cuMemHostRegister_v2(address: usize, size: usize, flags: c_uint) {
        register(address, size, flags)
    }

    4000 fn cuMemHostUnregister(address: usize) {
        driver()?.remove_host(address, HostKind::Registered)
    }
}

/// Memory is its address's: a current context is not needed, but one that is broken fails the call.
pub(super) fn free(address: u64) -> Result<()> {
    let driver = driver()?;
    match current() {
        Ok(context) => context.check()?,
        Err(Error::InvalidContext) => {}
        Err(error) => return Err(error),
    }
    if address == 0 {
        Ok(())
    } else {
        driver.free(address)
    }
}

pub(super) fn register(address: usize, size: usize, flags: c_uint) -> Result<()> {
    if flags & !HOST_REGISTER_FLAGS != 0 {
        return Err(Error::InvalidValue);
    }
    current()?.register_host(address, size, flags)
}
