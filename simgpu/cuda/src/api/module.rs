//! Modules and functions.

use std::ffi::{OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;

use simgpu_core::driver::attributes::{COMPUTE_CAPABILITY, MAX_BLOCK_THREADS};
use simgpu_core::driver::{Function, Module, current, driver};
use simgpu_core::{Error, Result};
use std::sync::Arc;

use crate::abi::{In, Out, Text};

/// CU_MODULE_LAZY_LOADING, the driver's default since CUDA 12.2: a runtime that is told EAGER asks for every function of
/// every image when it starts.
const LAZY: c_uint = 2;

api! {
    2000 fn cuModuleLoad(module: Out<usize>, path: Text) {
        let path = OsStr::from_bytes(path.get()?.to_bytes());
        let image = std::fs::read(path).map_err(|_| Error::FileNotFound)?;
        load(&module, &image)
    }

    2000 fn cuModuleLoadData(module: Out<usize>, image: Text) {
        load(&module, image.get()?.to_bytes())
    }

    2010 fn cuModuleLoadDataEx(
        module: Out<usize>,
        image: Text,
        _option_count: c_uint,
        _options: In<c_uint>,
        _values: In<*mut c_void>,
    ) {
        load(&module, image.get()?.to_bytes())
    }

    2000 fn cuModuleUnload(module: usize) {
        driver()?.unload(module)
    }

    2000 fn cuModuleGetFunction(function: Out<usize>, module: usize, name: Text) {
        function.check()?;
        function.set(driver()?.function(module, name.get()?)?)
    }

    12040 early fn cuModuleGetFunctionCount(count: Out<c_uint>, module: usize) {
        count.check()?;
        let module = driver()?.modules.get(module).ok_or(Error::InvalidHandle)?;
        count.set(module.entry_count() as c_uint)
    }

    3020 early fn cuModuleGetGlobal_v2(
        address: Out<u64>,
        size: Out<usize>,
        module: usize,
        name: Text,
    ) {
        address.clear();
        size.clear();
        let (start, bytes) = driver()?.global(module, &name.get()?.to_string_lossy())?;
        address.set_if_wanted(start);
        size.set_if_wanted(bytes as usize);
        Ok(())
    }

    11070 fn cuModuleGetLoadingMode(mode: Out<c_uint>) {
        driver()?;
        mode.set(LAZY)
    }

    2020 early fn cuFuncGetAttribute(value: Out<c_int>, attribute: c_uint, handle: usize) {
        value.check()?;
        function(handle)?;
        value.set(self::attribute(attribute)?)
    }

    9000 fn cuFuncSetAttribute(handle: usize, attribute: c_uint, _value: c_int) {
        function(handle)?;
        // Dynamic shared memory and carveout may be set; they change nothing here.
        if matches!(attribute, 8 | 9) { Ok(()) } else { Err(Error::InvalidValue) }
    }

    3000 fn cuFuncSetCacheConfig(handle: usize, _config: c_uint) {
        function(handle).map(drop)
    }

    11000 fn cuFuncGetModule(module: Out<usize>, handle: usize) {
        module.set(function(handle)?.module)
    }

    12030 early fn cuFuncGetName(name: Out<*const c_char>, handle: usize) {
        name.check()?;
        name.set(function(handle)?.name.as_ptr())
    }

    12040 early fn cuFuncGetParamInfo(
        handle: usize,
        index: usize,
        offset: Out<usize>,
        size: Out<usize>,
    ) {
        offset.check()?;
        parameter(handle, index, &offset, &size)
    }
}

fn load(handle: &Out<usize>, image: &[u8]) -> Result<()> {
    handle.check()?;
    let context = current()?;
    context.check()?;
    let driver = driver()?;
    let module = driver.modules.insert(&Module::load(image)?);
    let placed = driver.place_globals(&context, module);
    if placed.is_err() {
        driver.unload(module)?;
        return placed;
    }
    handle.set(module)
}

/// CUfunction_attribute, the same for all functions.
pub(super) fn attribute(number: c_uint) -> Result<c_int> {
    let version = COMPUTE_CAPABILITY.0 * 10 + COMPUTE_CAPABILITY.1;
    Ok(match number {
        0 => MAX_BLOCK_THREADS as c_int,
        // Registers; PTX and binary version; dynamic shared memory.
        4 => 32,
        5 | 6 => version,
        8 => 49_152,
        1..=17 => 0,
        _ => return Err(Error::InvalidValue),
    })
}

/// Offset and size of a parameter; nothing is known of those of other kernels.
pub(super) fn parameter(
    handle: usize,
    index: usize,
    offset: &Out<usize>,
    size: &Out<usize>,
) -> Result<()> {
    let kernel = function(handle)?.kernel.ok_or(Error::InvalidValue)?;
    offset.set(kernel.param_offset(index).ok_or(Error::InvalidValue)?)?;
    size.set_if_wanted(kernel.params()[index]);
    Ok(())
}

/// The function with this handle.
pub(super) fn function(handle: usize) -> Result<Arc<Function>> {
    driver()?.functions.get(handle).ok_or(Error::InvalidHandle)
}
