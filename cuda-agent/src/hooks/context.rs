//! Initialisation and contexts: the agent starts with the driver, a context is paid for before it
//! is made, and what lives in it ends with it.

use core::ffi::{c_int, c_uint, c_void};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{CUcontext, CUdevice, Context, Status};

use super::{hooks, real};

hooks! {
    init: cuInit (flags: c_uint);
    create_v2: cuCtxCreate_v2 (made: *mut CUcontext, flags: c_uint, device: CUdevice);
    create_v3: cuCtxCreate_v3 (
        made: *mut CUcontext, params: *mut c_void, count: c_int, flags: c_uint, device: CUdevice);
    create_v4: cuCtxCreate_v4 (
        made: *mut CUcontext, params: *mut c_void, flags: c_uint, device: CUdevice);
    destroy: cuCtxDestroy, cuCtxDestroy_v2 (context: CUcontext);
    retain: cuDevicePrimaryCtxRetain (made: *mut CUcontext, device: CUdevice);
    release: cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2 (device: CUdevice);
    reset: cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2 (device: CUdevice);
}

unsafe fn init(driver: cuInit::Function, flags: c_uint) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { driver(flags) };
    if status == Status::SUCCESS {
        real::start();
    }
    status
}

unsafe fn create_v2(
    driver: cuCtxCreate_v2::Function,
    made: *mut CUcontext,
    flags: c_uint,
    device: CUdevice,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { create(made, device, false, || driver(made, flags, device)) }
}

unsafe fn create_v3(
    driver: cuCtxCreate_v3::Function,
    made: *mut CUcontext,
    params: *mut c_void,
    count: c_int,
    flags: c_uint,
    device: CUdevice,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe {
        create(made, device, false, || {
            driver(made, params, count, flags, device)
        })
    }
}

unsafe fn create_v4(
    driver: cuCtxCreate_v4::Function,
    made: *mut CUcontext,
    params: *mut c_void,
    flags: c_uint,
    device: CUdevice,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { create(made, device, false, || driver(made, params, flags, device)) }
}

unsafe fn retain(
    driver: cuDevicePrimaryCtxRetain::Function,
    made: *mut CUcontext,
    device: CUdevice,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { create(made, device, true, || driver(made, device)) }
}

/// # Safety
/// `made` is what the driver's function fills.
unsafe fn create(
    made: *mut CUcontext,
    device: CUdevice,
    primary: bool,
    call: impl Fn() -> Status,
) -> Status {
    let Some(agent) = agent() else {
        return call();
    };
    let taken = match agent.before_context(device, primary) {
        Ok(taken) => taken,
        Err(status) => return status,
    };
    let status = agent.make_context(device, call);
    let context = (status == Status::SUCCESS && !made.is_null())
        // SAFETY: the driver filled it.
        .then(|| Context(unsafe { *made }.addr()));
    agent.after_context(device, primary, context, taken);
    status
}

unsafe fn destroy(driver: cuCtxDestroy_v2::Function, context: CUcontext) -> Status {
    if let Some(agent) = agent()
        && let Err(status) = agent.end_context(Context(context.addr()))
    {
        return status;
    }
    // SAFETY: the caller's arguments.
    unsafe { driver(context) }
}

unsafe fn release(driver: cuDevicePrimaryCtxRelease_v2::Function, device: CUdevice) -> Status {
    if let Some(agent) = agent()
        && let Err(status) = agent.release_primary(device, false)
    {
        return status;
    }
    // SAFETY: the caller's arguments.
    unsafe { driver(device) }
}

unsafe fn reset(driver: cuDevicePrimaryCtxReset_v2::Function, device: CUdevice) -> Status {
    if let Some(agent) = agent()
        && let Err(status) = agent.release_primary(device, true)
    {
        return status;
    }
    // SAFETY: the caller's arguments.
    unsafe { driver(device) }
}
