//! Allocation and free. What cuMemAlloc gives lies in the arena; stream-ordered and managed
//! memory passes through, as GPU work where it is.

use core::ffi::{c_uint, c_void};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{CUdeviceptr, CUstream, Status};

use super::{enter, hooks};

hooks! {
    alloc: cuMemAlloc_v2 (found: *mut CUdeviceptr, bytes: usize);
    alloc_pitch: cuMemAllocPitch_v2 (
        found: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint);
    free: cuMemFree_v2 (at: CUdeviceptr);
    free_async: cuMemFreeAsync, cuMemFreeAsync_ptsz (at: CUdeviceptr, stream: CUstream);
    gated: cuMemAllocAsync, cuMemAllocAsync_ptsz (
        found: *mut CUdeviceptr, bytes: usize, stream: CUstream);
    gated: cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz (
        found: *mut CUdeviceptr, bytes: usize, pool: *mut c_void, stream: CUstream);
}

unsafe fn alloc(real: cuMemAlloc_v2::Function, found: *mut CUdeviceptr, bytes: usize) -> Status {
    let ours = agent()
        .filter(|_| !found.is_null())
        .and_then(|agent| agent.alloc(bytes as u64));
    match ours {
        Some(Ok(at)) => {
            // SAFETY: the caller's pointer, not null.
            unsafe { *found = at };
            Status::SUCCESS
        }
        Some(Err(status)) => status,
        // SAFETY: the caller's arguments.
        None => unsafe { real(found, bytes) },
    }
}

unsafe fn alloc_pitch(
    real: cuMemAllocPitch_v2::Function,
    found: *mut CUdeviceptr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: c_uint,
) -> Status {
    let ours = agent()
        .filter(|_| !found.is_null() && !pitch.is_null())
        .and_then(|agent| agent.alloc_pitch(width as u64, height as u64, element));
    match ours {
        Some(Ok((at, row))) => {
            // SAFETY: the caller's pointers, not null.
            unsafe {
                *found = at;
                *pitch = row as usize;
            }
            Status::SUCCESS
        }
        Some(Err(status)) => status,
        // SAFETY: the caller's arguments.
        None => unsafe { real(found, pitch, width, height, element) },
    }
}

unsafe fn free(real: cuMemFree_v2::Function, at: CUdeviceptr) -> Status {
    match agent().and_then(|agent| agent.free(at)) {
        Some(result) => result.into(),
        // SAFETY: the caller's arguments.
        None => unsafe { real(at) },
    }
}

unsafe fn free_async(real: cuMemFreeAsync::Function, at: CUdeviceptr, stream: CUstream) -> Status {
    let Some(agent) = agent() else {
        // SAFETY: the caller's arguments.
        return unsafe { real(at, stream) };
    };
    if let Some(result) = agent.free_async(at) {
        return result.into();
    }
    let Some(_call) = enter(agent) else {
        return Status::UNKNOWN;
    };
    // SAFETY: the caller's arguments.
    unsafe { real(at, stream) }
}
