//! Arrays, and copies to and from one-dimensional ones.

use std::ffi::c_uint;

use simgpu_core::Result;
use simgpu_core::driver::CopySide::{self, Device, Host};
use simgpu_core::driver::{ArrayShape, current, driver};

use super::copy::copy;
use crate::abi::{Array3DDescriptor, ArrayDescriptor, In, Out, given};

api! {
    3020 fn cuArrayCreate_v2(array: Out<usize>, wanted: In<ArrayDescriptor>) {
        array.check()?;
        let ArrayDescriptor { width, height, format, channels } = wanted.get()?;
        let shape = ArrayShape { width, height, depth: 0, format, channels, flags: 0 };
        array.set(driver()?.create_array(&*current()?, shape)?)
    }

    3020 fn cuArray3DCreate_v2(array: Out<usize>, wanted: In<Array3DDescriptor>) {
        array.check()?;
        array.set(driver()?.create_array(&*current()?, shape(wanted)?)?)
    }

    3020 early fn cuArrayGetDescriptor_v2(descriptor: Out<ArrayDescriptor>, array: usize) {
        given(array)?;
        let ArrayShape { width, height, format, channels, .. } = driver()?.array(array)?.shape;
        descriptor.set(ArrayDescriptor { width, height, format, channels })
    }

    3020 early fn cuArray3DGetDescriptor_v2(descriptor: Out<Array3DDescriptor>, array: usize) {
        given(array)?;
        let ArrayShape { width, height, depth, format, channels, flags } =
            driver()?.array(array)?.shape;
        descriptor.set(Array3DDescriptor { width, height, depth, format, channels, flags })
    }

    2000 fn cuArrayDestroy(array: usize) {
        driver()?.destroy_array(&*current()?, array)
    }

    5000 fn cuMipmappedArrayCreate(
        mipmapped: Out<usize>, wanted: In<Array3DDescriptor>, levels: c_uint,
    ) {
        mipmapped.check()?;
        mipmapped.set(driver()?.create_mipmapped(&*current()?, shape(wanted)?, levels)?)
    }

    5000 early fn cuMipmappedArrayGetLevel(array: Out<usize>, mipmapped: usize, level: c_uint) {
        given(mipmapped)?;
        array.check()?;
        array.set(driver()?.mipmap_level(mipmapped, level)?)
    }

    5000 fn cuMipmappedArrayDestroy(mipmapped: usize) {
        driver()?.destroy_mipmapped(&*current()?, mipmapped)
    }

    3020 fn cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds(
        dst: usize, offset: usize, src: u64, len: usize,
    ) |default| {
        copy(run(dst, offset, len)?, Device(src), len, 0, default, true)
    }

    3020 fn cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds(
        dst: u64, src: usize, offset: usize, len: usize,
    ) |default| {
        copy(Device(dst), run(src, offset, len)?, len, 0, default, true)
    }

    3020 fn cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds(
        dst: usize, offset: usize, src: usize, len: usize,
    ) |default| {
        copy(run(dst, offset, len)?, Host(src), len, 0, default, true)
    }

    3020 fn cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds(
        dst: usize, src: usize, offset: usize, len: usize,
    ) |default| {
        copy(Host(dst), run(src, offset, len)?, len, 0, default, true)
    }

    3020 fn cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds(
        dst: usize, dst_offset: usize, src: usize, src_offset: usize, len: usize,
    ) |default| {
        let (dst, src) = (run(dst, dst_offset, len)?, run(src, src_offset, len)?);
        copy(dst, src, len, 0, default, true)
    }

    3020 fn cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz(
        dst: usize, offset: usize, src: usize, len: usize, on: usize,
    ) |default| {
        copy(run(dst, offset, len)?, Host(src), len, on, default, false)
    }

    3020 fn cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz(
        dst: usize, src: usize, offset: usize, len: usize, on: usize,
    ) |default| {
        copy(Host(dst), run(src, offset, len)?, len, on, default, false)
    }
}

fn shape(wanted: In<Array3DDescriptor>) -> Result<ArrayShape> {
    let Array3DDescriptor {
        width,
        height,
        depth,
        format,
        channels,
        flags,
    } = wanted.get()?;
    Ok(ArrayShape {
        width,
        height,
        depth,
        format,
        channels,
        flags,
    })
}

fn run(array: usize, offset: usize, len: usize) -> Result<CopySide> {
    driver()?.array(array)?.run(offset, len)
}
