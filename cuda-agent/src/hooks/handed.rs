//! Memory handed to devices that no gate stops: switches and the GPUs behind them. What they may touch
//! stays where it is.

use core::ffi::{c_uint, c_ulonglong, c_void};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{CUdevice, CUdeviceptr, Status};

use super::hooks;

hooks! {
    bind: cuMulticastBindAddr (
        multicast: c_ulonglong, offset: usize, at: CUdeviceptr, bytes: usize, flags: c_ulonglong);
    bind_v2: cuMulticastBindAddr_v2 (
        multicast: c_ulonglong, device: CUdevice, offset: usize, at: CUdeviceptr, bytes: usize,
        flags: c_ulonglong);
    bind_endpoint: cuLogicalEndpointBindAddr (
        endpoint: c_uint, device: CUdevice, offset: u64, at: *mut c_void, bytes: u64,
        flags: c_ulonglong);
}

/// Hands memory out by `call`.
fn hand_out(at: CUdeviceptr, call: impl FnOnce() -> Status) -> Status {
    match agent().and_then(|agent| Some((agent, agent.look_up(at)?))) {
        Some((agent, Ok(found))) => agent.set_attribute(&found, call),
        Some((_, Err(status))) => status,
        None => call(),
    }
}

unsafe fn bind(
    real: cuMulticastBindAddr::Function,
    multicast: c_ulonglong,
    offset: usize,
    at: CUdeviceptr,
    bytes: usize,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments.
    hand_out(at, || unsafe { real(multicast, offset, at, bytes, flags) })
}

unsafe fn bind_v2(
    real: cuMulticastBindAddr_v2::Function,
    multicast: c_ulonglong,
    device: CUdevice,
    offset: usize,
    at: CUdeviceptr,
    bytes: usize,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments.
    hand_out(at, || unsafe {
        real(multicast, device, offset, at, bytes, flags)
    })
}

unsafe fn bind_endpoint(
    real: cuLogicalEndpointBindAddr::Function,
    endpoint: c_uint,
    device: CUdevice,
    offset: u64,
    at: *mut c_void,
    bytes: u64,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments.
    hand_out(at.addr() as CUdeviceptr, || unsafe {
        real(endpoint, device, offset, at, bytes, flags)
    })
}
