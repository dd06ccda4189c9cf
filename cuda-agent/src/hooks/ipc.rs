//! Memory shared with other processes by handle: the arena's by ours, the rest by the driver's.

use core::ffi::c_uint;

use rtswap_agent_core::agent::{Agent, agent};
use rtswap_agent_core::cuda::{CUdeviceptr, Status};
use rtswap_agent_core::ipc::IpcHandle;

use super::hooks;

hooks! {
    get: cuIpcGetMemHandle (made: *mut Bytes, at: CUdeviceptr);
    open: cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2 (
        found: *mut CUdeviceptr, handle: Bytes, flags: c_uint);
    close: cuIpcCloseMemHandle (at: CUdeviceptr);
}

/// CUipcMemHandle.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Bytes([u8; 64]);

unsafe fn get(real: cuIpcGetMemHandle::Function, made: *mut Bytes, at: CUdeviceptr) -> Status {
    let offered = agent()
        .filter(|_| !made.is_null())
        .and_then(|agent| agent.offer(at));
    match offered {
        Some(Ok(handle)) => {
            // SAFETY: the caller's pointer, not null.
            unsafe { made.write(Bytes(handle.to_bytes())) };
            Status::SUCCESS
        }
        Some(Err(status)) => status,
        // SAFETY: the caller's arguments.
        None => unsafe { real(made, at) },
    }
}

unsafe fn open(
    real: cuIpcOpenMemHandle_v2::Function,
    found: *mut CUdeviceptr,
    handle: Bytes,
    flags: c_uint,
) -> Status {
    let ours = agent()
        .filter(|_| !found.is_null())
        .zip(IpcHandle::parse(&handle.0));
    let Some((agent, ours)) = ours else {
        // SAFETY: the caller's arguments.
        return unsafe { real(found, handle, flags) };
    };
    match agent.open(ours) {
        Ok(at) => {
            // SAFETY: the caller's pointer, not null.
            unsafe { *found = at };
            Status::SUCCESS
        }
        Err(status) => status,
    }
}

unsafe fn close(real: cuIpcCloseMemHandle::Function, at: CUdeviceptr) -> Status {
    match agent().and_then(|agent: &Agent| agent.close(at)) {
        Some(result) => result.into(),
        // SAFETY: the caller's arguments.
        None => unsafe { real(at) },
    }
}
