//! What happens before what.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::case::Body::Shared;
use crate::case::Case;
use crate::cuda::DEFAULT;
use crate::expect;
use crate::gpu::Gpu;

const BEHAVIOR: &str = "Stream synchronization behavior, CUDA Driver API";

pub(super) const CASES: &[Case] = &[
    Case::documented(
        "order/within-a-stream",
        "Stream Management, CUDA Driver API: work of one stream is done in order",
        Shared(within_stream),
    ),
    Case::documented(
        "order/events-between-streams",
        "cuStreamWaitEvent, CUDA Driver API, Stream Management",
        Shared(events),
    ),
    Case::documented(
        "order/default-stream-waits",
        BEHAVIOR,
        Shared(default_waits),
    ),
    Case::documented(
        "order/default-stream-does-not-wait-for-non-blocking",
        BEHAVIOR,
        Shared(default_passes),
    ),
    Case::documented(
        "order/synchronous-copy-to-the-host",
        "API synchronization behavior, CUDA Driver API",
        Shared(synchronous),
    ),
    Case::documented(
        "order/host-functions",
        "cuLaunchHostFunc, CUDA Driver API, Execution Control",
        Shared(host_functions),
    ),
    Case::relied(
        "order/event-of-a-copy-tells-its-end",
        "a chunk is unmapped once the event after its copy has come",
        Shared(event_after_copy),
    ),
    Case::relied(
        "order/context-waits-for-all-streams",
        "a drain that found all streams done is a drain",
        Shared(context_waits),
    ),
    Case::open(
        "order/free-waits-for-kernels",
        "whether cuMemFree waits for the work of other streams",
        Shared(free_waits),
    ),
    Case::open(
        "order/unmap-waits-for-kernels",
        "whether cuMemUnmap waits for work elsewhere: rtswap drains before, so that it does not matter",
        Shared(unmap_waits),
    ),
];

const LONG: Duration = Duration::from_millis(60);
const BYTES: usize = 1 << 20;

fn within_stream(gpu: &Gpu) -> Result<String> {
    let stream = gpu.stream(false)?;
    let (one, other) = (gpu.alloc(BYTES)?, gpu.alloc(BYTES)?);
    gpu.spin(stream, LONG)?;
    expect!(cuMemsetD8Async(one, 1, BYTES, stream))?;
    expect!(cuMemcpyDtoDAsync_v2(other, one, BYTES, stream))?;
    expect!(cuMemsetD8Async(one, 2, BYTES, stream))?;
    gpu.end(stream)?;
    let seen = (gpu.byte(one)?, gpu.byte(other + BYTES as u64 - 1)?);
    gpu.free(one)?;
    gpu.free(other)?;
    ensure!(seen == (2, 1), "{seen:?}");
    Ok("set, copy, set".to_owned())
}

fn events(gpu: &Gpu) -> Result<String> {
    let (first, second, event) = (gpu.stream(false)?, gpu.stream(false)?, gpu.event()?);
    let (one, other) = (gpu.alloc(BYTES)?, gpu.alloc(BYTES)?);
    // The streams do not wait for the default one, so it has to be done before.
    expect!(cuMemsetD8_v2(one, 0, BYTES))?;
    expect!(cuCtxSynchronize())?;
    gpu.spin(first, LONG)?;
    expect!(cuMemsetD8Async(one, 7, BYTES, first))?;
    expect!(cuEventRecord(event, first))?;
    expect!(cuStreamWaitEvent(second, event, 0))?;
    expect!(cuMemcpyDtoDAsync_v2(other, one, BYTES, second))?;
    gpu.end(second)?;
    gpu.end(first)?;
    let seen = gpu.byte(other + 5)?;
    expect!(cuEventDestroy_v2(event))?;
    gpu.free(one)?;
    gpu.free(other)?;
    ensure!(seen == 7, "the copy was before what it waits for");
    Ok("the second waits".to_owned())
}

fn default_waits(gpu: &Gpu) -> Result<String> {
    let (stream, at) = (gpu.stream(true)?, gpu.alloc(BYTES)?);
    gpu.spin(stream, LONG)?;
    expect!(cuMemsetD8Async(at, 1, BYTES, DEFAULT))?;
    expect!(cuStreamSynchronize(DEFAULT))?;
    let busy = gpu.is_busy(stream);
    gpu.end(stream)?;
    gpu.free(at)?;
    ensure!(!busy, "the blocking stream is not done");
    Ok("for blocking streams".to_owned())
}

