//! Physical memory.

use anyhow::{Result, ensure};

use crate::case::Body::Shared;
use crate::case::Case;
use crate::expect;
use crate::gpu::{Gpu, properties};

const PAGE: &str = "cuMemCreate, CUDA Driver API, Virtual Memory Management";

pub(super) const CASES: &[Case] = &[
    Case::relied(
        "create/granularity",
        "chunks are multiples of 2 MiB: the granularity must divide that",
        Shared(granularity),
    ),
    Case::documented(
        "create/recommended-granularity",
        "CUmemAllocationGranularity_flags, CUDA Driver API, Data types",
        Shared(recommended),
    ),
    Case::documented("create/size-between-granules", PAGE, Shared(uneven)),
    Case::documented("create/nothing", PAGE, Shared(nothing)),
    Case::documented("create/more-than-there-is", PAGE, Shared(too_much)),
    Case::documented("create/flags", PAGE, Shared(flags)),
    Case::relied(
        "create/free-memory-shrinks",
        "the agent and the ledger take a chunk created for a chunk less",
        Shared(shrinks),
    ),
    Case::relied(
        "create/release-unmapped-returns-at-once",
        "a swapped-out chunk is free for another task before it is acknowledged",
        Shared(returns),
    ),
];

fn granularity(gpu: &Gpu) -> Result<String> {
    ensure!(
        gpu.granule.is_power_of_two() && (2 << 20) % gpu.granule == 0,
        "{} bytes",
        gpu.granule
    );
    Ok(format!("{} bytes", gpu.granule))
}

fn recommended(gpu: &Gpu) -> Result<String> {
    let (of, mut bytes) = (properties(gpu.device), 0);
    expect!(cuMemGetAllocationGranularity(
        &raw mut bytes,
        &raw const of,
        1
    ))?;
    ensure!(
        bytes >= gpu.granule && bytes % gpu.granule == 0,
        "{bytes} bytes are no multiple of the minimum, {}",
        gpu.granule
    );
    Ok(format!("{bytes} bytes"))
}

fn uneven(gpu: &Gpu) -> Result<String> {
    let (of, mut handle) = (properties(gpu.device), 0);
    let bytes = gpu.granule + 1;
    let status = expect!(cuMemCreate(&raw mut handle, bytes, &raw const of, 0) => INVALID_VALUE)?;
    Ok(status.to_string())
}

fn nothing(gpu: &Gpu) -> Result<String> {
    let (of, mut handle) = (properties(gpu.device), 0);
    let status = expect!(cuMemCreate(&raw mut handle, 0, &raw const of, 0) => INVALID_VALUE)?;
    Ok(status.to_string())
}

fn too_much(gpu: &Gpu) -> Result<String> {
    let (of, mut handle, mut total) = (properties(gpu.device), 0, 0);
    expect!(cuDeviceTotalMem_v2(&raw mut total, gpu.device))?;
    let bytes = (2 * total).next_multiple_of(gpu.granule);
    let status = expect!(cuMemCreate(&raw mut handle, bytes, &raw const of, 0) => OUT_OF_MEMORY)?;
    // It is no error that stays.
    let small = gpu.create(1)?;
    expect!(cuMemRelease(small))?;
    Ok(status.to_string())
}

fn flags(gpu: &Gpu) -> Result<String> {
    let (of, mut handle) = (properties(gpu.device), 0);
    let status =
        expect!(cuMemCreate(&raw mut handle, gpu.granule, &raw const of, 1) => INVALID_VALUE)?;
    Ok(status.to_string())
}

/// Granules of the cases that look at free memory.
const GRANULES: usize = 8;

fn shrinks(gpu: &Gpu) -> Result<String> {
    let before = gpu.free_bytes()?;
    let handle = gpu.create(GRANULES)?;
    let taken = before.saturating_sub(gpu.free_bytes()?);
    expect!(cuMemRelease(handle))?;
    gpu.same("free memory shrank by", taken, GRANULES * gpu.granule)?;
    Ok(format!("{taken} bytes less"))
}

fn returns(gpu: &Gpu) -> Result<String> {
    let handle = gpu.create(GRANULES)?;
    let before = gpu.free_bytes()?;
    expect!(cuMemRelease(handle))?;
    let returned = gpu.free_bytes()?.saturating_sub(before);
    gpu.same("free memory grew by", returned, GRANULES * gpu.granule)?;
    Ok(format!("{returned} bytes more"))
}
