//! Libraries and kernels: modules and functions that are loaded without a
//! context. One handle serves as both, as both lead to the same image.

use std::ffi::{OsStr, c_char, c_int, c_uint};
use std::os::unix::ffi::OsStrExt;

use simgpu_core::Error;
use simgpu_core::driver::{Module, current, driver};

use super::module::{attribute, function, parameter};
use crate::abi::{In, Out, Text, given, nonzero};

api! {
    12000 early fn cuLibraryLoadData(
        library: Out<usize>,
        image: Text,
        _options: In<c_uint>,
        _values: In<usize>,
        _option_count: c_uint,
        _library_options: In<c_uint>,
        _library_values: In<usize>,
        _library_option_count: c_uint,
    ) {
        library.check()?;
        library.set(driver()?.modules.insert(&Module::load(image.get()?.to_bytes())?))
    }

    12000 early fn cuLibraryLoadFromFile(
        library: Out<usize>,
        path: Text,
        _options: In<c_uint>,
        _values: In<usize>,
        _option_count: c_uint,
        _library_options: In<c_uint>,
        _library_values: In<usize>,
        _library_option_count: c_uint,
    ) {
        path.get()?;
        driver()?;
        library.check()?;
        let path = OsStr::from_bytes(path.get()?.to_bytes());
        let image = std::fs::read(path).map_err(|_| Error::FileNotFound)?;
        library.set(driver()?.modules.insert(&Module::load(&image)?))
    }

    12000 early fn cuLibraryUnload(library: usize) {
        given(library)?;
        driver()?.unload(library)
    }

    12000 early fn cuLibraryGetKernel(kernel: Out<usize>, library: usize, name: Text) {
        kernel.check()?;
        kernel.set(driver()?.function(library, name.get()?)?)
    }

    12040 early fn cuLibraryGetKernelCount(count: Out<c_uint>, library: usize) {
        count.check()?;
        let module = driver()?.modules.get(library).ok_or(Error::InvalidHandle)?;
        count.set(module.entry_count() as c_uint)
    }

    12000 early fn cuLibraryGetModule(module: Out<usize>, library: usize) {
        module.check()?;
        let driver = driver()?;
        driver.place_globals(&*current()?, library)?;
        module.set(library)
    }

    12000 early fn cuLibraryGetGlobal(
        address: Out<u64>, size: Out<usize>, library: usize, name: Text,
    ) {
        nonzero(library)?;
        let driver = driver()?;
        driver.place_globals(&*current()?, library)?;
        let (start, bytes) = driver.global(library, &name.get()?.to_string_lossy())?;
        address.set_if_wanted(start);
        size.set_if_wanted(bytes as usize);
        Ok(())
    }

    12000 early fn cuKernelGetFunction(handle: Out<usize>, kernel: usize) {
        handle.check()?;
        let library = function(kernel)?.module;
        driver()?.place_globals(&*current()?, library)?;
        handle.set(kernel)
    }

    12050 early fn cuKernelGetLibrary(library: Out<usize>, kernel: usize) {
        library.check()?;
        library.set(function(kernel)?.module)
    }

    12030 early fn cuKernelGetName(name: Out<*const c_char>, kernel: usize) {
        name.check()?;
        name.set(function(kernel)?.name.as_ptr())
    }

    12000 early fn cuKernelGetAttribute(
        value: Out<c_int>, number: c_uint, kernel: usize, device: c_int,
    ) {
        given(kernel)?;
        driver()?.gpu(device)?;
        function(kernel)?;
        value.set(attribute(number)?)
    }

    12040 early fn cuKernelGetParamInfo(
        kernel: usize, index: usize, offset: Out<usize>, size: Out<usize>,
    ) {
        offset.check()?;
        parameter(kernel, index, &offset, &size)
    }

    12000 early fn cuKernelSetAttribute(
        attribute: c_uint, _value: c_int, kernel: usize, device: c_int,
    ) {
        given(kernel)?;
        driver()?.gpu(device)?;
        function(kernel)?;
        // Dynamic shared memory and carveout may be set; they change nothing here.
        if matches!(attribute, 8 | 9) { Ok(()) } else { Err(Error::InvalidValue) }
    }
}
