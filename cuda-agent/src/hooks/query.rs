//! What a program asks about memory: it sees its task's own budget, and objects of the arena as
//! ordinary allocations, wherever they are.

use core::ffi::{c_int, c_uint, c_void};

use rtswap_agent_core::agent::{Agent, agent};
use rtswap_agent_core::cuda::{CUdevice, CUdeviceptr, Status};
use rtswap_agent_core::ops::{Found, Owner};

use super::hooks;

hooks! {
    memory_info: cuMemGetInfo_v2 (free: *mut usize, total: *mut usize);
    memory_info_v1: cuMemGetInfo (free: *mut c_uint, total: *mut c_uint);
    total_memory: cuDeviceTotalMem_v2 (bytes: *mut usize, device: CUdevice);
    total_memory_v1: cuDeviceTotalMem (bytes: *mut c_uint, device: CUdevice);
    address_range: cuMemGetAddressRange_v2 (
        base: *mut CUdeviceptr, bytes: *mut usize, at: CUdeviceptr);
    pointer_attribute: cuPointerGetAttribute (
        data: *mut c_void, attribute: c_int, at: CUdeviceptr);
    pointer_attributes: cuPointerGetAttributes (
        count: c_uint, attributes: *mut c_int, data: *mut *mut c_void, at: CUdeviceptr);
    set_attribute: cuPointerSetAttribute (
        value: *const c_void, attribute: c_int, at: CUdeviceptr);
}

/// CUpointer_attribute.
mod attribute {
    use core::ffi::c_int;

    pub(super) const CONTEXT: c_int = 1;
    pub(super) const MEMORY_TYPE: c_int = 2;
    pub(super) const DEVICE_POINTER: c_int = 3;
    pub(super) const SYNC_MEMOPS: c_int = 6;
    pub(super) const BUFFER_ID: c_int = 7;
    pub(super) const IS_MANAGED: c_int = 8;
    pub(super) const DEVICE_ORDINAL: c_int = 9;
    pub(super) const LEGACY_IPC: c_int = 10;
    pub(super) const RANGE_START: c_int = 11;
    pub(super) const RANGE_SIZE: c_int = 12;
    pub(super) const MAPPED: c_int = 13;
    pub(super) const HANDLE_TYPES: c_int = 14;
    pub(super) const RDMA: c_int = 15;
    pub(super) const ACCESS: c_int = 16;
    pub(super) const POOL: c_int = 17;
    pub(super) const MAPPING_SIZE: c_int = 18;
    pub(super) const MAPPING_START: c_int = 19;
    pub(super) const BLOCK_ID: c_int = 20;
    pub(super) const DECOMPRESSION: c_int = 21;
}

/// CU_MEMORYTYPE_DEVICE.
const DEVICE: c_uint = 2;

/// The task's free and all bytes, in the form in which a program asks.
///
/// # Safety
/// Both are null, as the driver allows, or what it filled after a success.
unsafe fn show<T>(status: Status, free: *mut T, total: *mut T, narrow: fn(u64) -> T) -> Status {
    if status == Status::SUCCESS
        && let Some((ours_free, ours_total)) = agent().and_then(Agent::memory_info)
    {
        // SAFETY: by the caller's promise.
        unsafe {
            if let Some(free) = free.as_mut() {
                *free = narrow(ours_free);
            }
            if let Some(total) = total.as_mut() {
                *total = narrow(ours_total);
            }
        }
    }
    status
}

/// As much as 32 bits can say.
fn in_32_bits(bytes: u64) -> c_uint {
    c_uint::try_from(bytes).unwrap_or(c_uint::MAX)
}

unsafe fn memory_info(
    real: cuMemGetInfo_v2::Function,
    free: *mut usize,
    total: *mut usize,
) -> Status {
    // SAFETY: the caller's arguments; the driver fills both.
    unsafe { show(real(free, total), free, total, |bytes| bytes as usize) }
}

unsafe fn memory_info_v1(
    real: cuMemGetInfo::Function,
    free: *mut c_uint,
    total: *mut c_uint,
) -> Status {
    // SAFETY: the caller's arguments; the driver fills both.
    unsafe { show(real(free, total), free, total, in_32_bits) }
}

/// # Safety
/// `bytes` is null, or what the driver filled after a success.
unsafe fn show_total<T>(
    status: Status,
    bytes: *mut T,
    device: CUdevice,
    narrow: fn(u64) -> T,
) -> Status {
    if status == Status::SUCCESS
        && let Some(ours) = agent().and_then(|agent| agent.total_memory(device))
        // SAFETY: by the caller's promise.
        && let Some(bytes) = unsafe { bytes.as_mut() }
    {
        *bytes = narrow(ours);
    }
    status
}

unsafe fn total_memory(
    real: cuDeviceTotalMem_v2::Function,
    bytes: *mut usize,
    device: CUdevice,
) -> Status {
    // SAFETY: the caller's arguments; the driver fills it.
    unsafe { show_total(real(bytes, device), bytes, device, |bytes| bytes as usize) }
}

unsafe fn total_memory_v1(
    real: cuDeviceTotalMem::Function,
    bytes: *mut c_uint,
    device: CUdevice,
) -> Status {
    // SAFETY: the caller's arguments; the driver fills it.
    unsafe { show_total(real(bytes, device), bytes, device, in_32_bits) }
}

