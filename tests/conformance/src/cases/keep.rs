//! What keeps physical memory, and what gives it back.

use anyhow::{Result, ensure};
use cudarc::driver::sys::CUdeviceptr;

use crate::case::Body::{Alone, Shared};
use crate::case::Case;
use crate::cuda::Handle;
use crate::gpu::Gpu;
use crate::{ask, expect};

const RELEASE: &str = "cuMemRelease, CUDA Driver API, Virtual Memory Management";
const UNMAP: &str = "cuMemUnmap, CUDA Driver API, Virtual Memory Management";

pub(super) const CASES: &[Case] = &[
    Case::documented("keep/released-while-mapped", RELEASE, Shared(released)),
    Case::documented("keep/unmapped-with-a-handle", UNMAP, Shared(unmapped)),
    Case::documented(
        "keep/retained-by-address",
        "cuMemRetainAllocationHandle, CUDA Driver API, Virtual Memory Management",
        Shared(retained),
    ),
    Case::relied(
        "keep/unmap-and-release-return-at-once",
        "swap-out: unmap, release, then acknowledge that the bytes are free",
        Shared(at_once),
    ),
    Case::relied(
        "keep/freed-memory-returns-at-once",
        "an eviction by cuMemFree counts when it is done",
        Shared(freed),
    ),
    Case::open(
        "keep/released-twice",
        "whether a stale handle is refused",
        Alone(twice),
    ),
    Case::open(
        "keep/new-memory-is-zero",
        "the driver is said to scrub memory that changes hands; rtswap overwrites each chunk before it counts as resident",
        Shared(scrubbed),
    ),
];

const GRANULES: usize = 4;

fn released(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(GRANULES)?, gpu.create(GRANULES)?);
    gpu.map(range.at, GRANULES, handle)?;
    gpu.write(range.at, range.bytes, 1)?;
    let before = gpu.free_bytes()?;
    expect!(cuMemRelease(handle))?;
    let kept = gpu.free_bytes()?;
    gpu.check(range.at, range.bytes, 1)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    let after = gpu.free_bytes()?;
    gpu.unreserve(range)?;
    gpu.same("free after the release", kept, before)?;
    gpu.same("free after the last unmap", after, before + range.bytes)?;
    Ok("free only after the unmap".to_owned())
}

fn unmapped(gpu: &Gpu) -> Result<String> {
    let (range, other) = (gpu.reserve(GRANULES)?, gpu.reserve(GRANULES)?);
    let handle = gpu.create(GRANULES)?;
    gpu.map(range.at, GRANULES, handle)?;
    gpu.write(range.at, range.bytes, 2)?;
    let before = gpu.free_bytes()?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    let kept = gpu.free_bytes()?;
    gpu.map(other.at, GRANULES, handle)?;
    gpu.check(other.at, other.bytes, 2)?;
    expect!(cuMemUnmap(other.at, other.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    gpu.unreserve(other)?;
    gpu.same("free after the unmap", kept, before)?;
    Ok("the same bytes at another address".to_owned())
}

fn retained(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(GRANULES)?, gpu.create(GRANULES)?);
    gpu.map(range.at, GRANULES, handle)?;
    let mut again: Handle = 0;
    let inside = gpu.granule_at(range, 1) + 5;
    expect!(cuMemRetainAllocationHandle(
        &raw mut again,
        std::ptr::with_exposed_provenance_mut(inside as usize)
    ))?;
    expect!(cuMemRelease(handle))?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    let before = gpu.free_bytes()?;
    expect!(cuMemRelease(again))?;
    let returned = gpu.free_bytes()? - before;
    gpu.unreserve(range)?;
    gpu.same("came back at last", returned, range.bytes)?;
    let same = if again == handle {
        "the same"
    } else {
        "another"
    };
    Ok(format!("{same} number; each is released once"))
}

fn at_once(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(GRANULES)?, gpu.create(GRANULES)?);
    gpu.map(range.at, GRANULES, handle)?;
    let before = gpu.free_bytes()?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    let returned = gpu.free_bytes()?.saturating_sub(before);
    gpu.unreserve(range)?;
    gpu.same("came back at once", returned, range.bytes)?;
    Ok(format!("{returned} bytes"))
}

fn freed(gpu: &Gpu) -> Result<String> {
    const BYTES: usize = 32 << 20;
    let at = gpu.alloc(BYTES)?;
    let before = gpu.free_bytes()?;
    gpu.free(at)?;
    let returned = gpu.free_bytes()?.saturating_sub(before);
    ensure!(returned >= BYTES, "{returned} of {BYTES} bytes are free");
    Ok(format!("{returned} bytes"))
}

fn twice(gpu: &Gpu) -> Result<String> {
    let handle = gpu.create(1)?;
    expect!(cuMemRelease(handle))?;
    let status = ask!(cuMemRelease(handle));
    ensure!(
        status != crate::cuda::Status::SUCCESS,
        "a stale handle was released"
    );
    Ok(status.to_string())
}

fn scrubbed(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(GRANULES)?;
    let mut leftovers = 0;
    for _ in 0..4 {
        let handle = gpu.create(GRANULES)?;
        gpu.map(range.at, GRANULES, handle)?;
        leftovers += count_nonzero(range.at, range.bytes)?;
        gpu.write(range.at, range.bytes, 3)?;
        expect!(cuMemUnmap(range.at, range.bytes))?;
        expect!(cuMemRelease(handle))?;
    }
    gpu.unreserve(range)?;
    Ok(format!("{leftovers} bytes of before were seen"))
}

fn count_nonzero(at: CUdeviceptr, bytes: usize) -> Result<usize> {
    let mut host = vec![0_u8; bytes];
    expect!(cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), at, bytes))?;
    Ok(host.iter().filter(|byte| **byte != 0).count())
}
