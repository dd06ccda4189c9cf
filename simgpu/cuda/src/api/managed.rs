//! Managed memory.

use std::ffi::{c_int, c_uint};

use simgpu_core::driver::{current, driver};
use simgpu_core::{Error, Result};

use crate::abi::{Location, ON_DEVICE, Out, stream};

/// CU_MEM_ATTACH_GLOBAL and CU_MEM_ATTACH_HOST; CU_MEM_ATTACH_SINGLE is for
/// streams only.
const GLOBAL: c_uint = 1;
const HOST: c_uint = 2;
const SINGLE: c_uint = 4;
/// CU_DEVICE_CPU.
const CPU: c_int = -1;
/// CU_MEM_LOCATION_TYPE_HOST and the two kinds of NUMA nodes.
const HOST_LOCATIONS: std::ops::RangeInclusive<c_uint> = 2..=4;
/// CUmem_advise: read-mostly, preferred location, accessed by, and their opposites.
const ADVICE: std::ops::RangeInclusive<c_uint> = 1..=6;

api! {
    6000 early fn cuMemAllocManaged(address: Out<u64>, size: usize, flags: c_uint) {
        address.clear();
        address.check()?;
        if !matches!(flags, GLOBAL | HOST) {
            return Err(Error::InvalidValue);
        }
        address.set(current()?.alloc_managed(size as u64)?)
    }

    6000 fn cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz(
        on: usize, address: u64, len: usize, flags: c_uint,
    ) |default| {
        stream(on, default)?;
        if !matches!(flags, GLOBAL | HOST | SINGLE) {
            return Err(Error::InvalidValue);
        }
        // Everybody has access all the time; 0 is the whole allocation.
        driver()?.check_managed(address, len.max(1) as u64)
    }

    8000 fn cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz(
        address: u64, len: usize, device: c_int, on: usize,
    ) |default| {
        stream(on, default)?;
        check_device(device)?;
        // It is where it is used already.
        driver()?.check_managed(address, len as u64)
    }

    12020 early fn cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz(
        address: u64, len: usize, location: Location, flags: c_uint, on: usize,
    ) |default| {
        check_location(location)?;
        stream(on, default)?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        driver()?.check_managed(address, len as u64)
    }

    8000 fn cuMemAdvise(address: u64, len: usize, advice: c_uint, device: c_int) {
        check_device(device)?;
        advise(address, len, advice)
    }

    12020 early fn cuMemAdvise_v2(address: u64, len: usize, advice: c_uint, location: Location) {
        check_location(location)?;
        advise(address, len, advice)
    }
}

fn check_device(device: c_int) -> Result<()> {
    if device == CPU {
        Ok(())
    } else {
        driver()?.gpu(device).map(drop)
    }
}

fn check_location(location: Location) -> Result<()> {
    match location.kind {
        ON_DEVICE => driver()?.gpu(location.id).map(drop),
        kind if HOST_LOCATIONS.contains(&kind) => Ok(()),
        _ => Err(Error::InvalidValue),
    }
}

/// Advice is only checked: nothing here migrates.
fn advise(address: u64, len: usize, advice: c_uint) -> Result<()> {
    if !ADVICE.contains(&advice) {
        return Err(Error::InvalidValue);
    }
    driver()?.check_managed(address, len as u64)
}
