//! What a program asks about memory: it sees its task's own budget, and objects of the arena as
//! ordinary allocations.

use core::ffi::{c_int, c_uint, c_void};

use rtswap_agent_core::agent::{Agent, agent};
use rtswap_agent_core::cuda::{CUdevice, CUdeviceptr, Status};

use super::{enter, hooks};

hooks! {
    memory_info: cuMemGetInfo_v2 (free: *mut usize, total: *mut usize);
    total_memory: cuDeviceTotalMem_v2 (bytes: *mut usize, device: CUdevice);
    address_range: cuMemGetAddressRange_v2 (
        base: *mut CUdeviceptr, bytes: *mut usize, at: CUdeviceptr);
    pointer_attribute: cuPointerGetAttribute (
        data: *mut c_void, attribute: c_int, at: CUdeviceptr);
    pointer_attributes: cuPointerGetAttributes (
        count: c_uint, attributes: *mut c_int, data: *mut *mut c_void, at: CUdeviceptr);
}

/// CUpointer_attribute, those that an object has whether its chunks are mapped or not.
mod attribute {
    use core::ffi::c_int;

    pub(super) const CONTEXT: c_int = 1;
    pub(super) const MEMORY_TYPE: c_int = 2;
    pub(super) const DEVICE_POINTER: c_int = 3;
    pub(super) const DEVICE_ORDINAL: c_int = 9;
    pub(super) const RANGE_START: c_int = 11;
    pub(super) const RANGE_SIZE: c_int = 12;
}

/// CU_MEMORYTYPE_DEVICE.
const DEVICE: c_uint = 2;

unsafe fn memory_info(
    real: cuMemGetInfo_v2::Function,
    free: *mut usize,
    total: *mut usize,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(free, total) };
    if status == Status::SUCCESS
        && let Some((ours_free, ours_total)) = agent().and_then(Agent::memory_info)
    {
        // SAFETY: the driver filled both.
        unsafe {
            *free = ours_free as usize;
            *total = ours_total as usize;
        }
    }
    status
}

unsafe fn total_memory(
    real: cuDeviceTotalMem_v2::Function,
    bytes: *mut usize,
    device: CUdevice,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(bytes, device) };
    if status == Status::SUCCESS
        && let Some(ours) = agent().and_then(|agent| agent.total_memory(device))
    {
        // SAFETY: the driver filled it.
        unsafe { *bytes = ours as usize };
    }
    status
}

unsafe fn address_range(
    real: cuMemGetAddressRange_v2::Function,
    base: *mut CUdeviceptr,
    bytes: *mut usize,
    at: CUdeviceptr,
) -> Status {
    let Some((start, object, _)) = agent().and_then(|agent| agent.object_at(at)) else {
        // SAFETY: the caller's arguments.
        return unsafe { real(base, bytes, at) };
    };
    // SAFETY: the caller's pointers; the driver allows null for either.
    unsafe {
        if let Some(base) = base.as_mut() {
            *base = start;
        }
        if let Some(bytes) = bytes.as_mut() {
            *bytes = object.bytes as usize;
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
    let ours = agent().filter(|agent| agent.object_at(at).is_some());
    let Some(agent) = ours else {
        // SAFETY: the caller's arguments.
        return unsafe { real(data, attribute, at) };
    };
    // SAFETY: the caller's pointer for this attribute.
    if unsafe { fill(data, attribute, at) } {
        return Status::SUCCESS;
    }
    // The rest the driver knows only of memory that is there.
    let Some(_call) = enter(agent) else {
        return Status::UNKNOWN;
    };
    // SAFETY: the caller's arguments.
    unsafe { real(data, attribute, at) }
}

unsafe fn pointer_attributes(
    real: cuPointerGetAttributes::Function,
    count: c_uint,
    attributes: *mut c_int,
    data: *mut *mut c_void,
    at: CUdeviceptr,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(count, attributes, data, at) };
    if status == Status::SUCCESS {
        for index in 0..count as usize {
            // SAFETY: the driver read both arrays up to `count`. Where nothing is mapped it gave what
            // it gives for no memory, which is right for the rest.
            unsafe { fill(*data.add(index), *attributes.add(index), at) };
        }
    }
    status
}

/// Answers for an object of the arena, whose mapping is the chunk's, if it is there.
///
/// # Safety
/// `data` is null or what the attribute needs.
unsafe fn fill(data: *mut c_void, attribute: c_int, at: CUdeviceptr) -> bool {
    if data.is_null() {
        return false;
    }
    let Some((start, object, ordinal)) = agent().and_then(|agent| agent.object_at(at)) else {
        return false;
    };
    // SAFETY: the driver's types for these attributes.
    unsafe {
        match attribute {
            attribute::CONTEXT => data.cast::<usize>().write_unaligned(object.context.0),
            attribute::MEMORY_TYPE => data.cast::<c_uint>().write_unaligned(DEVICE),
            attribute::DEVICE_POINTER => data.cast::<u64>().write_unaligned(at),
            attribute::DEVICE_ORDINAL => data.cast::<c_int>().write_unaligned(ordinal),
            attribute::RANGE_START => data.cast::<u64>().write_unaligned(start),
            attribute::RANGE_SIZE => data.cast::<u64>().write_unaligned(object.bytes),
            _ => return false,
        }
    }
    true
}
