//! How functions are found: what the agent and the probes attach to.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr;

use anyhow::{Result, ensure};

use crate::case::Body::Shared;
use crate::case::Case;
use crate::cuda::{Status, exported};
use crate::gpu::Gpu;
use crate::{ask, expect};

const PAGE: &str = "cuGetProcAddress, CUDA Driver API, Driver Entry Point Access";

pub(super) const CASES: &[Case] = &[
    Case::documented("lookup/by-name-and-version", PAGE, Shared(by_name)),
    Case::documented("lookup/unknown-name", PAGE, Shared(unknown)),
    Case::documented("lookup/newer-than-asked-for", PAGE, Shared(too_new)),
    Case::documented(
        "lookup/older-form-for-an-older-version",
        PAGE,
        Shared(older_form),
    ),
    Case::relied(
        "lookup/flags-that-do-not-exist",
        "NVIDIA's library of 550 refuses them and writes nothing; programs of a newer CUDA may pass some",
        Shared(unknown_flags),
    ),
    Case::relied(
        "lookup/thread-stream-before-it-was",
        "the per-thread default stream came with CUDA 7.0: a function with a stream is too new before",
        Shared(too_early_for_threads),
    ),
    Case::relied(
        "lookup/first-form",
        "the first cuGetProcAddress says NOT_FOUND and leaves the pointer",
        Shared(first_form),
    ),
    Case::open(
        "lookup/addresses-of-exports",
        "the probes are put on exported addresses: which functions are handed out elsewhere",
        Shared(addresses),
    ),
    Case::open(
        "lookup/per-thread-default-stream",
        "whether it gives the exported _ptsz form",
        Shared(per_thread),
    ),
];

// CUdriverProcAddressQueryResult.
const FOUND: c_uint = 0;
const NOT_FOUND: c_uint = 1;
const TOO_NEW: c_uint = 2;

/// Functions that the agent hooks or the probes watch, and under which names they are exported for CUDA 12.
const WATCHED: [(&str, &str); 28] = [
    ("cuMemAlloc", "cuMemAlloc_v2"),
    ("cuMemAllocPitch", "cuMemAllocPitch_v2"),
    ("cuMemAllocManaged", "cuMemAllocManaged"),
    ("cuMemFree", "cuMemFree_v2"),
    ("cuMemAllocAsync", "cuMemAllocAsync"),
    ("cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync"),
    ("cuMemFreeAsync", "cuMemFreeAsync"),
    ("cuMemCreate", "cuMemCreate"),
    ("cuMemRelease", "cuMemRelease"),
    ("cuMemMap", "cuMemMap"),
    ("cuMemUnmap", "cuMemUnmap"),
    ("cuMemSetAccess", "cuMemSetAccess"),
    ("cuMemAddressReserve", "cuMemAddressReserve"),
    (
        "cuMemImportFromShareableHandle",
        "cuMemImportFromShareableHandle",
    ),
    ("cuArrayCreate", "cuArrayCreate_v2"),
    ("cuArray3DCreate", "cuArray3DCreate_v2"),
    ("cuMemGetInfo", "cuMemGetInfo_v2"),
    ("cuMemcpyHtoD", "cuMemcpyHtoD_v2"),
    ("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2"),
    ("cuMemsetD8", "cuMemsetD8_v2"),
    ("cuLaunchKernel", "cuLaunchKernel"),
    ("cuLaunchKernelEx", "cuLaunchKernelEx"),
    ("cuGraphLaunch", "cuGraphLaunch"),
    ("cuStreamSynchronize", "cuStreamSynchronize"),
    ("cuCtxSynchronize", "cuCtxSynchronize"),
    ("cuCtxCreate", "cuCtxCreate_v2"),
    ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain"),
    ("cuModuleLoadData", "cuModuleLoadData"),
];
/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const PER_THREAD: u64 = 2;
/// No CUdriverProcAddressQueryResult.
const UNTOUCHED: c_uint = 9;
/// CUDA 12.0.
const VERSION: c_int = 12_000;

fn look_up(name: &str, version: c_int, flags: u64) -> (Status, usize, c_uint) {
    let name = CString::new(name).expect("names hold no NUL");
    let (mut address, mut found): (*mut c_void, c_uint) = (ptr::null_mut(), UNTOUCHED);
    let status = ask!(cuGetProcAddress_v2(
        name.as_ptr(),
        &raw mut address,
        version,
        flags,
        &raw mut found
    ));
    (status, address as usize, found)
}

