//! Physical memory.

use anyhow::{Result, ensure};
use cudarc::driver::sys::CUmemAllocationHandleType;

use crate::case::Body::Shared;
use crate::case::Case;
use crate::cuda::Status;
use crate::gpu::{Gpu, properties};
use crate::{ask, expect};

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
    Case::documented(
        "create/for-export-and-rdma",
        "cuMemGetAllocationPropertiesFromHandle, CUDA Driver API, Virtual Memory Management",
        Shared(as_frameworks_ask),
    ),
    Case::documented("create/for-a-fabric", PAGE, Shared(fabric)),
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

/// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED.
const RDMA: i32 = 110;
/// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED.
const FABRIC: i32 = 128;

/// PyTorch's expandable segments ask for a handle type, and for RDMA where the GPU has it.
fn as_frameworks_ask(gpu: &Gpu) -> Result<String> {
    let (mut of, mut told, mut handle) = (properties(gpu.device), properties(-1), 0);
    of.requestedHandleTypes = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    of.allocFlags.gpuDirectRDMACapable = u8::from(gpu.attribute(RDMA)? != 0);
    expect!(cuMemCreate(&raw mut handle, gpu.granule, &raw const of, 0))?;
    let status = ask!(cuMemGetAllocationPropertiesFromHandle(
        &raw mut told,
        handle
    ));
    expect!(cuMemRelease(handle))?;
    ensure!(status == Status::SUCCESS, "{status}");
    ensure!(told == of, "{told:?} for {of:?}");
    Ok("told as asked".to_owned())
}

/// Frameworks that ask for a fabric handle fall back on this error, but not on another.
fn fabric(gpu: &Gpu) -> Result<String> {
    let (mut of, mut handle) = (properties(gpu.device), 0);
    of.requestedHandleTypes = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;
    let status = expect!(cuMemCreate(
        &raw mut handle, gpu.granule, &raw const of, 0
    ) => SUCCESS | NOT_SUPPORTED | NOT_PERMITTED)?;
    if status == Status::SUCCESS {
        expect!(cuMemRelease(handle))?;
    }
    let supported = gpu.attribute(FABRIC)? != 0;
    ensure!(
        supported || status != Status::SUCCESS,
        "created for a fabric that the GPU says it lacks"
    );
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
