//! Pointer attributes: each has a type of its own.

use std::ffi::c_void;
use std::fmt::Write as _;
use std::ptr;

use anyhow::{Context as _, Result, ensure};

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
    let addresses = [
        ("mapped memory", range.at),
        ("an allocation", plain),
        ("host memory", host as u64),
        ("a stranger", (&raw const *own) as u64),
    ];
    let mut left = String::new();
    for (what, at) in addresses {
        // 5 is a pair of tokens for GPUs that are long gone.
        for number in (1..=21).filter(|number| *number != 5) {
            let args = [Out(width(number)), Word(number), Word(at as usize)];
            let single = check("cuPointerGetAttribute", &args)?;
            let many = check_one_of_many(number, width(number), at).context(what)?;
            // What has an answer is told by both; without one the other may give a default or nothing.
            ensure!(
                !single || many != Many::Left,
                "cuPointerGetAttributes gives nothing for attribute {number} of {what}"
            );
            if many == Many::Left {
                write!(left, "; none for {number} of {what}")?;
            }
            asked += usize::from(single) + usize::from(many == Many::Given);
        }
    }
    gpu.free(plain)?;
    expect!(cuMemFreeHost(host))?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    ensure!(asked > 100, "only {asked} were answered");
    Ok(format!("{asked} answers{left}"))
}

/// What cuPointerGetAttributes did with the place for an attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Many {
    /// All of it was written.
    Given,
    /// The call succeeded, and nothing was written.
    Left,
    /// The call failed.
    Refused,
}

/// cuPointerGetAttributes for one attribute, as [`check`]; it must write the whole value or nothing.
fn check_one_of_many(number: usize, width: usize, at: u64) -> Result<Many> {
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
            return Ok(Many::Refused);
        }
        ensure!(
            room[width..].iter().all(|byte| *byte == fill),
            "cuPointerGetAttributes wrote behind attribute {number}"
        );
        seen.push(room[..width].to_vec());
    }
    if seen[0] == seen[1] {
        return Ok(Many::Given);
    }
    let is_left = |(seen, fill): (&Vec<u8>, u8)| seen.iter().all(|byte| *byte == fill);
    ensure!(
        seen.iter().zip(FILLS).all(is_left),
        "cuPointerGetAttributes left a part of attribute {number}"
    );
    Ok(Many::Left)
}
