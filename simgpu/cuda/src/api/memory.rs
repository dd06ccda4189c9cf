//! Device and host allocations, and what is known of an address.

use std::ffi::{c_int, c_uint, c_void};

use simgpu_core::driver::{HostKind, PointerKind, current, driver};
use simgpu_core::{Error, Result};

use crate::abi::{In, Out};

/// All flags of cuMemHostAlloc: portable, mapped, write-combined.
const HOST_ALLOC_FLAGS: c_uint = 7;
/// All flags of cuMemHostRegister: portable, mapped, I/O memory, read-only.
const HOST_REGISTER_FLAGS: c_uint = 15;

api! {
    3020 fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let (free_bytes, total_bytes) = driver()?.memory_info(current()?.gpu());
        free.set(free_bytes as usize)?;
        total.set(total_bytes as usize)
    }

    3020 fn cuMemAlloc_v2(address: Out<u64>, size: usize) {
        address.check()?;
        address.set(current()?.alloc(size as u64)?)
    }

    3020 fn cuMemAllocPitch_v2(
        address: Out<u64>,
        pitch: Out<usize>,
        width: usize,
        height: usize,
        element: c_uint,
    ) {
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
        let driver = driver()?;
        current()?.check()?;
        if address == 0 { Ok(()) } else { driver.free(address) }
    }

    3020 fn cuMemGetAddressRange_v2(base: Out<u64>, size: Out<usize>, address: u64) {
        current()?;
        let known = driver()?.pointer(address).ok();
        let device = known.filter(|info| info.kind == PointerKind::Device);
        let info = device.ok_or(Error::NotFound)?;
        base.set_if_wanted(info.start);
        size.set_if_wanted(info.size as usize);
        Ok(())
    }

    3020 fn cuMemAllocHost_v2(address: Out<usize>, size: usize) {
        address.check()?;
        address.set(current()?.alloc_host(size, 0)?)
    }

    2020 fn cuMemHostAlloc(address: Out<usize>, size: usize, flags: c_uint) {
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

    2020 fn cuMemHostGetDevicePointer_v2(device: Out<u64>, host: usize, flags: c_uint) {
        let driver = driver()?;
        current()?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        driver.host_flags(host)?;
        device.set(host as u64)
    }

    2030 fn cuMemHostGetFlags(flags: Out<c_uint>, address: usize) {
        flags.set(driver()?.host_flags(address)?)
    }

    6050 fn cuMemHostRegister_v2(address: usize, size: usize, flags: c_uint) {
        if flags & !HOST_REGISTER_FLAGS != 0 {
            return Err(Error::InvalidValue);
        }
        current()?.register_host(address, size, flags)
    }

    4000 fn cuMemHostUnregister(address: usize) {
        driver()?.remove_host(address, HostKind::Registered)
    }

    4000 fn cuPointerGetAttribute(data: Out<c_void>, attribute: c_uint, address: u64) {
        pointer_attribute(&data, attribute, address)
    }

    7000 fn cuPointerGetAttributes(
        count: c_uint,
        attributes: In<c_uint>,
        data: In<*mut c_void>,
        address: u64,
    ) {
        // An address that is not known gives zeros here and no error.
        let known = driver()?.pointer(address).is_ok() || driver()?.is_device_address(address);
        for index in 0..count as usize {
            let attribute = attributes.at(index)?;
            let out = data.out_at(index)?;
            let answered = known && pointer_attribute(&out, attribute, address).is_ok();
            if !answered {
                clear_attribute(&out, attribute)?;
            }
        }
        Ok(())
    }

    6000 fn cuPointerSetAttribute(value: In<c_int>, attribute: c_uint, address: u64) {
        match attribute {
            // The synchronization of copies.
            6 => driver()?.set_sync_memops(address, value.get()? != 0),
            _ => Err(Error::InvalidValue),
        }
    }
}

/// CU_MEMORYTYPE_HOST and CU_MEMORYTYPE_DEVICE.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;

fn pointer_attribute(data: &Out<c_void>, attribute: c_uint, address: u64) -> Result<()> {
    let driver = driver()?;
    // The reserved range of an address is known even where nothing is mapped.
    if let (11..=13, Some((start, size))) = (attribute, driver.reservation(address)) {
        let allocated = driver
            .pointer(address)
            .ok()
            .filter(|info| info.context != 0 || info.pool != 0);
        let (start, size) = allocated.map_or((start, size), |info| (info.start, info.size));
        return match attribute {
            11 => data.cast().set(start),
            12 => data.cast().set(size as usize),
            _ => data.cast().set(u8::from(driver.pointer(address).is_ok())),
        };
    }
    let info = driver.pointer(address)?;
    let is_device = info.kind == PointerKind::Device;
    match attribute {
        // Context, memory type, device pointer, host pointer.
        1 => data.cast().set(info.context),
        2 => data.cast().set(if is_device { DEVICE } else { HOST }),
        4 if is_device && !driver.is_managed(address) => Err(Error::InvalidValue),
        3 | 4 => data.cast().set(address),
        // Synchronous copies; managed; handles for legacy IPC.
        6 => data.cast().set(u8::from(driver.has_sync_memops(address))),
        8 => data.cast().set(u8::from(driver.is_managed(address))),
        10 => data.cast().set(u8::from(driver.has_ipc_handle(address))),
        // An id that is unique while the memory lives; start of the range.
        7 | 11 => data.cast().set(info.start),
        9 => data.cast().set(info.gpu as c_int),
        // Size of the range, mapped, handle types, access.
        12 => data.cast().set(info.size as usize),
        13 => data.cast().set(1_u8),
        14 => data.cast().set(driver.handle_types(address)),
        16 => data.cast().set(3_u32),
        // Memory pool.
        17 => data.cast().set(info.pool),
        _ => Err(Error::InvalidValue),
    }
}

/// Zero in the size that the attribute has.
fn clear_attribute(data: &Out<c_void>, attribute: c_uint) -> Result<()> {
    match attribute {
        1 | 3 | 4 | 7 | 11 | 12 | 14 | 17 => data.cast().set(0_u64),
        2 | 16 => data.cast().set(0_u32),
        9 => data.cast().set(-2_i32),
        6 | 8 | 10 | 13 => data.cast().set(0_u8),
        _ => Err(Error::InvalidValue),
    }
}
