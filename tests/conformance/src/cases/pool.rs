//! Stream-ordered memory.

use std::ptr;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use cudarc::driver::sys::CUmemoryPool;

use crate::case::Body::Shared;
use crate::case::{Case, Skipped};
use crate::expect;
use crate::gpu::Gpu;

const PAGE: &str = "Stream Ordered Memory Allocator, CUDA Driver API";

pub(super) const CASES: &[Case] = &[
    Case::documented("pool/ordered-like-work", PAGE, Shared(ordered)),
    Case::documented(
        "pool/memory-goes-back-at-a-synchronization",
        PAGE,
        Shared(returns),
    ),
    Case::open(
        "pool/reuse-on-one-stream",
        "rtswap gives what a stream freed to the same stream at once; whether the driver does",
        Shared(reuse),
    ),
    Case::documented(
        "pool/freed-on-the-host",
        "cuMemFree, CUDA Driver API, Memory Management",
        Shared(freed_on_host),
    ),
];

const BYTES: usize = 4 << 20;
/// CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED.
const POOLS: i32 = 115;
/// CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT.
const RESERVED: u32 = 5;

fn need(gpu: &Gpu) -> Result<()> {
    if gpu.attribute(POOLS)? == 0 {
        bail!(Skipped("this GPU has no memory pools".to_owned()));
    }
    Ok(())
}

fn ordered(gpu: &Gpu) -> Result<String> {
    need(gpu)?;
    let (stream, kept) = (gpu.stream(false)?, gpu.alloc(BYTES)?);
    let (mut one, mut other) = (0, 0);
    gpu.spin(stream, Duration::from_millis(30))?;
    expect!(cuMemAllocAsync(&raw mut one, BYTES, stream))?;
    expect!(cuMemsetD8Async(one, 5, BYTES, stream))?;
    expect!(cuMemcpyDtoDAsync_v2(kept, one, BYTES, stream))?;
    expect!(cuMemFreeAsync(one, stream))?;
    // What may be the same memory is written only after it was read.
    expect!(cuMemAllocAsync(&raw mut other, BYTES, stream))?;
    expect!(cuMemsetD8Async(other, 6, BYTES, stream))?;
    expect!(cuMemFreeAsync(other, stream))?;
    gpu.end(stream)?;
    let seen = (gpu.byte(kept)?, gpu.byte(kept + BYTES as u64 - 1)?);
    gpu.free(kept)?;
    ensure!(seen == (5, 5), "{seen:?}");
    Ok("allocated, used and freed in the stream's order".to_owned())
}

fn returns(gpu: &Gpu) -> Result<String> {
    need(gpu)?;
    let stream = gpu.stream(false)?;
    let mut pool: CUmemoryPool = ptr::null_mut();
    expect!(cuDeviceGetDefaultMemPool(&raw mut pool, gpu.device))?;
    let reserved = || -> Result<u64> {
        let mut bytes = 0_u64;
        expect!(cuMemPoolGetAttribute(
            pool,
            RESERVED,
            (&raw mut bytes).cast()
        ))?;
        Ok(bytes)
    };
    let mut at = 0;
    expect!(cuMemAllocAsync(&raw mut at, BYTES, stream))?;
    expect!(cuStreamSynchronize(stream))?;
    let held = reserved()?;
    expect!(cuMemFreeAsync(at, stream))?;
    expect!(cuStreamSynchronize(stream))?;
    let after = reserved()?;
    gpu.end(stream)?;
    ensure!(held >= BYTES as u64, "{held} bytes reserved for {BYTES}");
    ensure!(
        after < held,
        "{after} of {held} bytes stay reserved, the threshold being 0"
    );
    Ok(format!("{held} bytes reserved, then {after}"))
}

fn reuse(gpu: &Gpu) -> Result<String> {
    need(gpu)?;
    let stream = gpu.stream(false)?;
    let (mut one, mut other) = (0, 0);
    expect!(cuMemAllocAsync(&raw mut one, BYTES, stream))?;
    expect!(cuMemFreeAsync(one, stream))?;
    expect!(cuMemAllocAsync(&raw mut other, BYTES, stream))?;
    expect!(cuMemFreeAsync(other, stream))?;
    gpu.end(stream)?;
    let same = if one == other { "the same" } else { "another" };
    Ok(format!("{same} address"))
}

fn freed_on_host(gpu: &Gpu) -> Result<String> {
    need(gpu)?;
    let (stream, mut at) = (gpu.stream(false)?, 0);
    expect!(cuMemAllocAsync(&raw mut at, BYTES, stream))?;
    expect!(cuStreamSynchronize(stream))?;
    gpu.free(at)?;
    gpu.end(stream)?;
    Ok("by cuMemFree".to_owned())
}
