//! The first forms of functions, which today's programs get under these names by dlsym only: device addresses, sizes and
//! pitches are 32 bits wide.

use std::ffi::{c_int, c_uchar, c_uint, c_ushort};

use simgpu_core::driver::CopySide::{Device, Host};
use simgpu_core::driver::{
    ArrayShape, PointerKind, SetShape, current, driver, pop_current, push_current,
};
use simgpu_core::{Error, Result};

use super::context::{create, destroy};
use super::copy::{copy, set};
use super::rows::set as set_rows;
use crate::abi::{FirstArray, FirstArray3D, In, IpcHandle, Out, Text, given, nonzero};
use crate::export::DefaultStream::Legacy;

api! {
    2000 fn cuCtxCreate(context: Out<usize>, flags: c_uint, device: c_int) {
        create(&context, flags, device)
    }

    2000 early fn cuCtxDestroy(context: usize) {
        nonzero(context)?;
        destroy(context)
    }

    2000 fn cuCtxPushCurrent(context: usize) {
        push_current(driver()?.context(context)?);
        Ok(())
    }

    2000 fn cuCtxPopCurrent(context: Out<usize>) {
        context.set_if_wanted(pop_current()?.handle());
        Ok(())
    }

    // A use more and less of the current context, which only its destruction ends here.

    2000 fn cuCtxAttach(context: Out<usize>, flags: c_uint) {
        context.check()?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        let now = current()?;
        now.attach();
        context.set(now.handle())
    }

    2000 fn cuCtxDetach(context: usize) {
        let now = current()?;
        if now.handle() != context {
            return Err(Error::InvalidContext);
        }
        if now.detach() { destroy(context) } else { Ok(()) }
    }

    2000 early fn cuStreamDestroy(handle: usize) {
        given(handle)?;
        driver()?.destroy_stream(handle)
    }

    2000 early fn cuEventDestroy(handle: usize) {
        given(handle)?;
        driver()?.events.remove(handle).map(drop).ok_or(Error::InvalidHandle)
    }

    2000 early fn cuDeviceTotalMem(bytes: Out<u32>, device: c_int) {
        bytes.clear();
        bytes.set(saturated(driver()?.gpu(device)?.memory.0))
    }

    2000 early fn cuMemGetInfo(free: Out<u32>, total: Out<u32>) {
        free.clear();
        total.clear();
        let (free_bytes, total_bytes) = driver()?.memory_info(current()?.gpu());
        free.set(saturated(free_bytes))?;
        total.set(saturated(total_bytes))
    }

    2000 early fn cuMemAlloc(address: Out<u32>, size: u32) {
        address.clear();
        driver()?;
        address.check()?;
        address.set(current()?.alloc_low(size.into())?)
    }

    2000 early fn cuMemAllocPitch(
        address: Out<u32>, pitch: Out<u32>, width: u32, height: u32, element: c_uint,
    ) {
        address.clear();
        pitch.clear();
        driver()?;
        address.check()?;
        pitch.check()?;
        if width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
            return Err(Error::InvalidValue);
        }
        let row = width.checked_next_multiple_of(512).ok_or(Error::OutOfMemory)?;
        address.set(current()?.alloc_low(u64::from(row) * u64::from(height))?)?;
        pitch.set(row)
    }

    2000 fn cuMemFree(address: u32) {
        super::memory::free(address.into())
    }

    2000 early fn cuMemGetAddressRange(base: Out<u32>, size: Out<u32>, address: u32) {
        base.clear();
        size.clear();
        if base.check().is_err() && size.check().is_err() {
            return Ok(());
        }
        driver()?;
        current()?;
        let known = driver()?.pointer(address.into()).ok();
        let device = known.filter(|info| info.kind == PointerKind::Device);
        let info = device.ok_or(Error::NotFound)?;
        base.set_if_wanted(saturated(info.start));
        size.set_if_wanted(saturated(info.size));
        Ok(())
    }

    2000 early fn cuMemAllocHost(address: Out<usize>, size: u32) {
        address.clear();
        driver()?;
        address.check()?;
        address.set(current()?.alloc_host(size as usize, 0)?)
    }

    2020 early fn cuMemHostGetDevicePointer(device: Out<u32>, host: usize, flags: c_uint) {
        device.clear();
        driver()?.host_flags(host)?;
        current()?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        device.set(u32::try_from(host).map_err(|_| Error::InvalidValue)?)
    }

    4000 fn cuMemHostRegister(address: usize, size: usize, flags: c_uint) {
        super::memory::register(address, size, flags)
    }

    4010 early fn cuIpcOpenMemHandle(address: Out<u64>, handle: IpcHandle, flags: c_uint) {
        super::ipc::open(&address, &handle, flags)
    }

    2000 early fn cuModuleGetGlobal(
        address: Out<u32>, size: Out<u32>, module: usize, name: Text,
    ) {
        address.clear();
        size.clear();
        let (start, bytes) = driver()?.global(module, &name.get()?.to_string_lossy())?;
        // A variable is where its module was loaded, which is nowhere near.
        let start = u32::try_from(start).map_err(|_| Error::NotFound)?;
        address.set_if_wanted(start);
        size.set_if_wanted(saturated(bytes));
        Ok(())
    }

    2000 fn cuArrayCreate(array: Out<usize>, wanted: In<FirstArray>) {
        array.check()?;
        let FirstArray { width, height, format, channels } = wanted.get()?;
        let shape = ArrayShape {
            width: width as usize,
            height: height as usize,
            depth: 0,
            format,
            channels,
            flags: 0,
        };
        array.set(driver()?.create_array(&*current()?, shape)?)
    }

    2000 early fn cuArrayGetDescriptor(descriptor: Out<FirstArray>, array: usize) {
        given(array)?;
        let ArrayShape { width, height, format, channels, .. } = driver()?.array(array)?.shape;
        let (width, height) = (saturated(width as u64), saturated(height as u64));
        descriptor.set(FirstArray { width, height, format, channels })
    }

    2000 fn cuArray3DCreate(array: Out<usize>, wanted: In<FirstArray3D>) {
        array.check()?;
        let FirstArray3D { width, height, depth, format, channels, flags } = wanted.get()?;
        let shape = ArrayShape {
            width: width as usize,
            height: height as usize,
            depth: depth as usize,
            format,
            channels,
            flags,
        };
        array.set(driver()?.create_array(&*current()?, shape)?)
    }

    2000 early fn cuArray3DGetDescriptor(descriptor: Out<FirstArray3D>, array: usize) {
        given(array)?;
        let ArrayShape { width, height, depth, format, channels, flags } =
            driver()?.array(array)?.shape;
        let [width, height, depth] = [width, height, depth].map(|size| saturated(size as u64));
        descriptor.set(FirstArray3D { width, height, depth, format, channels, flags })
    }

    2000 fn cuMemcpyHtoD(dst: u32, src: usize, len: u32) {
        copy(Device(dst.into()), Host(src), len as usize, 0, Legacy, true)
    }

    2000 fn cuMemcpyDtoH(dst: usize, src: u32, len: u32) {
        copy(Host(dst), Device(src.into()), len as usize, 0, Legacy, true)
    }

    2000 fn cuMemcpyDtoD(dst: u32, src: u32, len: u32) {
        copy(Device(dst.into()), Device(src.into()), len as usize, 0, Legacy, false)
    }

    2000 fn cuMemcpyHtoDAsync(dst: u32, src: usize, len: u32, on: usize) {
        copy(Device(dst.into()), Host(src), len as usize, on, Legacy, false)
    }

    2000 fn cuMemcpyDtoHAsync(dst: usize, src: u32, len: u32, on: usize) {
        copy(Host(dst), Device(src.into()), len as usize, on, Legacy, false)
    }

    3000 fn cuMemcpyDtoDAsync(dst: u32, src: u32, len: u32, on: usize) {
        copy(Device(dst.into()), Device(src.into()), len as usize, on, Legacy, false)
    }

    2000 fn cuMemsetD8(dst: u32, value: c_uchar, count: u32) {
        set(dst.into(), value.into(), 1, count as usize, 0, Legacy)
    }

    2000 fn cuMemsetD16(dst: u32, value: c_ushort, count: u32) {
        set(dst.into(), value.into(), 2, count as usize, 0, Legacy)
    }

    2000 fn cuMemsetD32(dst: u32, value: c_uint, count: u32) {
        set(dst.into(), value, 4, count as usize, 0, Legacy)
    }

    2000 fn cuMemsetD2D8(dst: u32, pitch: u32, value: c_uchar, count: u32, rows: u32) {
        set_shape(dst, pitch, value.into(), 1, [count, rows])
    }

    2000 fn cuMemsetD2D16(dst: u32, pitch: u32, value: c_ushort, count: u32, rows: u32) {
        set_shape(dst, pitch, value.into(), 2, [count, rows])
    }

    2000 fn cuMemsetD2D32(dst: u32, pitch: u32, value: c_uint, count: u32, rows: u32) {
        set_shape(dst, pitch, value, 4, [count, rows])
    }
}

/// What does not fit is the most that does.
fn saturated(bytes: u64) -> u32 {
    bytes.try_into().unwrap_or(u32::MAX)
}

fn set_shape(
    dst: u32,
    pitch: u32,
    pattern: u32,
    width: usize,
    [count, rows]: [u32; 2],
) -> Result<()> {
    let shape = SetShape {
        dst: dst.into(),
        pattern,
        width,
        count: count as usize,
        rows: rows as usize,
        pitch: pitch as usize,
    };
    set_rows(shape, 0, Legacy)
}
