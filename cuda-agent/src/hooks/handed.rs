//! Memory handed to devices that no gate stops: switches and the GPUs behind them. What they may touch
//! stays where it is.

use core::ffi::{c_uint, c_ulonglong, c_void};

use rtswap_agent_core::cuda::{CUdevice, CUdeviceptr, Status};

use super::hooks;
use super::peer::keep;

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

unsafe fn bind(
    real: cuMulticastBindAddr::Function,
    multicast: c_ulonglong,
    offset: usize,
    at: CUdeviceptr,
    bytes: usize,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments.
    keep(at, bytes, || unsafe {
        real(multicast, offset, at, bytes, flags)
    })
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
    keep(at, bytes, || unsafe {
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
    keep(at.addr() as CUdeviceptr, bytes as usize, || unsafe {
        real(endpoint, device, offset, at, bytes, flags)
    })
}
