//! Errors that stay with a context.

use anyhow::{Context, Result, ensure};

use super::other;
use crate::case::Body::Alone;
use crate::case::Case;
use crate::cuda::{DEFAULT, Status};
use crate::gpu::Gpu;
use crate::{ask, expect};

pub(super) const CASES: &[Case] = &[
    Case::documented(
        "sticky/illegal-address",
        "CUDA_ERROR_ILLEGAL_ADDRESS, CUDA Driver API, Data types: the process is in an inconsistent state",
        Alone(illegal_address),
    ),
    Case::documented(
        "sticky/illegal-address-of-an-unmapped-chunk",
        "CUDA_ERROR_ILLEGAL_ADDRESS, CUDA Driver API, Data types",
        Alone(unmapped_chunk),
    ),
    Case::relied(
        "sticky/others-go-on",
        "one program's fault must not end another's job",
        Alone(others_go_on),
    ),
    Case::open(
        "sticky/free-after-a-fault",
        "what the agent gets when it takes memory from a broken context",
        Alone(free_after),
    ),
];

/// Has a kernel write where nothing is.
fn fault(gpu: &Gpu) -> Result<(u64, Status)> {
    let (range, handle) = (gpu.reserve(1)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    gpu.fill(DEFAULT, range.at, 1024, 1)?;
    Ok((handle, ask!(cuCtxSynchronize())))
}

fn illegal_address(gpu: &Gpu) -> Result<String> {
    gpu.fill(DEFAULT, 1 << 12, 1024, 1)?;
    let first = ask!(cuCtxSynchronize());
    let mut at = 0;
    let later = ask!(cuMemAlloc_v2(&raw mut at, 4096));
    ensure!(
        (first, later) == (Status::ILLEGAL_ADDRESS, Status::ILLEGAL_ADDRESS),
        "{first}, then {later}"
    );
    Ok(format!("{first}, then {later} for ever"))
}

fn unmapped_chunk(gpu: &Gpu) -> Result<String> {
    let (_, first) = fault(gpu)?;
    let later = ask!(cuCtxSynchronize());
    ensure!(
        (first, later) == (Status::ILLEGAL_ADDRESS, Status::ILLEGAL_ADDRESS),
        "{first}, then {later}"
    );
    Ok(first.to_string())
}

/// The other process of `sticky/others-go-on`.
pub(super) fn break_context() -> Result<()> {
    let gpu = Gpu::open()?;
    let (_, status) = fault(&gpu)?;
    ensure!(status == Status::ILLEGAL_ADDRESS, "{status}");
    Ok(())
}

fn others_go_on(gpu: &Gpu) -> Result<String> {
    const BYTES: usize = 1 << 20;
    let at = gpu.alloc(BYTES)?;
    gpu.write(at, BYTES, 1)?;
    let broken = other("break", &[])?
        .output()
        .context("starting the other process")?;
    let said = String::from_utf8_lossy(&broken.stderr);
    ensure!(
        broken.status.success(),
        "the other process: {}",
        said.trim()
    );
    gpu.check(at, BYTES, 1)?;
    gpu.write(at, BYTES, 2)?;
    gpu.check(at, BYTES, 2)?;
    gpu.free(at)?;
    Ok("after another's illegal access".to_owned())
}

fn free_after(gpu: &Gpu) -> Result<String> {
    let (handle, fault) = fault(gpu)?;
    let release = ask!(cuMemRelease(handle));
    Ok(format!("{fault}, then cuMemRelease {release}"))
}
