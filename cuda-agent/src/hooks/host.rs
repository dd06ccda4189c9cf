//! Host functions: the program's own, which the driver calls from a stream or a graph. Each is
//! wrapped, so that the gate knows while it runs.

use core::ffi::{c_uint, c_void};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{CUhostFn, CUstream, Status, Stream};
use rtswap_agent_core::gate::{HostCall, is_inside};

use super::{enter_on, hooks};

hooks! {
    reentrant host_function: cuLaunchHostFunc (stream: CUstream, function: CUhostFn, data: *mut c_void);
    reentrant host_function_ptsz: cuLaunchHostFunc_ptsz (stream: CUstream, function: CUhostFn, data: *mut c_void);
    reentrant host_function_v2: cuLaunchHostFunc_v2 (
        stream: CUstream, function: CUhostFn, data: *mut c_void, sync: c_uint);
    reentrant host_function_v2_ptsz: cuLaunchHostFunc_v2_ptsz (
        stream: CUstream, function: CUhostFn, data: *mut c_void, sync: c_uint);
    reentrant callback: cuStreamAddCallback (
        stream: CUstream, function: Callback, data: *mut c_void, flags: c_uint);
    reentrant callback_ptsz: cuStreamAddCallback_ptsz (
        stream: CUstream, function: Callback, data: *mut c_void, flags: c_uint);
}

/// CUstreamCallback.
type Callback = Option<CallbackFn>;
type CallbackFn = unsafe extern "C" fn(CUstream, c_uint, *mut c_void);
/// CUhostFn without its null.
type HostFn = unsafe extern "C" fn(*mut c_void);

/// The gates of a graph's host function: its launches may be on any GPU.
const ANY_GATE: u64 = u64::MAX;

/// A function of the program as the driver gets it.
#[derive(Clone, Copy)]
struct Wrapped<F> {
    function: F,
    data: *mut c_void,
    /// Of the GPUs that may wait for it.
    gates: u64,
    /// Called once: by a stream, not by a graph, which may be launched again.
    once: bool,
}

impl<F: Copy> Wrapped<F> {
    fn leak(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }

    /// Takes it for one call.
    ///
    /// # Safety
    /// `data` came from [`Self::leak`], and is given once if it is for one call.
    unsafe fn take(data: *mut c_void) -> Self {
        let wrapped = data.cast::<Self>();
        // SAFETY: by the caller's promise.
        let copy = unsafe { *wrapped };
        if copy.once {
            // SAFETY: by the caller's promise.
            drop(unsafe { Box::from_raw(wrapped) });
        }
        copy
    }
}

unsafe extern "C" fn run_function(data: *mut c_void) {
    // SAFETY: what was wrapped for this.
    let wrapped = unsafe { Wrapped::<HostFn>::take(data) };
    let _call = HostCall::begin(wrapped.gates);
    // SAFETY: the program's function and its data.
    unsafe { (wrapped.function)(wrapped.data) };
}

unsafe extern "C" fn run_callback(stream: CUstream, status: c_uint, data: *mut c_void) {
    // SAFETY: what was wrapped for this.
    let wrapped = unsafe { Wrapped::<CallbackFn>::take(data) };
    let _call = HostCall::begin(wrapped.gates);
    // SAFETY: the program's function and its data.
    unsafe { (wrapped.function)(stream, status, wrapped.data) };
}

/// A host function for a graph, which keeps it as long as it likes, and so do its copies: wrapped
/// once for ever for the same function and data.
pub(super) fn for_graph(function: CUhostFn, data: *mut c_void) -> (CUhostFn, *mut c_void) {
    static KEPT: Mutex<Option<HashMap<(usize, usize), usize>>> = Mutex::new(None);
    let (Some(_), Some(inner)) = (agent(), function) else {
        return (function, data);
    };
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    let key = (inner as usize, data.addr());
    let wrapped = kept.entry(key).or_insert_with(|| {
        let wrapped = Wrapped {
            function: inner,
            data,
            gates: ANY_GATE,
            once: false,
        };
        wrapped.leak().expose_provenance()
    });
    let wrapped = core::ptr::with_exposed_provenance_mut(*wrapped);
    (Some(run_function), wrapped)
}

/// What the program gave for what a graph says of a host function.
///
/// # Safety
/// A function of ours comes with the data that it was given with.
pub(super) unsafe fn of_graph(function: CUhostFn, data: *mut c_void) -> (CUhostFn, *mut c_void) {
    let ours: HostFn = run_function;
    match function {
        Some(function) if function as usize == ours as usize => {
            // SAFETY: by the caller's promise; a graph's is not for one call.
            let wrapped = unsafe { Wrapped::<HostFn>::take(data) };
            (Some(wrapped.function), wrapped.data)
        }
        _ => (function, data),
    }
}

