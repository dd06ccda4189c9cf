//! Streams: which there are, and which capture.

use core::ffi::{c_int, c_uint, c_void};

use rtswap_agent_core::agent::{Agent, agent};
use rtswap_agent_core::cuda::{CUstream, Status, Stream};
use rtswap_agent_core::gate::is_inside;

use super::{enter_on, hooks};

hooks! {
    create: cuStreamCreate (made: *mut CUstream, flags: c_uint);
    create_with_priority: cuStreamCreateWithPriority (
        made: *mut CUstream, flags: c_uint, priority: c_int);
    reentrant destroy: cuStreamDestroy, cuStreamDestroy_v2 (stream: CUstream);
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
    recapture: cuStreamBeginRecaptureToGraph (
        stream: CUstream, mode: c_uint, graph: *mut c_void, function: *mut c_void,
        data: *mut c_void);
    recapture_ptsz: cuStreamBeginRecaptureToGraph_ptsz (
        stream: CUstream, mode: c_uint, graph: *mut c_void, function: *mut c_void,
        data: *mut c_void);
    end_capture: cuStreamEndCapture (stream: CUstream, graph: *mut *mut c_void);
    end_capture_ptsz: cuStreamEndCapture_ptsz (stream: CUstream, graph: *mut *mut c_void);
}

/// # Safety
/// `made` is what `call` fills.
unsafe fn learn(made: *mut CUstream, call: impl FnOnce() -> Status) -> Status {
    let status = call();
    if status == Status::SUCCESS
        && let Some(agent) = agent()
        // SAFETY: the driver filled it.
        && let Some(stream) = unsafe { made.as_ref() }
    {
        agent.work.add_stream(Stream(stream.addr()));
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

unsafe fn destroy(driver: cuStreamDestroy_v2::Function, stream: CUstream) -> Status {
    let stream_gone = |agent: &Agent| {
        let stream = Stream(stream.addr());
        if is_inside() {
            agent.note_stream_gone(stream);
        } else {
            agent.stream_gone(stream);
        }
    };
    agent().map(stream_gone);
    // SAFETY: the caller's arguments.
    unsafe { driver(stream) }
}

fn ordinary(stream: CUstream) -> Stream {
    Stream::meant_by(Some(stream), false)
}

fn per_thread(stream: CUstream) -> Stream {
    Stream::meant_by(Some(stream), true)
}

/// A capture is GPU work, and lasts until its end.
fn begin(stream: Stream, call: impl FnOnce() -> Status) -> Status {
    let Some(agent) = agent() else {
        return call();
    };
    let _call = match enter_on(agent, stream, &|_| ()) {
        Ok(call) => call,
        Err(status) => return status,
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
    begin(ordinary(stream), || unsafe { driver(stream) })
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
    begin(ordinary(stream), || unsafe { driver(stream, mode) })
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
    begin(ordinary(stream), || unsafe {
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

unsafe fn recapture(
    driver: cuStreamBeginRecaptureToGraph::Function,
    stream: CUstream,
    mode: c_uint,
    graph: *mut c_void,
    function: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    begin(ordinary(stream), || unsafe {
        driver(stream, mode, graph, function, data)
    })
}

unsafe fn recapture_ptsz(
    driver: cuStreamBeginRecaptureToGraph_ptsz::Function,
    stream: CUstream,
    mode: c_uint,
    graph: *mut c_void,
    function: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    begin(per_thread(stream), || unsafe {
        driver(stream, mode, graph, function, data)
    })
}

unsafe fn end_capture(
    driver: cuStreamEndCapture::Function,
    stream: CUstream,
    graph: *mut *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    end(ordinary(stream), || unsafe { driver(stream, graph) })
}

unsafe fn end_capture_ptsz(
    driver: cuStreamEndCapture_ptsz::Function,
    stream: CUstream,
    graph: *mut *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    end(per_thread(stream), || unsafe { driver(stream, graph) })
}
