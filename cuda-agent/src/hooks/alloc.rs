//! Allocation and free. What cuMemAlloc gives lies in the arena; managed memory, and the 32-bit
//! forms of an age before unified addresses, are the driver's and counted.

use core::ffi::c_uint;

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{CUdeviceptr, Status};
use rtswap_agent_core::outside::Held;

use super::hooks;

hooks! {
    alloc: cuMemAlloc_v2 (found: *mut CUdeviceptr, bytes: usize);
    alloc_pitch: cuMemAllocPitch_v2 (
        found: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint);
    free: cuMemFree_v2 (at: CUdeviceptr);
    managed: cuMemAllocManaged (found: *mut CUdeviceptr, bytes: usize, flags: c_uint);
    alloc_v1: cuMemAlloc (found: *mut c_uint, bytes: c_uint);
    alloc_pitch_v1: cuMemAllocPitch (
        found: *mut c_uint, pitch: *mut c_uint, width: c_uint, height: c_uint, element: c_uint);
    free_v1: cuMemFree (at: c_uint);
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
    if let Some(result) = agent().and_then(|agent| agent.free(at)) {
        return result.into();
    }
    // SAFETY: the caller's arguments.
    let_go(at, || unsafe { real(at) })
}

/// Frees what may be held beyond the arena.
pub(super) fn let_go(at: CUdeviceptr, call: impl FnOnce() -> Status) -> Status {
    let status = call();
    if status == Status::SUCCESS
        && let Some(agent) = agent()
    {
        agent.let_go(Held::Memory(at));
    }
    status
}

/// Allocates beyond the arena.
///
/// # Safety
/// `found` is null or what `call` fills.
unsafe fn hold<T: Copy + Into<u64>>(
    found: *mut T,
    bytes: u64,
    mut call: impl FnMut() -> Status,
) -> Status {
    // SAFETY: by the caller's promise.
    let made = || unsafe { found.as_ref() }.map(|&at| Held::Memory(at.into()));
    match agent() {
        Some(agent) => agent.hold(bytes, false, call, made),
        None => call(),
    }
}

unsafe fn managed(
    real: cuMemAllocManaged::Function,
    found: *mut CUdeviceptr,
    bytes: usize,
    flags: c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { hold(found, bytes as u64, || real(found, bytes, flags)) }
}

unsafe fn alloc_v1(real: cuMemAlloc::Function, found: *mut c_uint, bytes: c_uint) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { hold(found, bytes.into(), || real(found, bytes)) }
}

unsafe fn alloc_pitch_v1(
    real: cuMemAllocPitch::Function,
    found: *mut c_uint,
    pitch: *mut c_uint,
    width: c_uint,
    height: c_uint,
    element: c_uint,
) -> Status {
    let bytes = u64::from(width)
        .next_multiple_of(rtswap_agent_core::memory::ALIGN)
        .saturating_mul(height.into());
    // SAFETY: the caller's arguments.
    unsafe { hold(found, bytes, || real(found, pitch, width, height, element)) }
}

unsafe fn free_v1(real: cuMemFree::Function, at: c_uint) -> Status {
    // SAFETY: the caller's arguments.
    let_go(at.into(), || unsafe { real(at) })
}
