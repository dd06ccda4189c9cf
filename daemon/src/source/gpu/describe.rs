//! What `rtswapctl doctor` wants to know of the driver, asked by this process, which prints it and ends.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::{fs, path::Path};

use nvml_wrapper::enum_wrappers::device::GpuVirtualizationMode;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml as Library};
use rtswap_dbus::driver::{Cuda, CudaFault, CudaGpu, Description, Nvml, NvmlGpu, Virtualization};
use rtswap_engine::Uuid;
use rtswap_engine::config::MAX_GPUS;

use super::driver::leave_no_core;
use super::nvml::{LIBRARY, optional};
use crate::sys::cuda::{self, CudaError};

/// The whole work of the process: asks both libraries, and writes their answers to stdout.
pub fn describe() -> ExitCode {
    leave_no_core();
    let cuda = describe_cuda().map_err(|error| CudaFault {
        text: error.to_string(),
        code: match error {
            CudaError::Call(_, code) => Some(code),
            CudaError::Library(_) | CudaError::Missing(_) => None,
        },
    });
    let description = Description {
        library: loaded(),
        cuda,
        nvml: describe_nvml().map_err(|error| match error {
            NvmlError::LibloadingError(error) => error.to_string(),
            error => format!("{LIBRARY}: {error}"),
        }),
    };
    let text = serde_json::to_string(&description).map_err(io::Error::from);
    match text.and_then(|text| writeln!(io::stdout(), "{text}")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn describe_cuda() -> Result<Cuda, CudaError> {
    let cuda = cuda::Cuda::open()?;
    let gpus = (0..cuda.count()?).take(MAX_GPUS).map(|index| {
        let gpu = cuda.gpu(index)?;
        Ok(CudaGpu {
            uuid: Uuid::of(gpu.uuid).to_string(),
            total_bytes: gpu.total,
            virtual_memory: gpu.has_virtual_memory,
            integrated: gpu.is_integrated,
        })
    });
    Ok(Cuda {
        version: cuda.version()?,
        gpus: gpus.collect::<Result<_, CudaError>>()?,
    })
}

/// The file of CUDA's library in this process, without links.
fn loaded() -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let mut files = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    let is_cuda = |file: &&str| {
        let name = Path::new(file).file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with("libcuda.so"))
    };
    files.find(is_cuda).map(str::to_owned)
}

fn describe_nvml() -> Result<Nvml, NvmlError> {
    let nvml = Library::builder().lib_path(OsStr::new(LIBRARY)).init()?;
    let gpus = (0..nvml.device_count()?).take(MAX_GPUS);
    // One that is lost hides no other.
    let gpus = gpus.filter_map(|index| describe_gpu(&nvml.device_by_index(index).ok()?).ok());
    Ok(Nvml {
        gpus: gpus.collect(),
        driver: nvml.sys_driver_version()?,
    })
}

fn describe_gpu(device: &Device<'_>) -> Result<NvmlGpu, NvmlError> {
    use GpuVirtualizationMode::{Bare, HostVgpu, HostVsga, PassThrough, Vgpu};
    Ok(NvmlGpu {
        uuid: device.uuid()?,
        name: device.name()?,
        is_divided: optional(device.mig_mode())?.is_some_and(|mode| mode.current != 0),
        virtualization: match optional(device.virtualization_mode())? {
            None | Some(Bare | PassThrough) => Virtualization::None,
            Some(Vgpu) => Virtualization::Share,
            Some(HostVgpu | HostVsga) => Virtualization::Host,
        },
    })
}
