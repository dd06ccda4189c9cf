//! Copies and sets of rows, and copies between contexts.

use std::ffi::{c_uchar, c_uint, c_ushort};

use simgpu_core::Result;
use simgpu_core::driver::{CopyShape, CopySide, SetShape, driver};

use super::shape::{of_2d, of_3d, unified};
use crate::abi::{In, Rows2D, Rows3D, stream};
use crate::export::DefaultStream;

api! {
    3020 fn cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds(rows: In<Rows2D>) |default| {
        copy(of_2d(rows.get()?)?, 0, default, true)
    }

    3020 fn cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds(rows: In<Rows2D>) |default| {
        copy(of_2d(rows.get()?)?, 0, default, true)
    }

    3020 fn cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz(rows: In<Rows2D>, on: usize) |default| {
        copy(of_2d(rows.get()?)?, on, default, false)
    }

    3020 fn cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds(rows: In<Rows3D>) |default| {
        copy(of_3d(rows.get()?)?, 0, default, true)
    }

    3020 fn cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz(rows: In<Rows3D>, on: usize) |default| {
        copy(of_3d(rows.get()?)?, on, default, false)
    }

    4000 fn cuMemcpy3DPeer | cuMemcpy3DPeer_ptds(rows: In<Rows3D>) |default| {
        let rows = rows.get()?;
        check_contexts(rows.src.context, rows.dst.context)?;
        copy(of_3d(rows)?, 0, default, true)
    }

    4000 fn cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz(
        rows: In<Rows3D>, on: usize,
    ) |default| {
        let rows = rows.get()?;
        check_contexts(rows.src.context, rows.dst.context)?;
        copy(of_3d(rows)?, on, default, false)
    }

    4000 fn cuMemcpyPeer | cuMemcpyPeer_ptds(
        dst: u64, dst_context: usize, src: u64, src_context: usize, len: usize,
    ) |default| {
        check_contexts(src_context, dst_context)?;
        flat(unified(dst)?, unified(src)?, len, 0, default)
    }

    4000 fn cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz(
        dst: u64, dst_context: usize, src: u64, src_context: usize, len: usize, on: usize,
    ) |default| {
        check_contexts(src_context, dst_context)?;
        flat(unified(dst)?, unified(src)?, len, on, default)
    }

    3020 fn cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds(
        dst: u64, pitch: usize, value: c_uchar, count: usize, rows: usize,
    ) |default| {
        set(shape(dst, pitch, value.into(), 1, [count, rows]), 0, default)
    }

    3020 fn cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds(
        dst: u64, pitch: usize, value: c_ushort, count: usize, rows: usize,
    ) |default| {
        set(shape(dst, pitch, value.into(), 2, [count, rows]), 0, default)
    }

    3020 fn cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds(
        dst: u64, pitch: usize, value: c_uint, count: usize, rows: usize,
    ) |default| {
        set(shape(dst, pitch, value, 4, [count, rows]), 0, default)
    }

    3020 fn cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz(
        dst: u64, pitch: usize, value: c_uchar, count: usize, rows: usize, on: usize,
    ) |default| {
        set(shape(dst, pitch, value.into(), 1, [count, rows]), on, default)
    }

    3020 fn cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz(
        dst: u64, pitch: usize, value: c_ushort, count: usize, rows: usize, on: usize,
    ) |default| {
        set(shape(dst, pitch, value.into(), 2, [count, rows]), on, default)
    }

    3020 fn cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz(
        dst: u64, pitch: usize, value: c_uint, count: usize, rows: usize, on: usize,
    ) |default| {
        set(shape(dst, pitch, value, 4, [count, rows]), on, default)
    }
}

fn copy(shape: CopyShape, on: usize, default: DefaultStream, wait: bool) -> Result<()> {
    let (context, stream) = stream(on, default)?;
    context.copy_rows(&stream, shape, wait)
}

/// As copies within a device: the host does not wait.
fn flat(dst: CopySide, src: CopySide, len: usize, on: usize, default: DefaultStream) -> Result<()> {
    let (context, stream) = stream(on, default)?;
    context.copy(&stream, dst, src, len, false)
}

/// Addresses are unified, so the contexts only have to exist.
fn check_contexts(src: usize, dst: usize) -> Result<()> {
    driver()?.context(src)?;
    driver()?.context(dst).map(drop)
}

fn shape(
    dst: u64,
    pitch: usize,
    pattern: u32,
    width: usize,
    [count, rows]: [usize; 2],
) -> SetShape {
    SetShape {
        dst,
        pattern,
        width,
        count,
        rows,
        pitch,
    }
}

pub(super) fn set(shape: SetShape, on: usize, default: DefaultStream) -> Result<()> {
    let (context, stream) = stream(on, default)?;
    context.set_rows(&stream, shape)
}
