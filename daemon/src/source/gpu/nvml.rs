//! NVML, by its library.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use rtswap_policy::units::Bytes;

use super::{GpuSample, Identity, ProcessSample, Reader};
use crate::config::Uuid;
use crate::quota::Quota;
use crate::sys::clock::now;
use crate::sys::peer;

/// The name under which drivers install it; without the number it comes with development files only.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Opens the driver's library. None, and a line in the log, where there is none or it does not work.
pub fn open() -> Option<impl Reader> {
    match Nvml::builder().lib_path(OsStr::new(LIBRARY)).init() {
        Ok(nvml) => Some(Driver {
            nvml,
            complaints: Quota::default(),
        }),
        Err(NvmlError::LibloadingError(error)) => {
            tracing::info!(
                "without NVML: {error}; memory is known from the configuration and from agents only"
            );
            None
        }
        Err(error) => {
            tracing::warn!(
                "{LIBRARY} does not work: {error}; memory is known from the configuration and from \
                 agents only"
            );
            None
        }
    }
}

struct Driver {
    nvml: Nvml,
    complaints: Quota,
}

impl Reader for Driver {
    fn read(&mut self) -> Vec<GpuSample> {
        let count = match self.nvml.device_count() {
            Ok(count) => count,
            Err(error) => {
                if self.complaints.allows(now()) {
                    tracing::warn!("NVML does not tell how many GPUs there are: {error}");
                }
                return Vec::new();
            }
        };
        (0..count)
            .filter_map(|index| match self.read_gpu(index) {
                Ok(gpu) => gpu,
                Err(error) => {
                    if self.complaints.allows(now()) {
                        tracing::warn!(index, "NVML cannot read a GPU: {error}");
                    }
                    None
                }
            })
            .collect()
    }
}

impl Driver {
    /// None for a GPU that CUDA programs do not see as such.
    fn read_gpu(&self, index: u32) -> Result<Option<GpuSample>, NvmlError> {
        let device = self.nvml.device_by_index(index)?;
        let Ok(uuid) = device.uuid()?.parse::<Uuid>() else {
            return Ok(None);
        };
        // Programs see its instances instead, and their processes are not the GPU's.
        if optional(device.mig_mode())?.is_some_and(|mode| mode.current != 0) {
            return Ok(None);
        }
        let name = Arc::from(device.name()?);
        // The processes between two looks at the memory: only what neither shows otherwise is
        // nobody's.
        let before = device.memory_info()?;
        let processes = processes(&device)?;
        let after = device.memory_info()?;
        let utilization = optional(device.utilization_rates())?.map(|rates| rates.gpu);
        Ok(Some(GpuSample {
            uuid,
            name,
            total: Bytes(after.total),
            reserved: Bytes(after.reserved),
            used: Bytes(before.used.min(after.used)),
            utilization,
            processes,
        }))
    }
}

fn processes(device: &Device<'_>) -> Result<Vec<ProcessSample>, NvmlError> {
    let mut found: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    let graphics = optional(device.running_graphics_processes())?.unwrap_or_default();
    for ProcessInfo {
        pid,
        used_gpu_memory,
        ..
    } in device
        .running_compute_processes()?
        .into_iter()
        .chain(graphics)
    {
        let bytes = match used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        // Who computes and draws is in both lists, with all that it holds.
        let known = found.entry(pid).or_default();
        *known = bytes.max(*known);
    }
    let sample = |(pid, bytes): (u32, Option<u64>)| ProcessSample {
        pid,
        bytes: bytes.map(Bytes),
        identity: identity(pid),
    };
    Ok(found.into_iter().map(sample).collect())
}

/// Who process `pid` is. Its start comes last: whoever took its number meanwhile started later.
fn identity(pid: u32) -> Option<Identity> {
    Some(Identity {
        uid: peer::owner(pid)?,
        comm: peer::comm(pid),
        start_ticks: peer::start_ticks(pid)?,
    })
}

/// None for what this GPU or this driver does not have.
fn optional<T>(result: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(
            NvmlError::NotSupported
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::FunctionNotFound
            | NvmlError::NoPermission,
        ) => Ok(None),
        Err(error) => Err(error),
    }
}