unsafe fn address_range(
    real: cuMemGetAddressRange_v2::Function,
    base: *mut CUdeviceptr,
    bytes: *mut usize,
    at: CUdeviceptr,
) -> Status {
    let found = match agent().and_then(|agent| agent.look_up(at)) {
        Some(Ok(found)) => found,
        Some(Err(_)) => return Status::NOT_FOUND,
        // SAFETY: the caller's arguments.
        None => return unsafe { real(base, bytes, at) },
    };
    // SAFETY: the caller's pointers; the driver allows null for either.
    unsafe {
        if let Some(base) = base.as_mut() {
            *base = found.at;
        }
        if let Some(bytes) = bytes.as_mut() {
            *bytes = found.bytes as usize;
        }
    }
    Status::SUCCESS
}

unsafe fn pointer_attribute(
    real: cuPointerGetAttribute::Function,
    data: *mut c_void,
    attribute: c_int,
    at: CUdeviceptr,
) -> Status {
    let found = agent().and_then(|agent| agent.look_up(at));
    if let Some(Ok(found)) = &found
        && attribute == attribute::SYNC_MEMOPS
        && agent().is_some_and(|agent| agent.is_held(found))
    {
        // SAFETY: the caller's arguments.
        return unsafe { real(data, attribute, at) };
    }
    match found {
        // SAFETY: the caller's pointer for this attribute.
        Some(Ok(found)) if unsafe { fill(data, attribute, at, found) } => Status::SUCCESS,
        // Null, or what ordinary device memory does not have.
        Some(_) => Status::INVALID_VALUE,
        // SAFETY: the caller's arguments.
        None => unsafe { real(data, attribute, at) },
    }
}

unsafe fn pointer_attributes(
    real: cuPointerGetAttributes::Function,
    count: c_uint,
    attributes: *mut c_int,
    data: *mut *mut c_void,
    at: CUdeviceptr,
) -> Status {
    // SAFETY: the caller's arguments. For what is not there, or not to be known of it, the driver
    // gives zeros.
    let status = unsafe { real(count, attributes, data, at) };
    if status == Status::SUCCESS
        && let Some(Ok(found)) = agent().and_then(|agent| agent.look_up(at))
    {
        for index in 0..count as usize {
            // SAFETY: the driver read both arrays up to `count`.
            unsafe { fill(*data.add(index), *attributes.add(index), at, found) };
        }
    }
    status
}

unsafe fn set_attribute(
    real: cuPointerSetAttribute::Function,
    value: *const c_void,
    attribute: c_int,
    at: CUdeviceptr,
) -> Status {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(value, attribute, at) };
    // No other attribute can be set, which the driver says best.
    let asking = agent().filter(|_| attribute == attribute::SYNC_MEMOPS);
    match asking.and_then(|agent| Some((agent, agent.look_up(at)?))) {
        Some((agent, Ok(found))) => agent.set_attribute(&found, call),
        Some((_, Err(status))) => status,
        None => call(),
    }
}

/// Answers as the driver does for memory of cuMemAlloc, of a pool, or mapped by the program.
/// Its mapping is the chunk's, if it is there at all. False for an attribute that such memory does
/// not have.
///
/// # Safety
/// `data` is null or what the attribute needs.
unsafe fn fill(data: *mut c_void, attribute: c_int, at: CUdeviceptr, found: Found) -> bool {
    if data.is_null() {
        return false;
    }
    let (context, pool) = match found.owner {
        Owner::Context(context) => (context.0, 0),
        Owner::Pool(pool) => (0, pool.0),
        Owner::Program => (0, 0),
    };
    // SAFETY: the driver's types for these attributes.
    unsafe {
        match attribute {
            attribute::CONTEXT => data.cast::<usize>().write_unaligned(context),
            attribute::POOL => data.cast::<usize>().write_unaligned(pool),
            attribute::MEMORY_TYPE => data.cast::<c_uint>().write_unaligned(DEVICE),
            attribute::ACCESS => data.cast::<c_uint>().write_unaligned(found.rights),
            attribute::DEVICE_POINTER => data.cast::<u64>().write_unaligned(at),
            attribute::DEVICE_ORDINAL => data.cast::<c_int>().write_unaligned(found.ordinal),
            attribute::RANGE_START => data.cast::<u64>().write_unaligned(found.range.0),
            attribute::RANGE_SIZE => data.cast::<u64>().write_unaligned(found.range.1),
            attribute::MAPPING_START => data.cast::<u64>().write_unaligned(found.at),
            attribute::MAPPING_SIZE => data.cast::<u64>().write_unaligned(found.bytes),
            attribute::BUFFER_ID | attribute::BLOCK_ID => {
                data.cast::<u64>().write_unaligned(found.buffer_id());
            }
            // Truth takes 32 bits: so the driver stores it.
            attribute::MAPPED => data.cast::<c_uint>().write_unaligned(1),
            attribute::LEGACY_IPC => {
                let offered = agent().is_some_and(|agent| agent.can_offer(&found));
                data.cast::<c_uint>().write_unaligned(offered.into());
            }
            // It moves, so that no other device may hold its pages.
            attribute::IS_MANAGED
            | attribute::RDMA
            | attribute::DECOMPRESSION
            | attribute::SYNC_MEMOPS => data.cast::<c_uint>().write_unaligned(0),
            attribute::HANDLE_TYPES => data
                .cast::<u64>()
                .write_unaligned(found.handle_types.into()),
            _ => return false,
        }
    }
    true
}