fn by_name(_: &Gpu) -> Result<String> {
    for (name, _) in WATCHED {
        let (status, address, found) = look_up(name, VERSION, 0);
        ensure!(
            (status, found) == (Status::SUCCESS, FOUND) && address != 0,
            "{name}: {status}, {found}, {address:#x}"
        );
    }
    Ok(format!("{} functions", WATCHED.len()))
}

/// No address, and the reason why; the result is a success then.
fn absent((status, address, found): (Status, usize, c_uint), why: c_uint) -> Result<String> {
    ensure!(
        (status, address, found) == (Status::SUCCESS, 0, why),
        "{status}, {address:#x}, {found}"
    );
    Ok(status.to_string())
}

fn unknown(_: &Gpu) -> Result<String> {
    let (status, address, found) = look_up("cuNoSuchFunction", VERSION, 0);
    absent((status, address, found), NOT_FOUND)
}

fn too_new(_: &Gpu) -> Result<String> {
    // Of CUDA 10.2, asked for as of 9.0.
    let (status, address, found) = look_up("cuMemCreate", 9_000, 0);
    absent((status, address, found), TOO_NEW)
}

fn unknown_flags(_: &Gpu) -> Result<String> {
    let (mut address, mut found) = (ptr::dangling_mut::<c_void>(), UNTOUCHED);
    let before = address;
    let status = ask!(cuGetProcAddress_v2(
        c"cuMemAlloc".as_ptr(),
        &raw mut address,
        VERSION,
        4,
        &raw mut found
    ));
    ensure!(
        (status, address, found) == (Status::INVALID_VALUE, before, UNTOUCHED),
        "{status}, {address:p}, {found}"
    );
    // Both streams at once are the thread's.
    let (status, both, _) = look_up("cuStreamSynchronize", VERSION, 3);
    let (_, own, _) = look_up("cuStreamSynchronize", VERSION, PER_THREAD);
    ensure!(
        status == Status::SUCCESS && both == own,
        "both streams: {status}, {both:#x}, {own:#x}"
    );
    Ok("refused, and nothing written".to_owned())
}

fn too_early_for_threads(_: &Gpu) -> Result<String> {
    absent(look_up("cuStreamSynchronize", 6_050, PER_THREAD), TOO_NEW)?;
    let (status, address, found) = look_up("cuMemAlloc", 6_050, PER_THREAD);
    ensure!(
        (status, found) == (Status::SUCCESS, FOUND) && address != 0,
        "without a stream: {status}, {found}"
    );
    Ok("without a stream it is there".to_owned())
}

fn first_form(_: &Gpu) -> Result<String> {
    let before = ptr::dangling_mut::<c_void>();
    for (name, version) in [(c"cuNoSuchFunction", VERSION), (c"cuMemCreate", 9_000)] {
        let mut address = before;
        let status = expect!(cuGetProcAddress(
            name.as_ptr(), &raw mut address, version, 0
        ) => NOT_FOUND)?;
        ensure!(address == before, "{status}, and {address:p} written");
    }
    Ok("NOT_FOUND".to_owned())
}

fn older_form(_: &Gpu) -> Result<String> {
    let (old, new) = (
        look_up("cuStreamGetCaptureInfo", 10_010, 0).1,
        look_up("cuStreamGetCaptureInfo", 12_000, 0).1,
    );
    ensure!(old != 0 && new != 0 && old != new, "{old:#x} and {new:#x}");
    Ok("two forms of cuStreamGetCaptureInfo".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "the form of every case")]
fn addresses(_: &Gpu) -> Result<String> {
    let mut elsewhere = Vec::new();
    for (name, export) in WATCHED {
        let (_, address, _) = look_up(name, VERSION, 0);
        if address != exported(export) as usize {
            elsewhere.push(name);
        }
    }
    let count = WATCHED.len();
    Ok(if elsewhere.is_empty() {
        format!("all {count} are the exported ones")
    } else {
        format!(
            "{} of {count} elsewhere: {}",
            elsewhere.len(),
            elsewhere.join(", ")
        )
    })
}

#[expect(clippy::unnecessary_wraps, reason = "the form of every case")]
fn per_thread(_: &Gpu) -> Result<String> {
    let mut seen = Vec::new();
    for (name, export) in [
        ("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2_ptsz"),
        ("cuLaunchKernel", "cuLaunchKernel_ptsz"),
        ("cuMemAllocAsync", "cuMemAllocAsync_ptsz"),
    ] {
        let (_, address, _) = look_up(name, VERSION, PER_THREAD);
        let is = if address == exported(export) as usize {
            "is"
        } else {
            "is not"
        };
        seen.push(format!("{name} {is} {export}"));
    }
    Ok(seen.join(", "))
}
