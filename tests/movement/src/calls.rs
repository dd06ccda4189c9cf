//! What the calls for one chunk take, and the fingerprint of one.

use std::ffi::CString;
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::Result;
use rtswap_conformance::expect;
use rtswap_conformance::gpu::{Gpu, argument};

use crate::raw::rate;
use crate::report::Calls;

/// How often each call is timed.
const TIMES: usize = 16;
/// The agent's kernel.
const FINGERPRINT: &str = include_str!("../../../cuda-agent/core/src/memory/fingerprint.ptx");
/// Its launch: any does, enough for the largest GPU.
const BLOCKS: u32 = 1024;
const THREADS: u32 = 256;

fn timed(times: &mut Vec<Duration>, call: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    call()?;
    times.push(start.elapsed());
    Ok(())
}

fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// The calls for chunks of this size, one by one.
pub(crate) fn of_chunk(gpu: &Gpu, bytes: usize) -> Result<Calls> {
    let granules = bytes / gpu.granule;
    let range = gpu.reserve(granules)?;
    let mut times: [Vec<Duration>; 5] = Default::default();
    for _ in 0..TIMES {
        let [create, map, access, unmap, release] = &mut times;
        let mut handle = 0;
        timed(create, || {
            handle = gpu.create(granules)?;
            Ok(())
        })?;
        timed(map, || expect!(cuMemMap(range.at, bytes, 0, handle, 0)))?;
        timed(access, || gpu.allow(range.at, bytes))?;
        timed(unmap, || expect!(cuMemUnmap(range.at, bytes)))?;
        timed(release, || expect!(cuMemRelease(handle)))?;
    }
    gpu.unreserve(range)?;
    let [create, map, access, unmap, release] = times.map(median_us);
    Ok(Calls {
        create,
        map,
        access,
        unmap,
        release,
    })
}

/// GiB/s of the agent's fingerprint.
pub(crate) fn fingerprint(gpu: &Gpu, bytes: usize, rounds: u32) -> Result<f64> {
    let image = CString::new(FINGERPRINT).expect("the PTX holds no NUL");
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    expect!(cuModuleLoadData(&raw mut module, image.as_ptr().cast()))?;
    expect!(cuModuleGetFunction(
        &raw mut function,
        module,
        c"fingerprint".as_ptr()
    ))?;
    let (sums, data) = (gpu.alloc(16)?, gpu.alloc(bytes)?);
    expect!(cuMemsetD8_v2(data, 3, bytes))?;
    let mut values = [sums, data, bytes as u64 / 8, 0, 0x1234_5678, 0x9abc_def0];
    let mut arguments = values.each_mut().map(argument);
    let (mut best, none) = (Duration::MAX, ptr::null_mut());
    for _ in 0..rounds.max(2) {
        expect!(cuCtxSynchronize())?;
        let start = Instant::now();
        expect!(cuLaunchKernel(
            function,
            BLOCKS,
            1,
            1,
            THREADS,
            1,
            1,
            0,
            0,
            arguments.as_mut_ptr(),
            none
        ))?;
        expect!(cuCtxSynchronize())?;
        best = best.min(start.elapsed());
    }
    gpu.free(sums)?;
    gpu.free(data)?;
    Ok(rate(bytes, best))
}
