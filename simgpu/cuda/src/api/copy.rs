//! Copies and sets.

use std::ffi::{c_uchar, c_uint, c_ushort};

use simgpu_core::driver::CopySide::{self, Device, Host};
use simgpu_core::{Error, Result};

use super::shape::unified;
use crate::abi::{In, Out, stream};
use crate::export::DefaultStream;

/// CU_STREAM_LEGACY.
const LEGACY: usize = 1;

api! {
    4000 fn cuMemcpy | cuMemcpy_ptds(dst: u64, src: u64, len: usize) |default| {
        copy(unified(dst)?, unified(src)?, len, 0, default, true)
    }

    4000 fn cuMemcpyAsync | cuMemcpyAsync_ptsz(
        dst: u64, src: u64, len: usize, on: usize,
    ) |default| {
        copy(unified(dst)?, unified(src)?, len, on, default, false)
    }

    3020 fn cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds(dst: u64, src: usize, len: usize) |default| {
        copy(Device(dst), Host(src), len, 0, default, true)
    }

    3020 fn cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz(
        dst: u64, src: usize, len: usize, on: usize,
    ) |default| {
        copy(Device(dst), Host(src), len, on, default, false)
    }

    3020 fn cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds(dst: usize, src: u64, len: usize) |default| {
        copy(Host(dst), Device(src), len, 0, default, true)
    }

    3020 fn cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz(
        dst: usize, src: u64, len: usize, on: usize,
    ) |default| {
        copy(Host(dst), Device(src), len, on, default, false)
    }

    12080 fn cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz(
        dst: In<u64>,
        src: In<u64>,
        len: In<usize>,
        count: usize,
        attributes: In<u8>,
        _first: In<usize>,
        attribute_count: usize,
        failed: Out<usize>,
        on: usize,
    ) |default| {
        let copied = copy_all(dst, src, len, count, attributes, attribute_count, on, default);
        copied.map_err(|(index, error)| {
            failed.set_if_wanted(index);
            error
        })
    }

    13000 fn cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz(
        dst: In<u64>,
        src: In<u64>,
        len: In<usize>,
        count: usize,
        attributes: In<u8>,
        _first: In<usize>,
        attribute_count: usize,
        on: usize,
    ) |default| {
        let copied = copy_all(dst, src, len, count, attributes, attribute_count, on, default);
        copied.map_err(|(_, error)| error)
    }

    3020 fn cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds(dst: u64, src: u64, len: usize) |default| {
        // The driver does not wait for these either.
        copy(Device(dst), Device(src), len, 0, default, false)
    }

    3020 fn cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz(
        dst: u64, src: u64, len: usize, on: usize,
    ) |default| {
        copy(Device(dst), Device(src), len, on, default, false)
    }

    3020 fn cuMemsetD8_v2 | cuMemsetD8_v2_ptds(dst: u64, value: c_uchar, count: usize) |default| {
        set(dst, u32::from(value), 1, count, 0, default)
    }

    3020 fn cuMemsetD16_v2 | cuMemsetD16_v2_ptds(
        dst: u64, value: c_ushort, count: usize,
    ) |default| {
        set(dst, u32::from(value), 2, count, 0, default)
    }

    3020 fn cuMemsetD32_v2 | cuMemsetD32_v2_ptds(dst: u64, value: c_uint, count: usize) |default| {
        set(dst, value, 4, count, 0, default)
    }

    3020 fn cuMemsetD8Async | cuMemsetD8Async_ptsz(
        dst: u64, value: c_uchar, count: usize, on: usize,
    ) |default| {
        set(dst, u32::from(value), 1, count, on, default)
    }

    3020 fn cuMemsetD16Async | cuMemsetD16Async_ptsz(
        dst: u64, value: c_ushort, count: usize, on: usize,
    ) |default| {
        set(dst, u32::from(value), 2, count, on, default)
    }

    3020 fn cuMemsetD32Async | cuMemsetD32Async_ptsz(
        dst: u64, value: c_uint, count: usize, on: usize,
    ) |default| {
        set(dst, value, 4, count, on, default)
    }
}

/// Copies a batch. An error comes with the number of the copy at fault, `usize::MAX` where it is none's.
#[expect(clippy::too_many_arguments, reason = "the driver's own")]
fn copy_all(
    dst: In<u64>,
    src: In<u64>,
    len: In<usize>,
    count: usize,
    attributes: In<u8>,
    attribute_count: usize,
    on: usize,
    default: DefaultStream,
) -> Result<(), (usize, Error)> {
    // The legacy stream takes no batches.
    let is_legacy = on == LEGACY || (on == 0 && default == DefaultStream::Legacy);
    // When a source may be read and where it lies best, as attributes say, changes nothing here.
    if is_legacy || attributes.is_null() || attribute_count == 0 || attribute_count > count {
        return Err((usize::MAX, Error::InvalidValue));
    }
    // SAFETY: as many of each as the program says.
    let (dst, src, len) = unsafe { (dst.list(count), src.list(count), len.list(count)) };
    for (index, ((dst, src), len)) in dst.zip(src).zip(len).enumerate() {
        let copied = dst
            .and_then(unified)
            .and_then(|dst| copy(dst, unified(src?)?, len?, on, default, false));
        copied.map_err(|error| (index, error))?;
    }
    Ok(())
}

pub(super) fn copy(
    dst: CopySide,
    src: CopySide,
    len: usize,
    on: usize,
    default: DefaultStream,
    wait: bool,
) -> Result<()> {
    let (context, stream) = stream(on, default)?;
    context.copy(&stream, dst, src, len, wait)
}

pub(super) fn set(
    dst: u64,
    pattern: u32,
    width: usize,
    count: usize,
    on: usize,
    default: DefaultStream,
) -> Result<()> {
    let (context, stream) = stream(on, default)?;
    context.set(&stream, dst, pattern, width, count)
}