unsafe fn host_function(
    driver: cuLaunchHostFunc::Function,
    stream: CUstream,
    function: CUhostFn,
    data: *mut c_void,
) -> Status {
    let meant = Stream::meant_by(Some(stream), false);
    // SAFETY: the caller's stream, and its function or ours.
    launch(meant, function, data, |function, data| unsafe {
        driver(stream, function, data)
    })
}

unsafe fn host_function_ptsz(
    driver: cuLaunchHostFunc_ptsz::Function,
    stream: CUstream,
    function: CUhostFn,
    data: *mut c_void,
) -> Status {
    let meant = Stream::meant_by(Some(stream), true);
    // SAFETY: the caller's stream, and its function or ours.
    launch(meant, function, data, |function, data| unsafe {
        driver(stream, function, data)
    })
}

unsafe fn host_function_v2(
    driver: cuLaunchHostFunc_v2::Function,
    stream: CUstream,
    function: CUhostFn,
    data: *mut c_void,
    sync: c_uint,
) -> Status {
    let meant = Stream::meant_by(Some(stream), false);
    // SAFETY: the caller's stream, and its function or ours.
    launch(meant, function, data, |function, data| unsafe {
        driver(stream, function, data, sync)
    })
}

unsafe fn host_function_v2_ptsz(
    driver: cuLaunchHostFunc_v2_ptsz::Function,
    stream: CUstream,
    function: CUhostFn,
    data: *mut c_void,
    sync: c_uint,
) -> Status {
    let meant = Stream::meant_by(Some(stream), true);
    // SAFETY: the caller's stream, and its function or ours.
    launch(meant, function, data, |function, data| unsafe {
        driver(stream, function, data, sync)
    })
}

fn launch(
    stream: Stream,
    function: CUhostFn,
    data: *mut c_void,
    call: impl FnOnce(CUhostFn, *mut c_void) -> Status,
) -> Status {
    let (Some(agent), Some(inner)) = (agent(), function) else {
        return call(function, data);
    };
    let _call = match enter_on(agent, stream, &|_| ()) {
        Ok(call) => call,
        Err(status) => return status,
    };
    // Inside the agent nobody tells whether a stream captures, so that it is kept as a graph's. Asked
    // of the stream itself too: captures on GPUs that are not managed are not noted.
    if is_inside() || agent.work.captures() || agent.driver.stream_captures(stream) {
        let (function, data) = for_graph(function, data);
        return call(function, data);
    }
    once(agent.gates_on(stream), inner, data, |data| {
        call(Some(run_function), data)
    })
}

/// Wraps `function` for one call.
fn once<F: Copy>(
    gates: u64,
    function: F,
    data: *mut c_void,
    call: impl FnOnce(*mut c_void) -> Status,
) -> Status {
    let wrapped = Wrapped {
        function,
        data,
        gates,
        once: true,
    };
    let wrapped = wrapped.leak();
    let status = call(wrapped.cast());
    if status != Status::SUCCESS {
        // SAFETY: made above, and the driver did not take it.
        drop(unsafe { Box::from_raw(wrapped) });
    }
    status
}

unsafe fn callback(
    driver: cuStreamAddCallback::Function,
    stream: CUstream,
    function: Callback,
    data: *mut c_void,
    flags: c_uint,
) -> Status {
    let meant = Stream::meant_by(Some(stream), false);
    // SAFETY: the caller's stream, and its function or ours.
    add_callback(meant, function, data, |function, data| unsafe {
        driver(stream, function, data, flags)
    })
}

unsafe fn callback_ptsz(
    driver: cuStreamAddCallback_ptsz::Function,
    stream: CUstream,
    function: Callback,
    data: *mut c_void,
    flags: c_uint,
) -> Status {
    let meant = Stream::meant_by(Some(stream), true);
    // SAFETY: the caller's stream, and its function or ours.
    add_callback(meant, function, data, |function, data| unsafe {
        driver(stream, function, data, flags)
    })
}

/// The driver refuses a callback on a stream that captures.
fn add_callback(
    stream: Stream,
    function: Callback,
    data: *mut c_void,
    call: impl FnOnce(Callback, *mut c_void) -> Status,
) -> Status {
    let (Some(agent), Some(inner)) = (agent(), function) else {
        return call(function, data);
    };
    let _call = match enter_on(agent, stream, &|_| ()) {
        Ok(call) => call,
        Err(status) => return status,
    };
    let gates = if is_inside() {
        ANY_GATE
    } else {
        agent.gates_on(stream)
    };
    once(gates, inner, data, |data| call(Some(run_callback), data))
}
