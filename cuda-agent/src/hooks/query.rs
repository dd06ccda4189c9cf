//! What a program asks about memory: it sees its task's own budget, and objects of the arena as
//! ordinary allocations.

use core::ffi::{c_int, c_uint, c_void};

use rtswap_agent_core::agent::{Agent, agent};
use rtswap_agent_core::cuda::{CUdevice, CUdeviceptr, Status};

use super::hooks;

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

/// CU_POINTER_ATTRIBUTE_RANGE_START_ADDR.
const RANGE_START: c_int = 11;
/// CU_POINTER_ATTRIBUTE_RANGE_SIZE.
const RANGE_SIZE: c_int = 12;

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
    let Some((start, len)) = agent().and_then(|agent| agent.object_at(at)) else {
        // SAFETY: the caller's arguments.
        return unsafe { real(base, bytes, at) };
    };
    // SAFETY: the caller's pointers; the driver allows null for either.
    unsafe {
        if let Some(base) = base.as_mut() {
            *base = start;
        }
        if let Some(bytes) = bytes.as_mut() {
            *bytes = len as usize;
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
    // SAFETY: the caller's pointer for this attribute.
    if unsafe { fill_range(data, attribute, at) } {
        return Status::SUCCESS;
    }
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
            // SAFETY: the driver read both arrays up to `count`.
            unsafe { fill_range(*data.add(index), *attributes.add(index), at) };
        }
    }
    status
}

/// Answers for an object of the arena, whose mapping is the chunk's.
///
/// # Safety
/// `data` is null or what the attribute needs.
unsafe fn fill_range(data: *mut c_void, attribute: c_int, at: CUdeviceptr) -> bool {
    if data.is_null() || !matches!(attribute, RANGE_START | RANGE_SIZE) {
        return false;
    }
    let Some((start, bytes)) = agent().and_then(|agent| agent.object_at(at)) else {
        return false;
    };
    // SAFETY: both attributes are 64-bit words.
    unsafe {
        data.cast::<u64>()
            .write_unaligned(if attribute == RANGE_START {
                start
            } else {
                bytes
            });
    }
    true
}
