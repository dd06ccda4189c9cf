//! Mapping and unmapping.

use anyhow::Result;

use crate::case::Body::Shared;
use crate::case::Case;
use crate::cuda::Status;
use crate::gpu::Gpu;
use crate::{ask, expect};

const MAP: &str = "cuMemMap, CUDA Driver API, Virtual Memory Management";
const UNMAP: &str = "cuMemUnmap, CUDA Driver API, Virtual Memory Management";
/// Why it is of a handle's size.
const WHOLE: &str = "a handle for each chunk, since driver 580.159 maps whole handles alone, which cuMemMap's documentation does not say";

pub(super) const CASES: &[Case] = &[
    Case::relied(
        "map/chunk-by-chunk",
        "the arena: neighbouring chunks are one range for the program",
        Shared(neighbours),
    ),
    Case::documented("map/addresses-nobody-reserved", MAP, Shared(unreserved)),
    Case::documented("map/between-granules", MAP, Shared(misaligned)),
    Case::relied("map/more-than-the-handle", WHOLE, Shared(too_long)),
    Case::relied("map/beginning-of-a-handle", WHOLE, Shared(beginning)),
    Case::open(
        "map/from-an-offset",
        "the offset is an argument, and documented to be zero for now; rtswap has a handle for each chunk",
        Shared(offset),
    ),
    Case::documented("map/flags", MAP, Shared(flags)),
    Case::relied(
        "map/twice-at-one-address",
        "the agent takes what the program maps for free addresses only if the driver does",
        Shared(occupied),
    ),
    Case::documented(
        "map/one-handle-at-two-addresses",
        "Virtual Aliasing Support, CUDA C++ Programming Guide, Virtual Memory Management",
        Shared(alias),
    ),
    Case::documented("map/unmap-a-part", UNMAP, Shared(unmap_part)),
    Case::relied(
        "map/unmap-several",
        "a run of chunks leaves by one call",
        Shared(unmap_several),
    ),
    Case::relied(
        "map/unmap-nothing",
        "success does not tell that something was mapped: driver 580.159 unmaps reserved addresses with nothing behind them",
        Shared(unmap_nothing),
    ),
    Case::open(
        "map/unmap-over-a-hole",
        "driver 580.159 unmaps addresses with nothing behind them; whether it does together with a mapping",
        Shared(unmap_hole),
    ),
    Case::relied(
        "map/again-at-the-same-address",
        "what is swapped in is where it was, with new memory behind it",
        Shared(again),
    ),
];

fn neighbours(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(4)?;
    let handles = [
        gpu.create(1)?,
        gpu.create(1)?,
        gpu.create(1)?,
        gpu.create(1)?,
    ];
    for (number, handle) in handles.into_iter().enumerate() {
        expect!(cuMemMap(
            gpu.granule_at(range, number),
            gpu.granule,
            0,
            handle,
            0
        ))?;
    }
    gpu.allow(range.at, range.bytes)?;
    gpu.write(range.at, range.bytes, 1)?;
    gpu.check(range.at, range.bytes, 1)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    for handle in handles {
        expect!(cuMemRelease(handle))?;
    }
    gpu.unreserve(range)?;
    Ok("four handles, one access, one copy over all".to_owned())
}

/// Tries one mapping of two granules that must not work; what came of it.
fn refused(gpu: &Gpu, at: u64, flags: u64) -> Result<Status> {
    let handle = gpu.create(2)?;
    let status = expect!(cuMemMap(at, 2 * gpu.granule, 0, handle, flags) => INVALID_VALUE);
    expect!(cuMemRelease(handle))?;
    status
}

/// The same of so many bytes of a handle of two granules.
fn refused_size(gpu: &Gpu, at: u64, bytes: usize) -> Result<Status> {
    let handle = gpu.create(2)?;
    let status = expect!(cuMemMap(at, bytes, 0, handle, 0) => NOT_SUPPORTED);
    expect!(cuMemRelease(handle))?;
    status
}

fn unreserved(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(4)?;
    gpu.unreserve(range)?;
    Ok(refused(gpu, range.at, 0)?.to_string())
}

