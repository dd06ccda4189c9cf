//! Bad input, and what it comes to.

use std::ptr;

use anyhow::{Result, ensure};

use crate::case::Body::{Alone, Bare, Shared};
use crate::case::Case;
use crate::cuda::{DEFAULT, Status};
use crate::gpu::Gpu;
use crate::{ask, expect};

const ALLOC: &str = "cuMemAlloc, CUDA Driver API, Memory Management";
const FREE: &str = "cuMemFree, CUDA Driver API, Memory Management";

pub(super) const CASES: &[Case] = &[
    Case::documented(
        "bad/before-init",
        "cuInit, CUDA Driver API, Initialization",
        Bare(before_init),
    ),
    Case::documented(
        "bad/init-flags",
        "cuInit, CUDA Driver API, Initialization",
        Bare(init_flags),
    ),
    Case::documented(
        "bad/device-ordinal",
        "cuDeviceGet, CUDA Driver API, Device Management",
        Shared(ordinal),
    ),
    Case::documented("bad/no-context", ALLOC, Shared(no_context)),
    Case::documented("bad/allocate-nothing", ALLOC, Shared(nothing)),
    Case::documented("bad/allocate-into-null", ALLOC, Shared(into_null)),
    Case::documented("bad/allocate-too-much", ALLOC, Shared(too_much)),
    Case::documented("bad/free-inside", FREE, Shared(free_inside)),
    Case::documented("bad/free-a-stranger", FREE, Shared(free_stranger)),
    Case::documented("bad/free-twice", FREE, Shared(free_twice)),
    Case::open("bad/free-null", "C programs free null", Shared(free_null)),
    Case::documented("bad/free-mapped-memory", FREE, Shared(free_mapped)),
    Case::documented(
        "bad/copy-nothing",
        "cuMemcpyHtoD, CUDA Driver API, Memory Management",
        Shared(copy_nothing),
    ),
    Case::relied(
        "bad/copy-past-the-end",
        "the driver checks what the arena's neighbours would hide",
        Alone(copy_past),
    ),
    Case::documented(
        "bad/unknown-kernel",
        "cuModuleGetFunction, CUDA Driver API, Module Management",
        Shared(unknown_kernel),
    ),
    Case::documented(
        "bad/no-image",
        "cuModuleLoadData, CUDA Driver API, Module Management",
        Shared(no_image),
    ),
    Case::documented(
        "bad/block-too-large",
        "cuLaunchKernel, CUDA Driver API, Execution Control",
        Shared(large_block),
    ),
    Case::documented(
        "bad/empty-grid",
        "cuLaunchKernel, CUDA Driver API, Execution Control",
        Shared(empty_grid),
    ),
    Case::documented(
        "bad/event-never-recorded",
        "cuEventQuery, CUDA Driver API, Event Management",
        Shared(unrecorded),
    ),
    Case::documented(
        "bad/time-between-unrecorded",
        "cuEventElapsedTime, CUDA Driver API, Event Management",
        Shared(unrecorded_time),
    ),
    Case::relied(
        "bad/driver-in-a-forked-child",
        "the agent is silent in forked children, whom no driver serves",
        Alone(forked),
    ),
];

fn before_init() -> Result<String> {
    let mut count = 0;
    let status = expect!(cuDeviceGetCount(&raw mut count) => NOT_INITIALIZED)?;
    Ok(status.to_string())
}

fn init_flags() -> Result<String> {
    Ok(expect!(cuInit(1) => INVALID_VALUE)?.to_string())
}

fn ordinal(_: &Gpu) -> Result<String> {
    let (mut device, mut count) = (0, 0);
    expect!(cuDeviceGetCount(&raw mut count))?;
    let past = expect!(cuDeviceGet(&raw mut device, count) => INVALID_DEVICE)?;
    expect!(cuDeviceGet(&raw mut device, -1) => INVALID_DEVICE)?;
    Ok(past.to_string())
}

fn no_context(_: &Gpu) -> Result<String> {
    let thread = std::thread::spawn(|| {
        let mut at = 0;
        expect!(cuMemAlloc_v2(&raw mut at, 4096) => INVALID_CONTEXT)
    });
    let status = thread.join().expect("no panic in it")?;
    Ok(status.to_string())
}

fn nothing(_: &Gpu) -> Result<String> {
    let mut at = 0;
    Ok(expect!(cuMemAlloc_v2(&raw mut at, 0) => INVALID_VALUE)?.to_string())
}

fn into_null(_: &Gpu) -> Result<String> {
    Ok(expect!(cuMemAlloc_v2(ptr::null_mut(), 4096) => INVALID_VALUE)?.to_string())
}