fn default_passes(gpu: &Gpu) -> Result<String> {
    let stream = gpu.stream(false)?;
    // A host that stalls sees the stream done although nothing waited for it: a longer spin tells.
    for (stalls, times) in [4, 16, 64].into_iter().enumerate() {
        gpu.spin(stream, times * LONG)?;
        expect!(cuStreamSynchronize(DEFAULT))?;
        if gpu.is_busy(stream) {
            gpu.end(stream)?;
            return Ok(after(stalls, "for a non-blocking stream"));
        }
    }
    gpu.end(stream)?;
    bail!("it waited for a non-blocking stream")
}

/// An answer, and how often the host stalled before there was one.
fn after(stalls: usize, answer: &str) -> String {
    match stalls {
        0 => answer.to_owned(),
        _ => format!("{answer}, unjudged {stalls} times before"),
    }
}

fn synchronous(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(BYTES)?;
    expect!(cuMemsetD8_v2(at, 1, BYTES))?;
    gpu.spin(DEFAULT, LONG)?;
    expect!(cuMemsetD8Async(at, 2, BYTES, DEFAULT))?;
    let seen = gpu.byte(at)?;
    gpu.free(at)?;
    ensure!(seen == 2, "it did not wait for what was before it");
    Ok("waits for the default stream, and is done when it returns".to_owned())
}

unsafe extern "C" fn count(counter: *mut c_void) {
    // SAFETY: the case gives a counter that outlives its stream.
    let counter = unsafe { &*counter.cast::<AtomicU32>() };
    counter.fetch_add(1, Ordering::SeqCst);
}

fn host_functions(gpu: &Gpu) -> Result<String> {
    // A host that stalls until the function is due does not see that it waited: a longer spin tells.
    for (stalls, times) in [1, 4, 16].into_iter().enumerate() {
        let (stream, counter) = (gpu.stream(false)?, AtomicU32::new(0));
        let data = (&raw const counter).cast_mut().cast();
        let start = Instant::now();
        gpu.spin(stream, times * LONG)?;
        expect!(cuLaunchHostFunc(stream, count, data))?;
        let early = counter.load(Ordering::SeqCst);
        let is_due = start.elapsed() >= times * LONG;
        expect!(cuLaunchHostFunc(stream, count, data))?;
        gpu.end(stream)?;
        let seen = (early, counter.load(Ordering::SeqCst));
        if seen == (0, 2) {
            return Ok(after(stalls, "after the work before them, each once"));
        }
        ensure!(is_due && seen == (1, 2), "{seen:?}");
    }
    bail!("the host stalled each time until the function was due")
}

fn event_after_copy(gpu: &Gpu) -> Result<String> {
    const LARGE: usize = 16 << 20;
    let (stream, event, at) = (gpu.stream(false)?, gpu.event()?, gpu.alloc(LARGE)?);
    let mut host = ptr::null_mut();
    expect!(cuMemHostAlloc(&raw mut host, LARGE, 1))?;
    for seed in 1..4_u8 {
        expect!(cuMemsetD8Async(at, seed, LARGE, stream))?;
        expect!(cuMemcpyDtoHAsync_v2(host, at, LARGE, stream))?;
        expect!(cuEventRecord(event, stream))?;
        expect!(cuEventSynchronize(event))?;
        // SAFETY: LARGE pinned bytes, and nothing writes them once the event has come.
        let bytes = unsafe { std::slice::from_raw_parts(host.cast::<u8>(), LARGE) };
        ensure!(
            bytes.iter().all(|byte| *byte == seed),
            "the event came before the copy's end"
        );
    }
    gpu.end(stream)?;
    expect!(cuEventDestroy_v2(event))?;
    expect!(cuMemFreeHost(host))?;
    gpu.free(at)?;
    Ok("three times 16 MiB".to_owned())
}

fn context_waits(gpu: &Gpu) -> Result<String> {
    let streams = [gpu.stream(false)?, gpu.stream(true)?];
    for stream in streams {
        gpu.spin(stream, LONG)?;
    }
    expect!(cuCtxSynchronize())?;
    for stream in streams {
        ensure!(!gpu.is_busy(stream), "a stream is not done");
        gpu.end(stream)?;
    }
    Ok("blocking and not".to_owned())
}

/// Whether a stream was done after `call`, while it had work for a while.
fn waited(gpu: &Gpu, call: impl FnOnce() -> Result<()>) -> Result<String> {
    let stream = gpu.stream(false)?;
    gpu.spin(stream, 4 * LONG)?;
    call()?;
    let busy = gpu.is_busy(stream);
    gpu.end(stream)?;
    Ok(if busy { "no" } else { "yes" }.to_owned())
}

fn free_waits(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(BYTES)?;
    waited(gpu, || gpu.free(at))
}

fn unmap_waits(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(1)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    let answer = waited(gpu, || expect!(cuMemUnmap(range.at, range.bytes)));
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    answer
}
