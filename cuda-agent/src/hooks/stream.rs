//! Streams: which there are, which capture, and host functions, in which nothing may block.

use core::ffi::{c_int, c_uint, c_void};

use rtswap_agent_core::agent::agent;
use rtswap_agent_core::cuda::{CUhostFn, CUstream, Status, Stream};
use rtswap_agent_core::gate::InCall;

use super::{enter, hooks};

hooks! {
    create: cuStreamCreate (made: *mut CUstream, flags: c_uint);
    create_with_priority: cuStreamCreateWithPriority (
        made: *mut CUstream, flags: c_uint, priority: c_int);
    create_in_green: cuGreenCtxStreamCreate (
        made: *mut CUstream, green: *mut c_void, flags: c_uint, priority: c_int);
    destroy: cuStreamDestroy, cuStreamDestroy_v2 (stream: CUstream);
    begin_capture: cuStreamBeginCapture (stream: CUstream);
    begin_capture_ptsz: cuStreamBeginCapture_ptsz (stream: CUstream);
    begin_capture_v2: cuStreamBeginCapture_v2 (stream: CUstream, mode: c_uint);
    begin_capture_v2_ptsz: cuStreamBeginCapture_v2_ptsz (stream: CUstream, mode: c_uint);
    capture_to_graph: cuStreamBeginCaptureToGraph (
        stream: CUstream, graph: *mut c_void, nodes: *const c_void, edges: *const c_void,
        count: usize, mode: c_uint);
    capture_to_graph_ptsz: cuStreamBeginCaptureToGraph_ptsz (
        stream: CUstream, graph: *mut c_void, nodes: *const c_void, edges: *const c_void,
        count: usize, mode: c_uint);
    end_capture: cuStreamEndCapture (stream: CUstream, graph: *mut *mut c_void);
    end_capture_ptsz: cuStreamEndCapture_ptsz (stream: CUstream, graph: *mut *mut c_void);
    host_function: cuLaunchHostFunc (stream: CUstream, function: CUhostFn, data: *mut c_void);
    host_function_ptsz: cuLaunchHostFunc_ptsz (
        stream: CUstream, function: CUhostFn, data: *mut c_void);
    callback: cuStreamAddCallback, cuStreamAddCallback_ptsz (
        stream: CUstream, function: Callback, data: *mut c_void, flags: c_uint);
}

/// CUstreamCallback.
type Callback = Option<unsafe extern "C" fn(CUstream, c_uint, *mut c_void)>;

/// # Safety
/// `made` is what `call` fills.
unsafe fn learn(made: *mut CUstream, call: impl FnOnce() -> Status) -> Status {
    let status = call();
    if status == Status::SUCCESS
        && let Some(agent) = agent()
        // SAFETY: the driver filled it.
        && let Some(stream) = unsafe { made.as_ref() }
    {
        agent.stream_made(Stream(stream.addr()));
    }
    status
}

unsafe fn create(driver: cuStreamCreate::Function, made: *mut CUstream, flags: c_uint) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { learn(made, || driver(made, flags)) }
}

unsafe fn create_with_priority(
    driver: cuStreamCreateWithPriority::Function,
    made: *mut CUstream,
    flags: c_uint,
    priority: c_int,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { learn(made, || driver(made, flags, priority)) }
}

unsafe fn create_in_green(
    driver: cuGreenCtxStreamCreate::Function,
    made: *mut CUstream,
    green: *mut c_void,
    flags: c_uint,
    priority: c_int,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { learn(made, || driver(made, green, flags, priority)) }
}

unsafe fn destroy(driver: cuStreamDestroy_v2::Function, stream: CUstream) -> Status {
    if let Some(agent) = agent() {
        agent.stream_gone(Stream(stream.addr()));
    }
    // SAFETY: the caller's arguments.
    unsafe { driver(stream) }
}

/// The stream that NULL means in a function of the per-thread kind.
fn per_thread(stream: CUstream) -> Stream {
    if stream.is_null() {
        Stream::PER_THREAD
    } else {
        Stream(stream.addr())
    }
}

/// A capture is GPU work, and lasts until its end.
fn begin(stream: Stream, call: impl FnOnce() -> Status) -> Status {
    let Some(agent) = agent() else {
        return call();
    };
    let Some(_call) = enter(agent) else {
        return Status::UNKNOWN;
    };
    agent.begin_capture(stream, call)
}

fn end(stream: Stream, call: impl FnOnce() -> Status) -> Status {
    match agent() {
        Some(agent) => agent.end_capture(stream, call),
        None => call(),
    }
}

unsafe fn begin_capture(driver: cuStreamBeginCapture::Function, stream: CUstream) -> Status {
    // SAFETY: the caller's arguments.
    begin(Stream(stream.addr()), || unsafe { driver(stream) })
}

unsafe fn begin_capture_ptsz(
    driver: cuStreamBeginCapture_ptsz::Function,
    stream: CUstream,
) -> Status {
    // SAFETY: the caller's arguments.
    begin(per_thread(stream), || unsafe { driver(stream) })
}

unsafe fn begin_capture_v2(
    driver: cuStreamBeginCapture_v2::Function,
    stream: CUstream,
    mode: c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    begin(Stream(stream.addr()), || unsafe { driver(stream, mode) })
}

