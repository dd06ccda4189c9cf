//! What is known of an address.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use anyhow::{Result, bail, ensure};
use cudarc::driver::sys::CUcontext;

use crate::case::Body::Shared;
use crate::case::Case;
use crate::cuda::Status;
use crate::gpu::Gpu;
use crate::{ask, expect};

const ONE: &str = "cuPointerGetAttribute, CUDA Driver API, Unified Addressing";
const MANY: &str = "cuPointerGetAttributes, CUDA Driver API, Unified Addressing";
const RANGE: &str = "cuMemGetAddressRange, CUDA Driver API, Memory Management";

pub(super) const CASES: &[Case] = &[
    Case::documented("pointer/of-an-allocation", ONE, Shared(allocation)),
    Case::documented("pointer/inside-an-allocation", ONE, Shared(inside)),
    Case::documented("pointer/of-pinned-host-memory", ONE, Shared(host)),
    Case::documented("pointer/of-a-stranger", ONE, Shared(stranger)),
    Case::documented("pointer/many-of-a-stranger", MANY, Shared(many_of_stranger)),
    Case::relied(
        "pointer/of-mapped-memory",
        "frameworks ask where their memory is, and rtswap answers from the driver's model of a mapping",
        Shared(mapped),
    ),
    Case::open(
        "pointer/context-of-mapped-memory",
        "which context memory of cuMemMap belongs to",
        Shared(context_of_mapped),
    ),
    Case::open(
        "pointer/range-of-mapped-memory",
        "whether cuMemGetAddressRange knows mappings: FACTS of the field say that it breaks there",
        Shared(range_of_mapped),
    ),
    Case::documented("pointer/address-range", RANGE, Shared(address_range)),
    Case::documented(
        "pointer/address-range-half-asked",
        RANGE,
        Shared(half_asked),
    ),
    Case::open(
        "pointer/address-range-of-a-stranger",
        "which of two codes",
        Shared(range_of_stranger),
    ),
    Case::documented(
        "pointer/legacy-ipc-capable",
        "CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CUDA Driver API, Data types",
        Shared(ipc_capable),
    ),
    Case::documented(
        "pointer/sync-memops",
        "cuPointerSetAttribute, CUDA Driver API, Unified Addressing",
        Shared(sync_memops),
    ),
    Case::open(
        "pointer/sync-memops-of-mapped-memory",
        "RDMA drivers set it on what the arena would hold",
        Shared(sync_memops_of_mapped),
    ),
];

// CUpointer_attribute.
const CONTEXT: c_uint = 1;
const MEMORY_TYPE: c_uint = 2;
const DEVICE_POINTER: c_uint = 3;
const HOST_POINTER: c_uint = 4;
const SYNC_MEMOPS: c_uint = 6;
const IS_MANAGED: c_uint = 8;
const DEVICE_ORDINAL: c_uint = 9;
const LEGACY_IPC: c_uint = 10;
const RANGE_START: c_uint = 11;
const RANGE_SIZE: c_uint = 12;
const MAPPED: c_uint = 13;

/// CU_MEMORYTYPE_HOST and CU_MEMORYTYPE_DEVICE.
const ON_HOST: c_uint = 1;
const ON_DEVICE: c_uint = 2;

const BYTES: usize = 3 << 20;

/// An attribute whose type is `T`.
fn attribute<T: Copy>(number: c_uint, at: u64, mut value: T) -> Result<T> {
    expect!(cuPointerGetAttribute((&raw mut value).cast(), number, at))?;
    Ok(value)
}

