//! Memory handed to devices that no gate stops: switches and the GPUs behind them. What they may touch
//! stays where it is.

use core::ffi::{c_uint, c_ulonglong, c_void};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{CUdevice, CUdeviceptr, Status};
use rtswap_agent_core::vmm::Part;

use super::hooks;
use super::peer::keep;

hooks! {
    bind: cuMulticastBindAddr (
        multicast: c_ulonglong, offset: usize, at: CUdeviceptr, bytes: usize, flags: c_ulonglong);
    bind_v2: cuMulticastBindAddr_v2 (
        multicast: c_ulonglong, device: CUdevice, offset: usize, at: CUdeviceptr, bytes: usize,
        flags: c_ulonglong);
    bind_memory: cuMulticastBindMem (
        multicast: c_ulonglong, at: usize, handle: c_ulonglong, offset: usize, bytes: usize,
        flags: c_ulonglong);
    bind_memory_v2: cuMulticastBindMem_v2 (
        multicast: c_ulonglong, device: CUdevice, at: usize, handle: c_ulonglong, offset: usize,
        bytes: usize, flags: c_ulonglong);
    gated: cuMulticastUnbind (
        multicast: c_ulonglong, device: CUdevice, at: usize, bytes: usize) writes ();
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

/// Binds a handle by `call`, which is given the place in the multicast object, the driver's handle,
/// the place in that and the bytes.
///
/// # Safety
/// `multicast` is the program's.
unsafe fn bind_handle(
    multicast: c_ulonglong,
    at: usize,
    handle: c_ulonglong,
    offset: usize,
    bytes: usize,
    call: impl Fn(usize, c_ulonglong, usize, usize) -> Status,
) -> Status {
    let Some(agent) = agent() else {
        return call(at, handle, offset, bytes);
    };
    let bind = |part: Part| {
        let (here, offset) = (at + part.at as usize, part.offset as usize);
        call(here, part.handle, offset, part.bytes as usize).ok()
    };
    let unbind = |bound: u64| {
        if let Some((device, _)) = agent.current() {
            // SAFETY: takes back what was just bound to the program's object.
            let _ = unsafe { cuMulticastUnbind(multicast, device.ordinal, at, bound as usize) };
        }
    };
    match agent.bind_physical(handle, offset as u64, bytes as u64, bind, unbind) {
        Some(result) => result.into(),
        None => call(at, handle, offset, bytes),
    }
}

unsafe fn bind_memory(
    real: cuMulticastBindMem::Function,
    multicast: c_ulonglong,
    at: usize,
    handle: c_ulonglong,
    offset: usize,
    bytes: usize,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments, its handle or what is behind it.
    unsafe {
        bind_handle(
            multicast,
            at,
            handle,
            offset,
            bytes,
            |at, handle, offset, bytes| real(multicast, at, handle, offset, bytes, flags),
        )
    }
}

#[expect(clippy::too_many_arguments, reason = "the driver's arguments")]
unsafe fn bind_memory_v2(
    real: cuMulticastBindMem_v2::Function,
    multicast: c_ulonglong,
    device: CUdevice,
    at: usize,
    handle: c_ulonglong,
    offset: usize,
    bytes: usize,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments, its handle or what is behind it.
    unsafe {
        bind_handle(
            multicast,
            at,
            handle,
            offset,
            bytes,
            |at, handle, offset, bytes| real(multicast, device, at, handle, offset, bytes, flags),
        )
    }
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
