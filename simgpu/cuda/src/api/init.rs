//! Initialisation, version, errors.

use std::ffi::{CStr, c_char, c_int, c_uint};

use simgpu_core::{Error, driver};

use crate::abi::Out;

api! {
    2000 early fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        driver::init()
    }

    2020 early fn cuDriverGetVersion(version: Out<c_int>) {
        version.set(driver::cuda_version())
    }

    6000 early fn cuGetErrorName(code: c_uint, name: Out<*const c_char>) {
        let known = Error::from_code(code).map(Error::name);
        let success = (code == 0).then_some(c"CUDA_SUCCESS");
        let text = known.or(success);
        name.set(text.map_or(std::ptr::null(), CStr::as_ptr))?;
        text.map(drop).ok_or(Error::InvalidValue)
    }

    6000 early fn cuGetErrorString(code: c_uint, message: Out<*const c_char>) {
        let known = Error::from_code(code).map(Error::text);
        let success = (code == 0).then_some(c"no error");
        let text = known.or(success);
        message.set(text.map_or(std::ptr::null(), CStr::as_ptr))?;
        text.map(drop).ok_or(Error::InvalidValue)
    }
}
