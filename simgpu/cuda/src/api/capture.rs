//! Capturing streams into graphs.

use std::ffi::c_uint;
use std::sync::Arc;

use simgpu_core::driver::{
    CaptureInfo, CaptureMode, NodeId, Stream, driver, exchange_capture_mode,
};
use simgpu_core::{Error, Result};

use super::graph::list;
use crate::abi::{In, Out, nonzero, stream};
use crate::export::DefaultStream;

/// CUstreamCaptureStatus.
const NONE: c_uint = 0;
const ACTIVE: c_uint = 1;
const INVALIDATED: c_uint = 2;

/// CU_STREAM_SET_CAPTURE_DEPENDENCIES; 0 is adding.
const SET: c_uint = 1;

/// Where information on a capture goes; any but the status may be null.
struct Wanted {
    status: Out<c_uint>,
    id: Out<u64>,
    graph: Out<usize>,
    dependencies: Out<*const NodeId>,
    /// Data of the edges: all are plain, which null says.
    edges: Out<usize>,
    count: Out<usize>,
}

api! {
    10000 fn cuStreamBeginCapture | cuStreamBeginCapture_ptsz(on: usize) |default| {
        begin(on, default, CaptureMode::Global)
    }

    10010 fn cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz(
        on: usize, mode: c_uint,
    ) |default| {
        begin(on, default, mode_of(mode)?)
    }

    12030 early fn cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz(
        on: usize, graph: usize, after: In<usize>, _edges: usize, count: usize, mode: c_uint,
    ) |default| {
        nonzero(graph)?;
        let (context, stream) = stream(on, default)?;
        let graph = driver()?.graph(graph)?;
        let after = list(after, count)?;
        context.begin_capture(&stream, mode_of(mode)?, Some((graph, &after))).map(drop)
    }

    10000 early fn cuStreamEndCapture | cuStreamEndCapture_ptsz(on: usize, graph: Out<usize>) |default| {
        graph.clear();
        driver()?;
        let (context, stream) = stream(on, default)?;
        let info = context.capture_info(&stream)?;
        let ended = context.end_capture(&stream);
        if let Ok(captured) = &ended {
            graph.set_if_wanted(driver()?.graphs.insert(captured));
            return Ok(());
        }
        // What was captured in vain is gone, unless the capture goes on.
        let gone = info.filter(|info| info.is_own_graph);
        if let Some(info) = gone.filter(|_| context.capture_info(&stream) == Ok(None)) {
            driver()?.graphs.remove(info.graph);
        }
        graph.set_if_wanted(0);
        ended.map(drop)
    }

    10000 early fn cuStreamIsCapturing | cuStreamIsCapturing_ptsz(
        on: usize, status: Out<c_uint>,
    ) |default| {
        status.check()?;
        let (context, stream) = stream(on, default)?;
        status.set(status_of(context.capture_info(&stream)?.as_ref()))
    }

    10010 early fn cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz(
        on: usize, status: Out<c_uint>, id: Out<u64>,
    ) |default| {
        status.check()?;
        let (graph, dependencies) = (Out::null(), Out::null());
        let (edges, count) = (Out::null(), Out::null());
        tell(on, default, &Wanted { status, id, graph, dependencies, edges, count })
    }

    11030 early fn cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz(
        on: usize,
        status: Out<c_uint>,
        id: Out<u64>,
        graph: Out<usize>,
        dependencies: Out<*const NodeId>,
        count: Out<usize>,
    ) |default| {
        status.check()?;
        let edges = Out::null();
        tell(on, default, &Wanted { status, id, graph, dependencies, edges, count })
    }

    12030 early fn cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz(
        on: usize,
        status: Out<c_uint>,
        id: Out<u64>,
        graph: Out<usize>,
        dependencies: Out<*const NodeId>,
        edges: Out<usize>,
        count: Out<usize>,
    ) |default| {
        status.check()?;
        tell(on, default, &Wanted { status, id, graph, dependencies, edges, count })
    }

    11030 fn cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz(
        on: usize, nodes: In<usize>, count: usize, flags: c_uint,
    ) |default| {
        update(on, default, nodes, count, flags)
    }

    12030 fn cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz(
        on: usize, nodes: In<usize>, _edges: usize, count: usize, flags: c_uint,
    ) |default| {
        update(on, default, nodes, count, flags)
    }

    10010 fn cuThreadExchangeStreamCaptureMode(mode: Out<c_uint>) {
        let wanted = mode_of(mode.value()?)?;
        mode.set(exchange_capture_mode(wanted) as c_uint)
    }
}

fn begin(on: usize, default: DefaultStream, mode: CaptureMode) -> Result<()> {
    let (context, stream) = stream(on, default)?;
    let graph = context.begin_capture(&stream, mode, None)?;
    // Programs may ask for it, and add to it, before the end.
    driver()?.graphs.insert(&graph);
    Ok(())
}

fn mode_of(mode: c_uint) -> Result<CaptureMode> {
    match mode {
        0 => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(Error::InvalidValue),
    }
}

fn status_of(info: Option<&CaptureInfo>) -> c_uint {
    match info {
        None => NONE,
        Some(info) if info.is_valid => ACTIVE,
        Some(_) => INVALIDATED,
    }
}

fn tell(on: usize, default: DefaultStream, wanted: &Wanted) -> Result<()> {
    let (context, stream): (_, Arc<Stream>) = stream(on, default)?;
    let info = context.capture_info(&stream)?;
    wanted.status.set(status_of(info.as_ref()))?;
    // Only a capture that is active has anything to tell; otherwise the driver leaves the places as they are.
    let Some(info) = info.filter(|info| info.is_valid) else {
        return Ok(());
    };
    wanted.id.set_if_wanted(info.id);
    wanted.graph.set_if_wanted(info.graph);
    wanted.edges.set_if_wanted(0);
    wanted.count.set_if_wanted(info.tips.len());
    if wanted.dependencies.check().is_ok() {
        wanted.dependencies.set(stream.lend_nodes(info.tips))?;
    }
    Ok(())
}

fn update(
    on: usize,
    default: DefaultStream,
    nodes: In<usize>,
    count: usize,
    flags: c_uint,
) -> Result<()> {
    if flags > SET {
        return Err(Error::InvalidValue);
    }
    let (context, stream) = stream(on, default)?;
    context.set_capture_tips(&stream, &list(nodes, count)?, flags == SET)
}
