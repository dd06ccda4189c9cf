//! Stream-ordered allocation and memory pools.

use std::ffi::{c_int, c_uint, c_void};

use simgpu_core::driver::{Access, Place, PoolAttribute, driver};
use simgpu_core::{Error, Result};

use super::vmm::{access_of, flags_of, is_host, on_device, place_at};
use crate::abi::{AccessDesc, In, Location, Out, POSIX_FD, PoolProps, stream};
use crate::export::DefaultStream;

/// CU_MEM_ALLOCATION_TYPE_PINNED, the only type that pools have here.
const PINNED: c_uint = 1;
/// CU_MEM_ALLOCATION_TYPE_MANAGED.
const MANAGED: c_uint = 2;

api! {
    11020 early fn cuMemAllocAsync | cuMemAllocAsync_ptsz(
        address: Out<u64>, size: usize, on: usize,
    ) |default| {
        alloc(&address, None, size, on, default)
    }

    11020 early fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz(
        address: Out<u64>, size: usize, pool: usize, on: usize,
    ) |default| {
        alloc(&address, Some(pool), size, on, default)
    }

    11020 fn cuMemFreeAsync | cuMemFreeAsync_ptsz(address: u64, on: usize) |default| {
        let (_, stream) = stream(on, default)?;
        driver()?.free_async(&stream, address)
    }

    11020 fn cuMemPoolCreate(pool: Out<usize>, props: In<PoolProps>) {
        pool.check()?;
        let PoolProps { kind, handle_types, location, max_size, .. } = props.get()?;
        if kind != PINNED {
            return Err(Error::InvalidValue);
        }
        // Descriptors may be asked for; no other kind of handle exists here.
        if handle_types & !POSIX_FD != 0 {
            return Err(Error::NotSupported);
        }
        let place = place_at(location)?;
        if place.gpu().is_none() && handle_types != 0 {
            return Err(Error::InvalidValue);
        }
        pool.set(driver()?.create_pool_in(place, max_size as u64)?)
    }

    11020 fn cuMemPoolDestroy(pool: usize) {
        driver()?.destroy_pool(pool)
    }

    11020 fn cuMemPoolTrimTo(pool: usize, keep: usize) {
        driver()?.trim_pool(pool, keep as u64)
    }

    11020 fn cuMemPoolSetAttribute(pool: usize, attribute: c_uint, value: In<u8>) {
        let number = attribute;
        let attribute = pool_attribute(number)?;
        let value = if is_switch(number) {
            // SAFETY: this is a switch's type.
            unsafe { value.cast::<c_int>() }.get()? as u64
        } else {
            // SAFETY: this is that of all others.
            unsafe { value.cast::<u64>() }.get()?
        };
        driver()?.set_pool_attribute(pool, attribute, value)
    }

    11020 fn cuMemPoolGetAttribute(pool: usize, attribute: c_uint, value: Out<c_void>) {
        value.check()?;
        let is = driver()?.pool_attribute(pool, pool_attribute(attribute)?)?;
        if is_switch(attribute) {
            // SAFETY: this is a switch's type.
            unsafe { value.cast::<c_int>() }.set(is as c_int)
        } else {
            // SAFETY: this is that of all others.
            unsafe { value.cast::<u64>() }.set(is)
        }
    }

    11020 fn cuMemPoolSetAccess(pool: usize, descs: In<AccessDesc>, count: usize) {
        // SAFETY: as many descriptions as the program says.
        for desc in unsafe { descs.list(count) } {
            let desc = desc?;
            let access = access_of(desc.flags)?;
            if is_own_host(pool, desc.location)? {
                // As for a GPU: its own place cannot be shut out.
                if access != Access::ReadWrite {
                    return Err(Error::InvalidValue);
                }
                continue;
            }
            let device = on_device(desc.location)?;
            driver()?.set_pool_access(pool, device, access)?;
        }
        Ok(())
    }

    11020 fn cuMemPoolGetAccess(flags: Out<c_uint>, pool: usize, location: In<Location>) {
        flags.check()?;
        let location = location.get()?;
        let access = if is_own_host(pool, location)? {
            Access::ReadWrite
        } else {
            driver()?.pool_access(pool, on_device(location)?)?
        };
        flags.set(flags_of(access))
    }

    11020 fn cuDeviceGetDefaultMemPool(pool: Out<usize>, device: c_int) {
        pool.set(driver()?.default_pool(place_of_gpu(device)?)?)
    }

    11020 fn cuDeviceGetMemPool(pool: Out<usize>, device: c_int) {
        pool.set(driver()?.current_pool(place_of_gpu(device)?)?)
    }

    11020 fn cuDeviceSetMemPool(device: c_int, pool: usize) {
        driver()?.set_current_pool(place_of_gpu(device)?, pool)
    }

    13000 fn cuMemGetDefaultMemPool(pool: Out<usize>, location: In<Location>, kind: c_uint) {
        pool.check()?;
        pool.set(driver()?.default_pool(place_of_pools(location, kind)?)?)
    }

    13000 fn cuMemGetMemPool(pool: Out<usize>, location: In<Location>, kind: c_uint) {
        pool.check()?;
        pool.set(driver()?.current_pool(place_of_pools(location, kind)?)?)
    }

    13000 fn cuMemSetMemPool(location: In<Location>, kind: c_uint, pool: usize) {
        driver()?.set_current_pool(place_of_pools(location, kind)?, pool)
    }
}

fn place_of_gpu(device: c_int) -> Result<Place> {
    driver()?.gpu(device)?;
    Ok(Place::Gpu(device as usize))
}

/// Pools of managed memory are not simulated.
fn place_of_pools(location: In<Location>, kind: c_uint) -> Result<Place> {
    let location = location.get()?;
    match kind {
        PINNED => place_at(location),
        MANAGED => Err(Error::NotSupported),
        _ => Err(Error::InvalidValue),
    }
}

/// Whether a place of the host is named for a pool of the host.
fn is_own_host(pool: usize, location: Location) -> Result<bool> {
    Ok(is_host(location) && driver()?.pool(pool)?.place.gpu().is_none())
}

fn alloc(
    address: &Out<u64>,
    pool: Option<usize>,
    size: usize,
    on: usize,
    default: DefaultStream,
) -> Result<()> {
    address.clear();
    driver()?;
    address.check()?;
    let (_, stream) = stream(on, default)?;
    address.set(driver()?.alloc_async(&stream, pool, size as u64)?)
}

/// CUmemPool_attribute by its number.
fn pool_attribute(number: c_uint) -> Result<PoolAttribute> {
    Ok(match number {
        1 => PoolAttribute::FollowEventDependencies,
        2 => PoolAttribute::AllowOpportunistic,
        3 => PoolAttribute::AllowInternalDependencies,
        4 => PoolAttribute::ReleaseThreshold,
        5 => PoolAttribute::Reserved,
        6 => PoolAttribute::ReservedHigh,
        7 => PoolAttribute::Used,
        8 => PoolAttribute::UsedHigh,
        _ => return Err(Error::InvalidValue),
    })
}

/// The first three are ints, the others 64 bits wide.
fn is_switch(number: c_uint) -> bool {
    number <= 3
}