fn misaligned(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(4)?, gpu.create(2)?);
    // The documentation names both codes, and for which argument driver 580.159 gives which was not told apart.
    let between =
        |at, bytes| expect!(cuMemMap(at, bytes, 0, handle, 0) => INVALID_VALUE | NOT_SUPPORTED);
    let address = between(range.at + 4096, 2 * gpu.granule);
    let size = between(range.at, gpu.granule + 4096);
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    let (address, size) = (address?, size?);
    Ok(format!("address {address}, size {size}"))
}

fn too_long(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(4)?;
    let status = refused_size(gpu, range.at, 3 * gpu.granule)?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn beginning(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(2)?;
    let status = refused_size(gpu, range.at, gpu.granule)?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn offset(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(1)?, gpu.create(2)?);
    let status = ask!(cuMemMap(range.at, gpu.granule, gpu.granule, handle, 0));
    if status == Status::SUCCESS {
        expect!(cuMemUnmap(range.at, gpu.granule))?;
    }
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn flags(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(2)?;
    let status = refused(gpu, range.at, 1)?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn occupied(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(1)?;
    let (one, other) = (gpu.create(1)?, gpu.create(1)?);
    gpu.map(range.at, 1, one)?;
    gpu.write(range.at, gpu.granule, 3)?;
    let status =
        expect!(cuMemMap(range.at, gpu.granule, 0, other, 0) => INVALID_VALUE | ALREADY_MAPPED)?;
    gpu.check(range.at, gpu.granule, 3)?;
    expect!(cuMemUnmap(range.at, gpu.granule))?;
    expect!(cuMemRelease(one))?;
    expect!(cuMemRelease(other))?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn alias(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(2)?, gpu.create(1)?);
    let (one, other) = (range.at, gpu.granule_at(range, 1));
    gpu.map(one, 1, handle)?;
    gpu.map(other, 1, handle)?;
    gpu.write(one, gpu.granule, 4)?;
    gpu.check(other, gpu.granule, 4)?;
    // The other stays what it is when one goes.
    expect!(cuMemUnmap(one, gpu.granule))?;
    gpu.check(other, gpu.granule, 4)?;
    expect!(cuMemUnmap(other, gpu.granule))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok("the same bytes at both".to_owned())
}

fn unmap_part(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(2)?, gpu.create(2)?);
    gpu.map(range.at, 2, handle)?;
    gpu.write(range.at, range.bytes, 5)?;
    let head = expect!(cuMemUnmap(range.at, gpu.granule) => INVALID_VALUE)?;
    let tail = expect!(cuMemUnmap(gpu.granule_at(range, 1), gpu.granule) => INVALID_VALUE)?;
    gpu.check(range.at, range.bytes, 5)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok(format!("head {head}, tail {tail}"))
}

fn unmap_several(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(3)?;
    let (one, two) = (gpu.create(1)?, gpu.create(2)?);
    gpu.map(range.at, 1, one)?;
    gpu.map(gpu.granule_at(range, 1), 2, two)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(one))?;
    expect!(cuMemRelease(two))?;
    gpu.unreserve(range)?;
    Ok("two mappings by one call".to_owned())
}

fn unmap_nothing(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(2)?, gpu.create(1)?);
    expect!(cuMemUnmap(range.at, range.bytes))?;
    // Twice, with something beside it that stays.
    gpu.map(range.at, 1, handle)?;
    gpu.write(range.at, gpu.granule, 6)?;
    for _ in 0..2 {
        expect!(cuMemUnmap(gpu.granule_at(range, 1), gpu.granule))?;
    }
    gpu.check(range.at, gpu.granule, 6)?;
    expect!(cuMemUnmap(range.at, gpu.granule))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok("the reservation stays, and what is beside it".to_owned())
}

fn unmap_hole(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(2)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    let status = ask!(cuMemUnmap(range.at, range.bytes));
    if status != Status::SUCCESS {
        expect!(cuMemUnmap(range.at, gpu.granule))?;
    }
    expect!(cuMemRelease(handle))?;
    // This is refused while something is mapped.
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn again(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(1)?;
    for seed in 0..20 {
        let handle = gpu.create(1)?;
        gpu.map(range.at, 1, handle)?;
        gpu.write(range.at, range.bytes, seed)?;
        gpu.check(range.at, range.bytes, seed)?;
        expect!(cuMemUnmap(range.at, range.bytes))?;
        expect!(cuMemRelease(handle))?;
    }
    // This is refused while something is mapped.
    gpu.unreserve(range)?;
    Ok("20 times".to_owned())
}
