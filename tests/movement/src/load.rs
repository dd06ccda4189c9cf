//! What copies in both directions cost a kernel that reads memory as fast as it can.

use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rtswap_conformance::cuda::Stream;
use rtswap_conformance::expect;
use rtswap_conformance::gpu::{Gpu, argument};

use crate::raw::Buffers;

/// Kernels of each measurement.
const TIMES: usize = 8;
/// Bytes that each reads at most, where an eighth of what is free is as much: many times what a cache holds (50 MiB on an
/// H200), so that the kernel needs the memory that the copies need.
const MOST: usize = 4 << 30;
/// Its launch: as many threads as the largest GPU runs at a time.
const BLOCKS: u32 = 1024;
const THREADS: u32 = 256;
/// Copies of all buffers that are put in each stream: so many outlast the kernels, and more do where a host that stands
/// still meanwhile lets the first be over before one kernel is.
const COPIES: [usize; 4] = [4, 16, 64, 256];
/// Bytes of one copy.
const COPY: usize = 16 << 20;

/// The kernel's median time while both copy engines are busy, over its median alone.
pub(crate) fn inflation(gpu: &Gpu, buffers: &Buffers) -> Result<f64> {
    let words = MOST.min(gpu.free_bytes()? / 8) / 4;
    let (stream, data, sum) = (gpu.stream(false)?, gpu.alloc(words * 4)?, gpu.alloc(8)?);
    gpu.fill(stream, data, words as u64, 1)?;
    let read = || read(gpu, stream, sum, data, words as u64);
    // The first loads the kernel.
    read()?;
    let alone = median((0..TIMES).map(|_| read()).collect::<Result<_>>()?);
    let mut loaded = Vec::new();
    for copies in COPIES {
        for _ in 0..copies {
            for way in 0..2 {
                buffers.enqueue(way, COPY)?;
            }
        }
        while loaded.len() < TIMES {
            let took = read()?;
            if !buffers.are_busy() {
                break;
            }
            loaded.push(took);
        }
        for way in 0..2 {
            buffers.wait(way)?;
        }
        if !loaded.is_empty() {
            break;
        }
    }
    gpu.end(stream)?;
    gpu.free(data)?;
    gpu.free(sum)?;
    ensure!(
        !loaded.is_empty(),
        "the copies were over before one kernel was"
    );
    Ok(median(loaded).as_secs_f64() / alone.as_secs_f64())
}

fn read(gpu: &Gpu, stream: Stream, sum: u64, data: u64, words: u64) -> Result<Duration> {
    let (mut sum, mut data, mut words) = (sum, data, words);
    let mut arguments = [
        argument(&mut sum),
        argument(&mut data),
        argument(&mut words),
    ];
    let (function, none) = (gpu.kernel("checksum")?, ptr::null_mut());
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
        stream,
        arguments.as_mut_ptr(),
        none
    ))?;
    expect!(cuStreamSynchronize(stream))?;
    Ok(start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