fn allocation(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(BYTES)?;
    let context: CUcontext = attribute(CONTEXT, at, ptr::null_mut())?;
    let kind: c_uint = attribute(MEMORY_TYPE, at, 0)?;
    let device: c_int = attribute(DEVICE_ORDINAL, at, -1)?;
    let managed: c_uint = attribute(IS_MANAGED, at, 0)?;
    let pointer: u64 = attribute(DEVICE_POINTER, at, 0)?;
    let (start, size): (u64, usize) = (
        attribute(RANGE_START, at, 0)?,
        attribute(RANGE_SIZE, at, 0)?,
    );
    let mapped: c_uint = attribute(MAPPED, at, 0)?;
    let mut none: *mut c_void = ptr::null_mut();
    let host = ask!(cuPointerGetAttribute(
        (&raw mut none).cast(),
        HOST_POINTER,
        at
    ));
    gpu.free(at)?;
    ensure!(context == gpu.context, "another context");
    ensure!((kind, device, managed) == (ON_DEVICE, gpu.device, 0));
    ensure!((pointer, start, mapped) == (at, at, 1));
    ensure!(size >= BYTES, "a range of {size} for {BYTES} bytes");
    ensure!(host == Status::INVALID_VALUE, "a host pointer: {host}");
    Ok(format!("a range of {size} for {BYTES} bytes"))
}

fn inside(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(BYTES)?;
    let inside = at + 12_345;
    let pointer: u64 = attribute(DEVICE_POINTER, inside, 0)?;
    let start: u64 = attribute(RANGE_START, inside, 0)?;
    gpu.free(at)?;
    ensure!((pointer, start) == (inside, at), "{pointer:#x}, {start:#x}");
    Ok("itself, and the start of all".to_owned())
}

fn host(_: &Gpu) -> Result<String> {
    let mut memory = ptr::null_mut();
    // CU_MEMHOSTALLOC_PORTABLE.
    expect!(cuMemHostAlloc(&raw mut memory, BYTES, 1))?;
    let at = memory as u64;
    let kind: c_uint = attribute(MEMORY_TYPE, at, 0)?;
    let pointer: *mut c_void = attribute(HOST_POINTER, at, ptr::null_mut())?;
    let device: u64 = attribute(DEVICE_POINTER, at, 0)?;
    expect!(cuMemFreeHost(memory))?;
    ensure!((kind, pointer) == (ON_HOST, memory));
    let same = if device == at { "the same" } else { "another" };
    Ok(format!("{same} address on the GPU"))
}

fn stranger(_: &Gpu) -> Result<String> {
    let (own, mut kind) = (Box::new([0_u8; 64]), 0_u32);
    let at = own.as_ptr() as u64;
    let status = expect!(cuPointerGetAttribute(
        (&raw mut kind).cast(), MEMORY_TYPE, at
    ) => INVALID_VALUE)?;
    Ok(status.to_string())
}

fn many_of_stranger(_: &Gpu) -> Result<String> {
    let (own, mut kind, mut context) = (Box::new([0_u8; 64]), 7_u32, 7_usize);
    let (numbers, data) = (
        [MEMORY_TYPE, CONTEXT],
        [(&raw mut kind).cast(), (&raw mut context).cast()],
    );
    expect!(cuPointerGetAttributes(
        2,
        numbers.as_ptr(),
        data.as_ptr(),
        own.as_ptr() as u64
    ))?;
    ensure!((kind, context) == (0, 0), "{kind} and {context:#x}");
    Ok("no error, zeros".to_owned())
}

/// Does `ask` at an address inside two granules that are mapped by one handle.
fn with_mapping<T>(gpu: &Gpu, ask: impl FnOnce(u64, u64) -> Result<T>) -> Result<T> {
    let (range, handle) = (gpu.reserve(4)?, gpu.create(2)?);
    let start = gpu.granule_at(range, 1);
    gpu.map(start, 2, handle)?;
    let answer = ask(start, start + 777);
    expect!(cuMemUnmap(start, 2 * gpu.granule))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    answer
}

fn mapped(gpu: &Gpu) -> Result<String> {
    with_mapping(gpu, |_, inside| {
        let kind: c_uint = attribute(MEMORY_TYPE, inside, 0)?;
        let device: c_int = attribute(DEVICE_ORDINAL, inside, -1)?;
        let pointer: u64 = attribute(DEVICE_POINTER, inside, 0)?;
        ensure!((kind, device, pointer) == (ON_DEVICE, gpu.device, inside));
        Ok("device memory of this GPU".to_owned())
    })
}

