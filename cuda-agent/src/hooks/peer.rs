//! What makes other devices reach a GPU's memory without its gate: it must stay where it is.

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{CUcontext, CUdeviceptr, Context, Status};

use super::hooks;

hooks! {
    enable: cuCtxEnablePeerAccess (peer: CUcontext, flags: c_uint);
    describe: cuMemGetHandleForAddressRange (
        handle: *mut c_void, at: CUdeviceptr, bytes: usize, kind: c_int, flags: c_ulonglong);
}

unsafe fn enable(real: cuCtxEnablePeerAccess::Function, peer: CUcontext, flags: c_uint) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { real(peer, flags) };
    match agent().filter(|_| status == Status::SUCCESS) {
        Some(agent) => agent.peer_enabled(Context(peer.addr())).into(),
        None => status,
    }
}

/// Keeps a range for good, and goes on if that can be.
pub(super) fn keep(at: CUdeviceptr, bytes: usize, call: impl FnOnce() -> Status) -> Status {
    match agent().map(|agent| agent.keep_range(at, bytes as u64)) {
        Some(Err(status)) => status,
        Some(Ok(())) | None => call(),
    }
}

unsafe fn describe(
    real: cuMemGetHandleForAddressRange::Function,
    handle: *mut c_void,
    at: CUdeviceptr,
    bytes: usize,
    kind: c_int,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments.
    keep(at, bytes, || unsafe {
        real(handle, at, bytes, kind, flags)
    })
}
