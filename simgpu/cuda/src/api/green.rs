//! Green contexts, and what of a GPU they are given.

use std::ffi::{c_int, c_uint};

use simgpu_core::Error;
use simgpu_core::driver::attributes::attribute;
use simgpu_core::driver::driver;

use crate::abi::{DevResource, In, Out, stream};

/// CU_DEV_RESOURCE_TYPE_SM.
const MULTIPROCESSORS: c_uint = 1;
/// CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.
const COUNT: c_int = 16;

api! {
    12040 fn cuDeviceGetDevResource(device: c_int, resource: Out<DevResource>, kind: c_uint) {
        let gpu = driver()?.gpu(device)?;
        if kind != MULTIPROCESSORS {
            return Err(Error::InvalidValue);
        }
        let count = attribute(gpu, device, COUNT).and_then(|count| count.try_into().ok());
        resource.set(DevResource::multiprocessors(count.ok_or(Error::Unknown)?))
    }

    12040 early fn cuDevResourceGenerateDesc(
        desc: Out<usize>, resources: In<DevResource>, count: c_uint,
    ) {
        desc.check()?;
        let mut whole = 0;
        // SAFETY: as many resources as the program says.
        for resource in unsafe { resources.list(count as usize) } {
            let resource = resource?;
            if resource.kind != MULTIPROCESSORS {
                return Err(Error::InvalidValue);
            }
            whole += resource.multiprocessors;
        }
        desc.set(driver()?.make_partition(whole)?)
    }

    12040 fn cuGreenCtxCreate(green: Out<usize>, desc: usize, device: c_int, flags: c_uint) {
        green.check()?;
        green.set(driver()?.create_green(desc, device, flags)?)
    }

    12040 fn cuGreenCtxDestroy(green: usize) {
        driver()?.destroy_green(green)
    }

    12040 early fn cuCtxFromGreenCtx(context: Out<usize>, green: usize) {
        context.check()?;
        context.set(driver()?.context_of_green(green)?.handle())
    }

    12040 early fn cuGreenCtxGetDevResource(
        green: usize, resource: Out<DevResource>, kind: c_uint,
    ) {
        resource.check()?;
        let green = driver()?.green(green)?;
        if kind != MULTIPROCESSORS {
            return Err(Error::InvalidValue);
        }
        resource.set(DevResource::multiprocessors(green.partition.multiprocessors))
    }

    12050 early fn cuGreenCtxStreamCreate(
        handle: Out<usize>, green: usize, flags: c_uint, priority: c_int,
    ) {
        handle.set(0)?;
        // Only streams that no default stream waits for.
        if flags != 1 {
            return Err(Error::InvalidValue);
        }
        let made = driver()?.green(green)?.context.create_stream(flags, priority)?;
        handle.set(driver()?.streams.insert(&made))
    }

    12040 early fn cuStreamGetGreenCtx(on: usize, green: Out<usize>) {
        green.check()?;
        let (context, _) = stream(on, crate::export::DefaultStream::Legacy)?;
        green.set(driver()?.green_of(&context))
    }
}
