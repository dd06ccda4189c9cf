//! What may not be done while a stream captures.

use std::ptr;

use anyhow::{Result, ensure};
use cudarc::driver::sys::CUgraph;

use crate::case::Body::Shared;
use crate::case::Case;
use crate::cuda::{Status, Stream};
use crate::gpu::Gpu;
use crate::{ask, expect};

const PAGE: &str = "cuStreamBeginCapture, CUDA Driver API, Stream Management";

pub(super) const CASES: &[Case] = &[
    Case::documented("capture/records-and-does-nothing", PAGE, Shared(records)),
    Case::documented("capture/synchronize-invalidates", PAGE, Shared(synchronize)),
    Case::documented(
        "capture/allocating-is-unsafe",
        "cuThreadExchangeStreamCaptureMode, CUDA Driver API, Stream Management",
        Shared(allocate),
    ),
    Case::documented(
        "capture/relaxed-allows-it",
        "cuThreadExchangeStreamCaptureMode, CUDA Driver API, Stream Management",
        Shared(relaxed),
    ),
    Case::open(
        "capture/mapping",
        "the agent maps during captures of the program, in relaxed mode; whether the global mode forbids it",
        Shared(mapping),
    ),
];

/// CUstreamCaptureMode.
const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

/// Captures `work` on a stream of its own; what the end came to.
fn captured(gpu: &Gpu, mode: u32, work: impl FnOnce(Stream) -> Result<()>) -> Result<Status> {
    let (stream, mut graph): (_, CUgraph) = (gpu.stream(false)?, ptr::null_mut());
    expect!(cuStreamBeginCapture_v2(stream, mode))?;
    let done = work(stream);
    let end = ask!(cuStreamEndCapture(stream, &raw mut graph));
    if !graph.is_null() {
        expect!(cuGraphDestroy(graph))?;
    }
    gpu.end(stream)?;
    done?;
    Ok(end)
}

fn records(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(4096)?;
    expect!(cuMemsetD8_v2(at, 1, 4096))?;
    let end = captured(gpu, GLOBAL, |stream| {
        expect!(cuMemsetD8Async(at, 2, 4096, stream))
    })?;
    let seen = gpu.byte(at)?;
    gpu.free(at)?;
    ensure!((end, seen) == (Status::SUCCESS, 1), "{end}, then {seen}");
    Ok("nothing was set".to_owned())
}

fn synchronize(gpu: &Gpu) -> Result<String> {
    let end = captured(gpu, GLOBAL, |stream| {
        expect!(cuStreamSynchronize(stream) => STREAM_CAPTURE_UNSUPPORTED).map(drop)
    })?;
    ensure!(
        end == Status::STREAM_CAPTURE_INVALIDATED,
        "the capture ended with {end}"
    );
    Ok(end.to_string())
}

fn allocate(gpu: &Gpu) -> Result<String> {
    let end = captured(gpu, GLOBAL, |_| {
        let mut at = 0;
        expect!(cuMemAlloc_v2(&raw mut at, 4096) => STREAM_CAPTURE_UNSUPPORTED).map(drop)
    })?;
    ensure!(
        end == Status::STREAM_CAPTURE_INVALIDATED,
        "the capture ended with {end}"
    );
    Ok(end.to_string())
}

fn relaxed(gpu: &Gpu) -> Result<String> {
    let end = captured(gpu, RELAXED, |_| {
        let at = gpu.alloc(4096)?;
        gpu.free(at)
    })?;
    ensure!(end == Status::SUCCESS, "the capture ended with {end}");
    Ok("cuMemAlloc and cuMemFree".to_owned())
}

fn mapping(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(1)?, gpu.create(1)?);
    let mut seen = Vec::new();
    for mode in [GLOBAL, RELAXED] {
        let mut mapped = Status::SUCCESS;
        let end = captured(gpu, mode, |_| {
            mapped = ask!(cuMemMap(range.at, range.bytes, 0, handle, 0));
            if mapped == Status::SUCCESS {
                expect!(cuMemUnmap(range.at, range.bytes))?;
            }
            Ok(())
        })?;
        let mode = if mode == GLOBAL { "global" } else { "relaxed" };
        seen.push(format!("{mode}: {mapped}, capture {end}"));
    }
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok(seen.join("; "))
}
