//! Initialisation, versions, texts.

use std::ffi::{c_char, c_int, c_uint};

use simgpu_core::driver::attributes::CUDA_VERSION;

use crate::abi::{Buffer, Out};
use crate::status::{Status, text};
use crate::view;

/// The first driver of CUDA 12.8's branch; no driver was ever called so.
const DRIVER_VERSION: &str = "570.00";
/// The library's own, as NVIDIA composes it of CUDA's and the driver's.
const NVML_VERSION: &str = "12.570.00";

/// NVML_INIT_FLAG_NO_GPUS and NVML_INIT_FLAG_NO_ATTACH.
const KNOWN_FLAGS: c_uint = 1 | 2;

/// Text for a code; the one function that does not give a status.
#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: c_uint) -> *const c_char {
    text(code).as_ptr()
}

api! {
    fn nvmlInit() {
        view::init()
    }

    fn nvmlInit_v2() {
        view::init()
    }

    fn nvmlInitWithFlags(flags: c_uint) {
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Status::InvalidArgument);
        }
        view::init()
    }

    fn nvmlShutdown() {
        view::shutdown()
    }

    fn nvmlSystemGetDriverVersion(version: Buffer, size: c_uint) {
        view::is_initialized()?;
        version.write(size, DRIVER_VERSION)
    }

    // These three can be asked before nvmlInit.

    fn nvmlSystemGetNVMLVersion(version: Buffer, size: c_uint) {
        version.write(size, NVML_VERSION)
    }

    fn nvmlSystemGetCudaDriverVersion(version: Out<c_int>) {
        version.set(CUDA_VERSION)
    }

    fn nvmlSystemGetCudaDriverVersion_v2(version: Out<c_int>) {
        version.set(CUDA_VERSION)
    }

    fn nvmlSystemGetProcessName(pid: c_uint, name: Buffer, size: c_uint) {
        view::is_initialized()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| Status::NotFound)?;
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        name.write(size, &String::from_utf8_lossy(program))
    }

    // What a machine of such GPUs has none of.

    fn nvmlUnitGetCount(count: Out<c_uint>) {
        view::is_initialized()?;
        count.set(0)
    }

    fn nvmlGetExcludedDeviceCount(count: Out<c_uint>) {
        view::is_initialized()?;
        count.set(0)
    }
}
