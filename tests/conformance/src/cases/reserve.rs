//! Addresses.

use anyhow::{Result, ensure};

use crate::case::Body::Shared;
use crate::case::Case;
use crate::gpu::Gpu;
use crate::{ask, expect};

const RESERVE: &str = "cuMemAddressReserve, CUDA Driver API, Virtual Memory Management";
const FREE: &str = "cuMemAddressFree, CUDA Driver API, Virtual Memory Management";

pub(super) const CASES: &[Case] = &[
    Case::documented("reserve/aligned", RESERVE, Shared(aligned)),
    Case::relied(
        "reserve/costs-no-memory",
        "the arena reserves many times the GPU's memory",
        Shared(costs_nothing),
    ),
    Case::documented("reserve/nothing", RESERVE, Shared(nothing)),
    Case::open(
        "reserve/one-byte",
        "sizes between granules: whether they are rounded or refused",
        Shared(one_byte),
    ),
    Case::open(
        "reserve/where-it-was",
        "the address is a hint: whether a free one is taken",
        Shared(where_it_was),
    ),
    Case::open(
        "reserve/where-something-is",
        "the address is a hint: what comes where it is taken",
        Shared(where_something_is),
    ),
    Case::documented("reserve/free-a-stranger", FREE, Shared(free_stranger)),
    Case::documented("reserve/free-a-part", FREE, Shared(free_part)),
    Case::relied(
        "reserve/free-while-mapped",
        "addresses that could be freed had nothing mapped, which is how cases see that an unmapping left nothing",
        Shared(free_while_mapped),
    ),
];

fn aligned(gpu: &Gpu) -> Result<String> {
    let (mut at, bytes, align) = (0, gpu.granule, 64 << 20);
    expect!(cuMemAddressReserve(&raw mut at, bytes, align, 0, 0))?;
    expect!(cuMemAddressFree(at, bytes))?;
    ensure!(at % align as u64 == 0, "{at:#x} for 64 MiB");
    Ok("as asked for, 64 MiB".to_owned())
}

fn costs_nothing(gpu: &Gpu) -> Result<String> {
    let before = gpu.free_bytes()?;
    let (mut at, bytes) = (0, 1 << 40);
    expect!(cuMemAddressReserve(&raw mut at, bytes, 0, 0, 0))?;
    let taken = before.saturating_sub(gpu.free_bytes()?);
    expect!(cuMemAddressFree(at, bytes))?;
    ensure!(taken == 0, "{taken} bytes of memory for 1 TiB of addresses");
    Ok("1 TiB of addresses, no memory".to_owned())
}

fn nothing(_: &Gpu) -> Result<String> {
    let mut at = 0;
    let status = expect!(cuMemAddressReserve(&raw mut at, 0, 0, 0, 0) => INVALID_VALUE)?;
    Ok(status.to_string())
}

#[expect(clippy::unnecessary_wraps, reason = "the form of every case")]
fn one_byte(_: &Gpu) -> Result<String> {
    let mut at = 0;
    let status = ask!(cuMemAddressReserve(&raw mut at, 1, 0, 0, 0));
    Ok(status.to_string())
}

fn where_it_was(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(4)?;
    gpu.unreserve(range)?;
    let mut at = 0;
    expect!(cuMemAddressReserve(
        &raw mut at,
        range.bytes,
        0,
        range.at,
        0
    ))?;
    expect!(cuMemAddressFree(at, range.bytes))?;
    let there = if at == range.at { "there" } else { "elsewhere" };
    Ok(format!("{there} again"))
}

fn where_something_is(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(4)?;
    let mut at = 0;
    let status = ask!(cuMemAddressReserve(
        &raw mut at,
        range.bytes,
        0,
        range.at,
        0
    ));
    if status == crate::cuda::Status::SUCCESS {
        ensure!(at != range.at, "the same addresses twice");
        expect!(cuMemAddressFree(at, range.bytes))?;
    }
    gpu.unreserve(range)?;
    Ok(format!("{status}, elsewhere"))
}

fn free_stranger(gpu: &Gpu) -> Result<String> {
    // Inside a reservation, and so never the start of one.
    let range = gpu.reserve(4)?;
    let inside = gpu.granule_at(range, 1);
    let status = expect!(cuMemAddressFree(inside, gpu.granule) => INVALID_VALUE)?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn free_part(gpu: &Gpu) -> Result<String> {
    let range = gpu.reserve(4)?;
    let status = expect!(cuMemAddressFree(range.at, gpu.granule) => INVALID_VALUE)?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn free_while_mapped(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(2)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    let status = expect!(cuMemAddressFree(range.at, range.bytes) => INVALID_VALUE)?;
    expect!(cuMemUnmap(range.at, gpu.granule))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}