unsafe fn begin_capture_v2_ptsz(
    driver: cuStreamBeginCapture_v2_ptsz::Function,
    stream: CUstream,
    mode: c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    begin(per_thread(stream), || unsafe { driver(stream, mode) })
}

unsafe fn capture_to_graph(
    driver: cuStreamBeginCaptureToGraph::Function,
    stream: CUstream,
    graph: *mut c_void,
    nodes: *const c_void,
    edges: *const c_void,
    count: usize,
    mode: c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    begin(Stream(stream.addr()), || unsafe {
        driver(stream, graph, nodes, edges, count, mode)
    })
}

unsafe fn capture_to_graph_ptsz(
    driver: cuStreamBeginCaptureToGraph_ptsz::Function,
    stream: CUstream,
    graph: *mut c_void,
    nodes: *const c_void,
    edges: *const c_void,
    count: usize,
    mode: c_uint,
) -> Status {
    // SAFETY: the caller's arguments.
    begin(per_thread(stream), || unsafe {
        driver(stream, graph, nodes, edges, count, mode)
    })
}

unsafe fn end_capture(
    driver: cuStreamEndCapture::Function,
    stream: CUstream,
    graph: *mut *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    end(Stream(stream.addr()), || unsafe { driver(stream, graph) })
}

unsafe fn end_capture_ptsz(
    driver: cuStreamEndCapture_ptsz::Function,
    stream: CUstream,
    graph: *mut *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    end(per_thread(stream), || unsafe { driver(stream, graph) })
}

/// What a wrapped host function calls.
struct Wrapped<F> {
    function: F,
    data: *mut c_void,
    /// Called once: by a stream, not by a graph, which may be launched again.
    once: bool,
}

fn wrap<F>(function: F, data: *mut c_void, once: bool) -> *mut Wrapped<F> {
    Box::into_raw(Box::new(Wrapped {
        function,
        data,
        once,
    }))
}

/// Takes a wrapped function; a graph keeps it for its next launch, and thus for ever.
///
/// # Safety
/// `data` came from [`wrap`] of the same type, and is given once if it is for one call.
unsafe fn unwrap<F: Copy>(data: *mut c_void) -> (F, *mut c_void) {
    let wrapped = data.cast::<Wrapped<F>>();
    // SAFETY: by the caller's promise.
    unsafe {
        let (function, inner) = ((*wrapped).function, (*wrapped).data);
        if (*wrapped).once {
            drop(Box::from_raw(wrapped));
        }
        (function, inner)
    }
}

/// A thread within a host function counts as within a call: what it calls in turn passes, since
/// blocking it would block the stream that must drain.
unsafe extern "C" fn run_host_function(data: *mut c_void) {
    // SAFETY: what `host_function` wrapped.
    let (function, data) = unsafe { unwrap::<unsafe extern "C" fn(*mut c_void)>(data) };
    let _call = InCall::begin();
    // SAFETY: the program's function and its data.
    unsafe { function(data) };
}

unsafe extern "C" fn run_callback(stream: CUstream, status: c_uint, data: *mut c_void) {
    type Inner = unsafe extern "C" fn(CUstream, c_uint, *mut c_void);
    // SAFETY: what `callback` wrapped.
    let (function, data) = unsafe { unwrap::<Inner>(data) };
    let _call = InCall::begin();
    // SAFETY: the program's function and its data.
    unsafe { function(stream, status, data) };
}

unsafe fn host_function(
    driver: cuLaunchHostFunc::Function,
    stream: CUstream,
    function: CUhostFn,
    data: *mut c_void,
) -> Status {
    let call = |function, data| {
        // SAFETY: the caller's stream, and its function or ours.
        unsafe { driver(stream, function, data) }
    };
    launch_host_function(Stream(stream.addr()), call, function, data)
}

unsafe fn host_function_ptsz(
    driver: cuLaunchHostFunc_ptsz::Function,
    stream: CUstream,
    function: CUhostFn,
    data: *mut c_void,
) -> Status {
    let call = |function, data| {
        // SAFETY: the caller's stream, and its function or ours.
        unsafe { driver(stream, function, data) }
    };
    launch_host_function(per_thread(stream), call, function, data)
}

fn launch_host_function(
    stream: Stream,
    call: impl Fn(CUhostFn, *mut c_void) -> Status,
    function: CUhostFn,
    data: *mut c_void,
) -> Status {
    let (Some(agent), Some(inner)) = (agent(), function) else {
        return call(function, data);
    };
    let Some(_call) = enter(agent) else {
        return Status::UNKNOWN;
    };
    // Asked of the stream itself too: captures on GPUs that are not managed are not noted.
    let captures = agent.work.captures() || agent.driver.stream_captures(stream);
    let wrapped = wrap(inner, data, !captures);
    let status = call(Some(run_host_function), wrapped.cast());
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
    let (Some(agent), Some(inner)) = (agent(), function) else {
        // SAFETY: the caller's arguments.
        return unsafe { driver(stream, function, data, flags) };
    };
    let Some(_call) = enter(agent) else {
        return Status::UNKNOWN;
    };
    let wrapped = wrap(inner, data, true);
    // SAFETY: as the caller's arguments; `wrapped` is what our function needs.
    let status = unsafe { driver(stream, Some(run_callback), wrapped.cast(), flags) };
    if status != Status::SUCCESS {
        // SAFETY: made above, and the driver did not take it.
        drop(unsafe { Box::from_raw(wrapped) });
    }
    status
}
