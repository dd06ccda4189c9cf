//! NVML, by its library.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use rtswap_policy::units::Bytes;

use super::identities::Identities;
use super::{GpuSample, ProcessSample, Reader};
use crate::config::Uuid;

/// The name under which drivers install it; without the number it comes with development files only.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// How long until a library that is not there, or does not work, is opened again: a driver may be
/// loaded, or replaced, under a running daemon.
const RETRY: Duration = Duration::from_secs(5);

/// The driver, by its library where that is there.
pub fn open() -> impl Reader {
    Driver::default()
}

#[derive(Default)]
struct Driver {
    nvml: Option<Nvml>,
    /// When it was opened last, or was tried to be.
    opened: Option<Instant>,
    identities: Identities,
    /// What does not work, by GPU and for all of them: said once.
    said: BTreeMap<Option<u32>, String>,
}

impl Reader for Driver {
    fn read(&mut self) -> Vec<GpuSample> {
        if self.nvml.is_none() && self.opened.is_none_or(|at| at.elapsed() >= RETRY) {
            self.open();
        }
        let Some(nvml) = self.nvml.take() else {
            return Vec::new();
        };
        let count = match nvml.device_count() {
            Ok(count) => count,
            Err(error) => {
                // A library outlives its driver, but never works again.
                if self.is_news(None, &error) {
                    tracing::warn!("{LIBRARY} works no more: {error}; opening it again");
                }
                self.opened = Some(Instant::now());
                return Vec::new();
            }
        };
        self.identities.begin();
        let mut gpus = Vec::new();
        for index in 0..count {
            match read_gpu(&nvml, index, &mut self.identities) {
                Ok(gpu) => {
                    if self.said.remove(&Some(index)).is_some() {
                        tracing::info!(index, "NVML reads the GPU again");
                    }
                    gpus.extend(gpu);
                }
                Err(error) => {
                    if self.is_news(Some(index), &error) {
                        tracing::warn!(index, "NVML cannot read a GPU: {error}");
                    }
                }
            }
        }
        self.nvml = Some(nvml);
        gpus
    }
}

impl Driver {
    fn open(&mut self) {
        self.opened = Some(Instant::now());
        match Nvml::builder().lib_path(OsStr::new(LIBRARY)).init() {
            Ok(nvml) => {
                if !self.said.is_empty() {
                    tracing::info!("{LIBRARY} works");
                }
                self.said.clear();
                self.nvml = Some(nvml);
            }
            Err(error) if !self.is_news(None, &error) => {}
            Err(NvmlError::LibloadingError(error)) => tracing::info!(
                "without NVML: {error}; memory is known from the configuration and from agents only"
            ),
            Err(error) => tracing::warn!(
                "{LIBRARY} does not work: {error}; memory is known from the configuration and from \
                 agents only until it does"
            ),
        }
    }

    /// Whether this was not said of a GPU, or of them all, last.
    fn is_news(&mut self, of: Option<u32>, error: &NvmlError) -> bool {
        let text = error.to_string();
        let news = self.said.get(&of) != Some(&text);
        self.said.insert(of, text);
        news
    }
}

/// None for a GPU that CUDA programs do not see as such.
fn read_gpu(
    nvml: &Nvml,
    index: u32,
    identities: &mut Identities,
) -> Result<Option<GpuSample>, NvmlError> {
    let device = nvml.device_by_index(index)?;
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
    let processes = processes(&device, identities)?;
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

fn processes(
    device: &Device<'_>,
    identities: &mut Identities,
) -> Result<Vec<ProcessSample>, NvmlError> {
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
        identity: identities.of(pid),
    };
    Ok(found.into_iter().map(sample).collect())
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
