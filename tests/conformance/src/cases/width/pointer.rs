//! Pointer attributes: each has a type of its own.

use std::ffi::c_void;
use std::ptr;

use anyhow::{Result, ensure};

use super::ask::{FILLS, ROOM, check};
use super::query::Value::{Out, Word};
use crate::cuda::Status;
use crate::expect;
use crate::gpu::Gpu;

pub(super) fn attributes(gpu: &Gpu) -> Result<String> {
    let (mut asked, mut host) = (0, ptr::null_mut());
    let (range, handle) = (gpu.reserve(1)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    expect!(cuMemHostAlloc(&raw mut host, 4096, 0))?;
    let plain = gpu.alloc(4096)?;
    let own = Box::new(0_u64);
    let width = |number: usize| match number {
        2 | 6 | 8..=10 | 13 | 15 | 16 | 21 => 4,
        _ => 8,
    };
    for at in [range.at, plain, host as u64, (&raw const *own) as u64] {
        // 5 is a pair of tokens for GPUs that are long gone.
        for number in (1..=21).filter(|number| *number != 5) {
            let args = [Out(width(number)), Word(number), Word(at as usize)];
            let single = check("cuPointerGetAttribute", &args)?;
            let many = check_one_of_many(number, width(number), at)?;
            asked += usize::from(single) + usize::from(many);
        }
    }
    gpu.free(plain)?;
    expect!(cuMemFreeHost(host))?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    ensure!(asked > 100, "only {asked} were answered");
    Ok(format!("{asked} answers"))
}

/// cuPointerGetAttributes for one attribute, as [`check`]; it must answer wherever the attribute is known.
fn check_one_of_many(number: usize, width: usize, at: u64) -> Result<bool> {
    let attribute = number as u32;
    let mut seen = Vec::new();
    for fill in FILLS {
        let mut room = [fill; ROOM];
        let place: *mut c_void = room.as_mut_ptr().cast();
        let status = crate::ask!(cuPointerGetAttributes(
            1,
            &raw const attribute,
            &raw const place,
            at
        ));
        if status != Status::SUCCESS {
            return Ok(false);
        }
        ensure!(
            room[width..].iter().all(|byte| *byte == fill),
            "cuPointerGetAttributes wrote behind attribute {number}"
        );
        seen.push(room[..width].to_vec());
    }
    ensure!(
        seen[0] == seen[1],
        "cuPointerGetAttributes left a part of attribute {number}"
    );
    Ok(true)
}