fn too_much(gpu: &Gpu) -> Result<String> {
    let (mut at, mut total) = (0, 0);
    expect!(cuDeviceTotalMem_v2(&raw mut total, gpu.device))?;
    let status = expect!(cuMemAlloc_v2(&raw mut at, 2 * total) => OUT_OF_MEMORY)?;
    let small = gpu.alloc(4096)?;
    gpu.free(small)?;
    Ok(format!("{status}, and a small one after it works"))
}

fn free_inside(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(1 << 20)?;
    let status = expect!(cuMemFree_v2(at + 256) => INVALID_VALUE)?;
    gpu.free(at)?;
    Ok(status.to_string())
}

fn free_stranger(_: &Gpu) -> Result<String> {
    let own = Box::new([0_u8; 64]);
    Ok(expect!(cuMemFree_v2(own.as_ptr() as u64) => INVALID_VALUE)?.to_string())
}

fn free_twice(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(1 << 20)?;
    gpu.free(at)?;
    Ok(expect!(cuMemFree_v2(at) => INVALID_VALUE)?.to_string())
}

#[expect(clippy::unnecessary_wraps, reason = "the form of every case")]
fn free_null(_: &Gpu) -> Result<String> {
    Ok(ask!(cuMemFree_v2(0)).to_string())
}

fn free_mapped(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(1)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    let status = expect!(cuMemFree_v2(range.at) => INVALID_VALUE)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn copy_nothing(gpu: &Gpu) -> Result<String> {
    let (at, byte) = (gpu.alloc(4096)?, 0_u8);
    expect!(cuMemcpyHtoD_v2(at, (&raw const byte).cast(), 0))?;
    gpu.free(at)?;
    Ok("success".to_owned())
}

fn copy_past(gpu: &Gpu) -> Result<String> {
    // A granule that is mapped, and after it one that is not.
    let (range, handle) = (gpu.reserve(2)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    let mut host = vec![0_u8; range.bytes];
    let status = ask!(cuMemcpyDtoH_v2(
        host.as_mut_ptr().cast(),
        range.at,
        range.bytes
    ));
    ensure!(
        status != Status::SUCCESS,
        "a copy of what is not mapped worked"
    );
    Ok(status.to_string())
}

fn unknown_kernel(gpu: &Gpu) -> Result<String> {
    let error = gpu.kernel("no_such_kernel").err();
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    ensure!(text.contains("NOT_FOUND"), "{text:?}");
    Ok("NOT_FOUND".to_owned())
}

fn no_image(_: &Gpu) -> Result<String> {
    let (text, mut module) = (c"this is no program", ptr::null_mut());
    let status = expect!(cuModuleLoadData(
        &raw mut module, text.as_ptr().cast()
    ) => INVALID_IMAGE | INVALID_PTX)?;
    Ok(status.to_string())
}

fn launch(gpu: &Gpu, grid: u32, block: u32) -> Result<Status> {
    let mut nanos = 0_u64;
    let mut arguments = [crate::gpu::argument(&mut nanos)];
    let (function, none) = (gpu.kernel("spin")?, ptr::null_mut());
    let arguments = arguments.as_mut_ptr();
    expect!(cuLaunchKernel(
        function, grid, 1, 1, block, 1, 1, 0, DEFAULT, arguments, none
    ) => INVALID_VALUE)
}

fn large_block(gpu: &Gpu) -> Result<String> {
    Ok(launch(gpu, 1, 4096)?.to_string())
}

fn empty_grid(gpu: &Gpu) -> Result<String> {
    Ok(launch(gpu, 0, 1)?.to_string())
}

fn unrecorded(gpu: &Gpu) -> Result<String> {
    let event = gpu.event()?;
    expect!(cuEventQuery(event))?;
    expect!(cuEventSynchronize(event))?;
    expect!(cuEventDestroy_v2(event))?;
    Ok("done".to_owned())
}

fn unrecorded_time(gpu: &Gpu) -> Result<String> {
    let (from, to, mut ms) = (gpu.event()?, gpu.event()?, 0.0);
    let status = expect!(cuEventElapsedTime(&raw mut ms, from, to) => INVALID_HANDLE)?;
    expect!(cuEventDestroy_v2(from))?;
    expect!(cuEventDestroy_v2(to))?;
    Ok(status.to_string())
}

fn forked(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(4096)?;
    // SAFETY: the child makes one driver call, which is what is asked, and leaves without returning.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = ask!(cuMemFree_v2(at));
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit((status.0 & 0xff).cast_signed()) };
    }
    ensure!(child > 0, "fork failed");
    let mut ended = 0;
    // SAFETY: our own child, and a local.
    unsafe { libc::waitpid(child, &raw mut ended, 0) };
    gpu.free(at)?;
    ensure!(libc::WIFEXITED(ended), "the child was killed by a signal");
    let status = Status(libc::WEXITSTATUS(ended).cast_unsigned());
    ensure!(
        status != Status::SUCCESS,
        "the child freed its parent's memory"
    );
    Ok(format!("{status}; the parent goes on"))
}
