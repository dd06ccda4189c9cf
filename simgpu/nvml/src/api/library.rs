//! Initialisation, versions, texts.

use std::ffi::{c_char, c_int, c_uint};

use simgpu_core::config::CUDA_13;
use simgpu_core::driver::cuda_version;

use crate::abi::{Buffer, Out};
use crate::status::{Status, text};
use crate::view;

/// The first driver of CUDA 12.8's branch, and of CUDA 13's; no driver was ever called so.
const DRIVER_VERSIONS: [&str; 2] = ["570.00", "580.00"];
/// The library's own, as NVIDIA composes it of CUDA's and the driver's.
const NVML_VERSIONS: [&str; 2] = ["12.570.00", "13.580.00"];

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
        version.write(size, of_branch(DRIVER_VERSIONS))
    }

    // These three can be asked before nvmlInit.

    fn nvmlSystemGetNVMLVersion(version: Buffer, size: c_uint) {
        version.write(size, of_branch(NVML_VERSIONS))
    }

    fn nvmlSystemGetCudaDriverVersion(version: Out<c_int>) {
        version.set(cuda_version())
    }

    fn nvmlSystemGetCudaDriverVersion_v2(version: Out<c_int>) {
        version.set(cuda_version())
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

/// The version that belongs to CUDA 12 or to CUDA 13.
fn of_branch(versions: [&'static str; 2]) -> &'static str {
    versions[usize::from(cuda_version() >= CUDA_13)]
}
