//! Who may access what is mapped.

use anyhow::{Result, ensure};
use cudarc::driver::sys::CUmemAccess_flags;

use crate::case::Body::{Alone, Shared};
use crate::case::Case;
use crate::cuda::Status;
use crate::gpu::{Gpu, Range};
use crate::{ask, expect};

const SET: &str = "cuMemSetAccess, CUDA Driver API, Virtual Memory Management";
const GET: &str = "cuMemGetAccess, CUDA Driver API, Virtual Memory Management";

pub(super) const CASES: &[Case] = &[
    Case::documented(
        "access/none-at-first",
        "cuMemMap, CUDA Driver API, Virtual Memory Management: access has to be granted by cuMemSetAccess",
        Shared(none_at_first),
    ),
    Case::documented("access/as-set", GET, Shared(as_set)),
    Case::documented(
        "access/gone-after-unmap",
        "cuMemUnmap, CUDA Driver API, Virtual Memory Management",
        Shared(gone),
    ),
    Case::documented("access/over-a-hole", SET, Shared(over_a_hole)),
    Case::open(
        "access/a-part-of-a-mapping",
        "the documentation asks for whole mappings; whether a part is refused",
        Shared(part),
    ),
    Case::open(
        "access/read-only",
        "whether a GPU's own memory can be read-only to it: chunks whose writes would be seen",
        Shared(read_only),
    ),
    Case::relied(
        "access/copy-without",
        "a call that touches what is swapped out must fail, and not read something else",
        Alone(copy_without),
    ),
    Case::open(
        "access/copy-without-leaves-the-context-usable",
        "whether one copy to swapped memory would end the program",
        Alone(copy_without_is_mild),
    ),
];

/// Two granules of one handle, mapped and without access.
fn mapped(gpu: &Gpu) -> Result<Range> {
    let (range, handle) = (gpu.reserve(2)?, gpu.create(2)?);
    expect!(cuMemMap(range.at, range.bytes, 0, handle, 0))?;
    // The mapping keeps it.
    expect!(cuMemRelease(handle))?;
    Ok(range)
}

fn end(gpu: &Gpu, range: Range) -> Result<()> {
    expect!(cuMemUnmap(range.at, range.bytes))?;
    gpu.unreserve(range)
}

fn none_at_first(gpu: &Gpu) -> Result<String> {
    let range = mapped(gpu)?;
    let flags = gpu.access(range.at)?;
    end(gpu, range)?;
    ensure!(flags == 0, "access {flags} before any was granted");
    Ok("none".to_owned())
}

fn as_set(gpu: &Gpu) -> Result<String> {
    let range = mapped(gpu)?;
    gpu.allow(range.at, range.bytes)?;
    let flags = gpu.access(gpu.granule_at(range, 1))?;
    end(gpu, range)?;
    ensure!(
        flags == 3,
        "access {flags} where read and write were granted"
    );
    Ok("read and write".to_owned())
}

fn gone(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(1)?, gpu.create(1)?);
    gpu.map(range.at, 1, handle)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemMap(range.at, range.bytes, 0, handle, 0))?;
    let flags = gpu.access(range.at)?;
    expect!(cuMemUnmap(range.at, range.bytes))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    ensure!(flags == 0, "access {flags} after it was mapped anew");
    Ok("none after it was mapped anew".to_owned())
}

fn over_a_hole(gpu: &Gpu) -> Result<String> {
    let (range, handle) = (gpu.reserve(2)?, gpu.create(1)?);
    expect!(cuMemMap(range.at, gpu.granule, 0, handle, 0))?;
    let access = gpu.read_write();
    let status =
        expect!(cuMemSetAccess(range.at, range.bytes, &raw const access, 1) => INVALID_VALUE)?;
    expect!(cuMemUnmap(range.at, gpu.granule))?;
    expect!(cuMemRelease(handle))?;
    gpu.unreserve(range)?;
    Ok(status.to_string())
}

fn part(gpu: &Gpu) -> Result<String> {
    let range = mapped(gpu)?;
    let access = gpu.read_write();
    let status = ask!(cuMemSetAccess(range.at, gpu.granule, &raw const access, 1));
    end(gpu, range)?;
    Ok(status.to_string())
}

fn read_only(gpu: &Gpu) -> Result<String> {
    let range = mapped(gpu)?;
    let mut access = gpu.read_write();
    access.flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ;
    let status = ask!(cuMemSetAccess(range.at, range.bytes, &raw const access, 1));
    let flags = gpu.access(range.at)?;
    end(gpu, range)?;
    Ok(format!("{status}, then access {flags}"))
}

fn copy_without(gpu: &Gpu) -> Result<String> {
    let range = mapped(gpu)?;
    let mut byte = 0_u8;
    let copied = ask!(cuMemcpyDtoH_v2((&raw mut byte).cast(), range.at, 1));
    let set = ask!(cuMemsetD8_v2(range.at, 1, gpu.granule));
    let waited = ask!(cuCtxSynchronize());
    ensure!(
        copied != Status::SUCCESS,
        "a copy from memory without access worked"
    );
    ensure!(
        (set, waited) != (Status::SUCCESS, Status::SUCCESS),
        "a set of memory without access worked"
    );
    Ok(format!("copy {copied}, set {set}, then {waited}"))
}

fn copy_without_is_mild(gpu: &Gpu) -> Result<String> {
    let range = mapped(gpu)?;
    let mut byte = 0_u8;
    let copied = ask!(cuMemcpyDtoH_v2((&raw mut byte).cast(), range.at, 1));
    let mut at = 0;
    let after = ask!(cuMemAlloc_v2(&raw mut at, 4096));
    Ok(format!("copy {copied}, an allocation after it {after}"))
}
