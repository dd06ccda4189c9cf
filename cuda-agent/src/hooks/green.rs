//! Green contexts. The driver retains the primary context for each; the agent does so beside it, so
//! that what it takes is counted and stays known for as long.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{CUcontext, CUdevice, CUstream, Context, Green, Status, Stream};

use super::context::{cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRetain};
use super::hooks;

hooks! {
    create: cuGreenCtxCreate (
        made: *mut *mut c_void, resources: *mut c_void, device: CUdevice, flags: c_uint);
    destroy: cuGreenCtxDestroy (green: *mut c_void);
    convert: cuCtxFromGreenCtx (made: *mut CUcontext, green: *mut c_void);
    create_stream: cuGreenCtxStreamCreate (
        made: *mut CUstream, green: *mut c_void, flags: c_uint, priority: c_int);
}

unsafe fn create(
    driver: cuGreenCtxCreate::Function,
    made: *mut *mut c_void,
    resources: *mut c_void,
    device: CUdevice,
    flags: c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    let call = || unsafe { driver(made, resources, device, flags) };
    let Some(agent) = agent() else {
        return call();
    };
    let mut primary = null_mut();
    // SAFETY: a place of ours.
    let retained = unsafe { cuDevicePrimaryCtxRetain(&raw mut primary, device) };
    if retained != Status::SUCCESS {
        return retained;
    }
    let status = call();
    // SAFETY: null, or what the driver filled after a success.
    match unsafe { made.as_ref() } {
        Some(green) if status == Status::SUCCESS => {
            agent.work.add_green(Green(green.addr()), device);
        }
        _ => release(device),
    }
    status
}

/// Gives back what [`create`] retained.
fn release(device: CUdevice) {
    // SAFETY: takes a number.
    let _ = unsafe { cuDevicePrimaryCtxRelease_v2(device) };
}

unsafe fn destroy(driver: cuGreenCtxDestroy::Function, green: *mut c_void) -> Status {
    let device = agent().and_then(|agent| agent.end_green(Green(green.addr())));
    // SAFETY: the caller's arguments.
    let status = unsafe { driver(green) };
    if let Some(device) = device {
        release(device);
    }
    status
}

unsafe fn convert(
    driver: cuCtxFromGreenCtx::Function,
    made: *mut CUcontext,
    green: *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { driver(made, green) };
    if status == Status::SUCCESS
        && let Some(agent) = agent()
        // SAFETY: the driver filled it.
        && let Some(context) = unsafe { made.as_ref() }
    {
        let context = Context(context.addr());
        agent.work.add_green_context(Green(green.addr()), context);
    }
    status
}

unsafe fn create_stream(
    driver: cuGreenCtxStreamCreate::Function,
    made: *mut CUstream,
    green: *mut c_void,
    flags: c_uint,
    priority: c_int,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { driver(made, green, flags, priority) };
    if status == Status::SUCCESS
        && let Some(agent) = agent()
        // SAFETY: the driver filled it.
        && let Some(stream) = unsafe { made.as_ref() }
    {
        let (green, stream) = (Green(green.addr()), Stream(stream.addr()));
        agent.work.add_green_stream(green, stream);
    }
    status
}