fn context_of_mapped(gpu: &Gpu) -> Result<String> {
    with_mapping(gpu, |_, inside| {
        let mut context = 7_usize;
        let status = ask!(cuPointerGetAttribute(
            (&raw mut context).cast(),
            CONTEXT,
            inside
        ));
        let whose = match context {
            0 => "none",
            of if of == gpu.context as usize => "the primary one",
            _ => "another",
        };
        Ok(format!("{status}, {whose}"))
    })
}

fn range_of_mapped(gpu: &Gpu) -> Result<String> {
    with_mapping(gpu, |start, inside| {
        let (mut base, mut bytes) = (0, 0);
        let by_call = ask!(cuMemGetAddressRange_v2(
            &raw mut base,
            &raw mut bytes,
            inside
        ));
        let call = format!(
            "{by_call}, {} + {bytes}",
            base.wrapping_sub(start).cast_signed()
        );
        let (mut base, mut bytes) = (0_u64, 0_usize);
        let by_attribute = [
            ask!(cuPointerGetAttribute(
                (&raw mut base).cast(),
                RANGE_START,
                inside
            )),
            ask!(cuPointerGetAttribute(
                (&raw mut bytes).cast(),
                RANGE_SIZE,
                inside
            )),
        ];
        let from = base.wrapping_sub(start).cast_signed();
        Ok(format!(
            "call: {call}; attributes: {}, {}, {from} + {bytes}",
            by_attribute[0], by_attribute[1]
        ))
    })
}

fn address_range(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(BYTES)?;
    let (mut base, mut bytes) = (0, 0);
    expect!(cuMemGetAddressRange_v2(
        &raw mut base,
        &raw mut bytes,
        at + 4321
    ))?;
    gpu.free(at)?;
    ensure!(
        base == at && bytes >= BYTES,
        "{base:#x} + {bytes} for {at:#x} + {BYTES}"
    );
    Ok(format!("{bytes} bytes for {BYTES}"))
}

fn half_asked(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(BYTES)?;
    let (mut base, mut bytes) = (0, 0);
    expect!(cuMemGetAddressRange_v2(&raw mut base, ptr::null_mut(), at))?;
    expect!(cuMemGetAddressRange_v2(ptr::null_mut(), &raw mut bytes, at))?;
    gpu.free(at)?;
    ensure!(base == at && bytes >= BYTES);
    Ok("either alone".to_owned())
}

fn range_of_stranger(_: &Gpu) -> Result<String> {
    let (own, mut base, mut bytes) = (Box::new([0_u8; 64]), 0, 0);
    let at = own.as_ptr() as u64;
    let status = ask!(cuMemGetAddressRange_v2(&raw mut base, &raw mut bytes, at));
    ensure!(status != Status::SUCCESS, "a range of host memory");
    Ok(status.to_string())
}

fn ipc_capable(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(BYTES)?;
    let plain: c_uint = attribute(LEGACY_IPC, at, 0)?;
    gpu.free(at)?;
    let of_mapped = with_mapping(gpu, |_, inside| attribute::<c_uint>(LEGACY_IPC, inside, 0))?;
    ensure!(
        (plain, of_mapped) == (1, 0),
        "cuMemAlloc {plain}, cuMemMap {of_mapped}"
    );
    Ok("of cuMemAlloc yes, of cuMemMap no".to_owned())
}

fn set_sync(at: u64) -> Result<Status> {
    let on: c_uint = 1;
    match ask!(cuPointerSetAttribute(
        (&raw const on).cast(),
        SYNC_MEMOPS,
        at
    )) {
        Status(0) => Ok(Status::SUCCESS),
        other => bail!("{other}"),
    }
}

fn sync_memops(gpu: &Gpu) -> Result<String> {
    let at = gpu.alloc(BYTES)?;
    set_sync(at)?;
    let set: c_uint = attribute(SYNC_MEMOPS, at, 0)?;
    gpu.free(at)?;
    ensure!(set == 1, "it is {set} after it was set");
    Ok("set, and read back".to_owned())
}

fn sync_memops_of_mapped(gpu: &Gpu) -> Result<String> {
    with_mapping(gpu, |_, inside| {
        let set = set_sync(inside);
        Ok(set.map_or_else(|error| error.to_string(), |status| status.to_string()))
    })
}
