//! Memory that another process gets to use.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Stdio;
use std::ptr;

use anyhow::{Context, Result, bail, ensure};
use cudarc::driver::sys::{CUipcMemHandle, CUmemAllocationHandleType};

use super::other;
use crate::case::Body::{Alone, Shared};
use crate::case::{Case, Skipped};
use crate::cuda::{Handle, Status};
use crate::gpu::{Gpu, hex};
use crate::{ask, expect};

const EXPORT: &str = "cuMemExportToShareableHandle, CUDA Driver API, Virtual Memory Management";
const IPC: &str = "cuIpcGetMemHandle, CUDA Driver API, Memory Management";

pub(super) const CASES: &[Case] = &[
    Case::documented("share/by-descriptor", EXPORT, Alone(by_descriptor)),
    Case::open(
        "share/descriptor-nobody-asked-for",
        "which error memory gives that was not created for export",
        Shared(not_asked_for),
    ),
    Case::relied(
        "share/fabric-handle-of-plain-memory",
        "programs try a fabric handle first and take a descriptor when that is refused",
        Shared(as_fabric),
    ),
    Case::relied(
        "share/descriptor-keeps-memory",
        "exported memory counts until the last descriptor is closed",
        Shared(descriptor_keeps),
    ),
    Case::documented("share/by-ipc-handle", IPC, Alone(by_ipc)),
    Case::relied(
        "share/ipc-handle-of-mapped-memory",
        "programs fall back when legacy IPC refuses mapped memory",
        Shared(ipc_of_mapped),
    ),
];

/// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED.
const EXPORTS: i32 = 103;
/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
const DESCRIPTOR: u32 = 1;
/// CU_MEM_HANDLE_TYPE_FABRIC.
const FABRIC: u32 = 8;
const GRANULES: usize = 2;

fn exportable(gpu: &Gpu) -> Result<Handle> {
    if gpu.attribute(EXPORTS)? == 0 {
        bail!(Skipped(
            "this GPU's memory cannot be exported as descriptors".to_owned()
        ));
    }
    gpu.create_for(
        GRANULES,
        CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    )
}

fn export(handle: Handle) -> Result<OwnedFd> {
    let mut number = -1;
    expect!(cuMemExportToShareableHandle(
        (&raw mut number).cast(),
        handle,
        DESCRIPTOR,
        0
    ))?;
    // SAFETY: a new descriptor that the driver gave away.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn by_descriptor(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(GRANULES)?, exportable(gpu)?);
    gpu.map(range.at, GRANULES, handle)?;
    gpu.write(range.at, range.bytes, 1)?;
    let shared = export(handle)?;
    // Inherited under its number.
    rustix::io::fcntl_setfd(&shared, rustix::io::FdFlags::empty())?;
    play("import", &shared.as_raw_fd().to_string())?;
    gpu.check(range.at, range.bytes, 2)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok("another process read it and wrote it".to_owned())
}

/// The other process of `share/by-descriptor`.
pub(super) fn import(arguments: &[String]) -> Result<()> {
    let number: usize = arguments.first().context("no descriptor")?.parse()?;
    let (gpu, mut handle) = (Gpu::open()?, 0);
    let shared = ptr::without_provenance_mut(number);
    expect!(cuMemImportFromShareableHandle(
        &raw mut handle,
        shared,
        DESCRIPTOR
    ))?;
    let range = gpu.reserve(GRANULES)?;
    gpu.map(range.at, GRANULES, handle)?;
    gpu.check(range.at, range.bytes, 1)?;
    gpu.write(range.at, range.bytes, 2)
}

fn not_asked_for(gpu: &Gpu) -> Result<String> {
    let (handle, mut number) = (gpu.create(1)?, -1);
    let status = ask!(cuMemExportToShareableHandle(
        (&raw mut number).cast(),
        handle,
        DESCRIPTOR,
        0
    ));
    if status == Status::SUCCESS {
        // SAFETY: a new descriptor that the driver gave away.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
    expect!(cuMemRelease(handle))?;
    Ok(status.to_string())
}

fn as_fabric(gpu: &Gpu) -> Result<String> {
    let (handle, mut shared) = (exportable(gpu)?, [0_u8; 64]);
    let status = ask!(cuMemExportToShareableHandle(
        shared.as_mut_ptr().cast(),
        handle,
        FABRIC,
        0
    ));
    expect!(cuMemRelease(handle))?;
    ensure!(
        [
            Status::INVALID_VALUE,
            Status::NOT_SUPPORTED,
            Status::NOT_PERMITTED
        ]
        .contains(&status),
        "{status}"
    );
    ensure!(shared == [0; 64], "a refused export wrote a handle");
    Ok(status.to_string())
}

fn descriptor_keeps(gpu: &Gpu) -> Result<String> {
    let handle = exportable(gpu)?;
    let bytes = GRANULES * gpu.granule;
    let shared = export(handle)?;
    let before = gpu.free_bytes()?;
    expect!(cuMemRelease(handle))?;
    let kept = gpu.free_bytes()?;
    drop(shared);
    let after = gpu.free_bytes()?;
    gpu.same("free while a descriptor is open", kept, before)?;
    gpu.same("free after it was closed", after, before + bytes)?;
    Ok("until it is closed".to_owned())
}

fn by_ipc(gpu: &Gpu) -> Result<String> {
    const BYTES: usize = 2 << 20;
    let at = gpu.alloc(BYTES)?;
    gpu.write(at, BYTES, 1)?;
    let mut handle = MaybeUninit::<CUipcMemHandle>::zeroed();
    let status = ask!(cuIpcGetMemHandle(handle.as_mut_ptr(), at));
    if status == Status::NOT_SUPPORTED {
        gpu.free(at)?;
        bail!(Skipped("legacy IPC is not supported here".to_owned()));
    }
    ensure!(
        status == Status::SUCCESS,
        "cuIpcGetMemHandle came to {status}"
    );
    // SAFETY: plain bytes, zeroed before the driver wrote them.
    let handle = unsafe { handle.assume_init() };
    play("open", &hex(handle.reserved.map(i8::cast_unsigned)))?;
    gpu.check(at, BYTES, 2)?;
    gpu.free(at)?;
    Ok("another process read it and wrote it".to_owned())
}

/// The other process of `share/by-ipc-handle`.
pub(super) fn open(arguments: &[String]) -> Result<()> {
    const BYTES: usize = 2 << 20;
    let digits = arguments.first().context("no handle")?;
    ensure!(digits.len() == 128, "a handle of {} digits", digits.len());
    let mut handle = CUipcMemHandle { reserved: [0; 64] };
    for (number, byte) in handle.reserved.iter_mut().enumerate() {
        let value = u8::from_str_radix(&digits[2 * number..2 * number + 2], 16)?;
        *byte = value.cast_signed();
    }
    let (gpu, mut at) = (Gpu::open()?, 0);
    // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is.
    expect!(cuIpcOpenMemHandle_v2(&raw mut at, handle, 1))?;
    gpu.check(at, BYTES, 1)?;
    gpu.write(at, BYTES, 2)?;
    expect!(cuIpcCloseMemHandle(at))
}

fn ipc_of_mapped(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(1)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    let mut shared = CUipcMemHandle { reserved: [0; 64] };
    let status = expect!(cuIpcGetMemHandle(
        &raw mut shared, range.at
    ) => INVALID_VALUE | NOT_SUPPORTED)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn play(role: &str, argument: &str) -> Result<()> {
    let output = other(role, &[argument])?
        .stdin(Stdio::null())
        .output()
        .context("starting the other process")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the other process: {}",
        said.trim()
    );
    Ok(())
}
