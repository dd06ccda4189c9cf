//! NVML, by its library.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvml_wrapper::enum_wrappers::device::GpuVirtualizationMode;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::MemoryInfo;
use nvml_wrapper::{Device, Nvml};
use rtswap_policy::units::Bytes;

use super::driver::Asker;
use super::identities::Identities;
use super::{begin, mig};
use rtswap_engine::Uuid;
use rtswap_engine::sample::{Caveat, GpuSample, LeftAlone, ProcessSample, Sample};

/// The name under which drivers install it; without the number it comes with development files only.
pub(super) const LIBRARY: &str = "libnvidia-ml.so.1";

/// How long until a library that is missing or does not work is opened again: a driver may be loaded,
/// or replaced, under a running daemon. It must be opened again after a failure: a loaded library
/// outlives the driver it came with, and never works again once that driver is gone.
const RETRY: Duration = Duration::from_secs(5);

/// What reads all GPUs that can be read, by the driver's library where that is there, and may take its
/// time. Of MIG instances it reads those that are `configured`. Where
/// NVML shows no GPU and files leave some open, it asks the CUDA driver.
pub fn open(configured: Vec<Uuid>, is_open: bool) -> impl FnMut() -> Sample + Send + 'static {
    let mut driver = Driver {
        configured,
        ..Driver::default()
    };
    move || {
        let mut sample = driver.read();
        driver.spoke |= !sample.gpus.is_empty() || !sample.left_alone.is_empty();
        if is_open && !driver.spoke {
            sample.named = driver.asker.ask();
        }
        sample
    }
}

#[derive(Default)]
struct Driver {
    nvml: Option<Nvml>,
    configured: Vec<Uuid>,
    /// The time of the last attempt to open the library.
    opened: Option<Instant>,
    identities: Identities,
    /// NVML has shown a GPU.
    spoke: bool,
    asker: Asker,
    /// The last error, by GPU and for all of them, so that each is logged once.
    said: BTreeMap<Of, String>,
}

/// What a complaint is about: all of NVML, or a GPU by index and perhaps an instance of it.
type Of = Option<(u32, Option<Uuid>)>;

impl Driver {
    fn read(&mut self) -> Sample {
        let mut sample = begin();
        if self.nvml.is_none() && self.opened.is_none_or(|at| at.elapsed() >= RETRY) {
            self.open();
        }
        let Some(nvml) = self.nvml.take() else {
            return sample;
        };
        let count = match nvml.device_count() {
            Ok(count) => count,
            Err(error) => {
                // A library outlives its driver, but never works again.
                if self.is_news(None, &error) {
                    tracing::warn!("{LIBRARY} works no more: {error}; opening it again");
                }
                self.opened = Some(Instant::now());
                return sample;
            }
        };
        self.identities.begin();
        for index in 0..count {
            let read = self.read_gpu(&nvml, index, &mut sample);
            self.note((index, None), read);
        }
        self.nvml = Some(nvml);
        sample
    }

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
                "without NVML: {error}; GPUs are known from the configuration and from the CUDA driver only"
            ),
            Err(error) => tracing::warn!(
                "{LIBRARY} does not work: {error}; GPUs are known from the configuration and from the \
                 CUDA driver only until it does"
            ),
        }
    }

    /// Adds one GPU, or its instances, to the sample.
    fn read_gpu(&mut self, nvml: &Nvml, index: u32, sample: &mut Sample) -> Result<(), NvmlError> {
        let device = nvml.device_by_index(index)?;
        let Ok(uuid) = device.uuid()?.parse::<Uuid>() else {
            return Ok(());
        };
        // Programs see its instances instead, and their processes are not the GPU's.
        if optional(device.mig_mode())?.is_some_and(|mode| mode.current != 0) {
            let found = mig::find(&device, &self.configured)?;
            for (own, instance) in found.configured {
                let memory = instance.memory_info();
                let read =
                    memory.and_then(|now| read_device(&instance, own, &now, &mut self.identities));
                let read = read.map(|gpu| {
                    sample.gpus.push(GpuSample {
                        parent: Some(uuid),
                        caveat: mig::caveat(&gpu.name),
                        ..gpu
                    });
                });
                self.note((index, Some(own)), read);
            }
            if let Some(why) = found.unconfigured {
                sample.left_alone.push(left_alone(&device, uuid, &why)?);
            }
            return Ok(());
        }
        let mode = optional(device.virtualization_mode())?;
        if let Some(GpuVirtualizationMode::HostVgpu | GpuVirtualizationMode::HostVsga) = mode {
            let why = "belongs to virtual machines (vGPU host): run rtswapd in them";
            sample.left_alone.push(left_alone(&device, uuid, why)?);
            return Ok(());
        }
        let memory = match device.memory_info() {
            // So it is of GB10: what NVML means is memory of the GPU's own.
            Err(NvmlError::NotSupported) => {
                let why = "has no memory of its own, by NVML: an integrated GPU shares the host's, so \
                           that swapping to the host would free nothing";
                sample.left_alone.push(left_alone(&device, uuid, why)?);
                return Ok(());
            }
            read => read?,
        };
        let gpu = read_device(&device, uuid, &memory, &mut self.identities)?;
        let caveat = (mode == Some(GpuVirtualizationMode::Vgpu)).then_some(Caveat::Virtual);
        sample.gpus.push(GpuSample { caveat, ..gpu });
        Ok(())
    }

    /// Logs once that a GPU cannot be read, and once that it can be read again.
    fn note(&mut self, of: (u32, Option<Uuid>), read: Result<(), NvmlError>) {
        let (index, instance) = of;
        let instance = instance.map(tracing::field::display);
        match read {
            Ok(()) => {
                if self.said.remove(&Some(of)).is_some() {
                    tracing::info!(index, instance, "NVML reads the GPU again");
                }
            }
            Err(error) => {
                if self.is_news(Some(of), &error) {
                    tracing::warn!(index, instance, "NVML cannot read a GPU: {error}");
                }
            }
        }
    }

    /// Records an error. True if it is not the last one that was logged of this GPU, or of all.
    fn is_news(&mut self, of: Of, error: &NvmlError) -> bool {
        let text = error.to_string();
        let news = self.said.get(&of) != Some(&text);
        self.said.insert(of, text);
        news
    }
}

fn left_alone(device: &Device<'_>, uuid: Uuid, why: &str) -> Result<LeftAlone, NvmlError> {
    let why = format!("{uuid} ({}) {why}", device.name()?);
    Ok(LeftAlone { uuid, why })
}

/// What there is to say of a GPU or an instance, after a first look at its memory.
fn read_device(
    device: &Device<'_>,
    uuid: Uuid,
    before: &MemoryInfo,
    identities: &mut Identities,
) -> Result<GpuSample, NvmlError> {
    let name = Arc::from(device.name()?);
    // The processes are read between two readings of the memory: only bytes that both readings show beyond
    // the processes' are counted as no process's.
    let processes = processes(device, identities)?;
    let after = device.memory_info()?;
    // NVML has no such figure where GPUs are divided.
    let utilization = if uuid.is_instance() {
        None
    } else {
        optional(device.utilization_rates())?.map(|rates| rates.gpu)
    };
    Ok(GpuSample {
        uuid,
        name,
        total: Bytes(after.total),
        reserved: Bytes(after.reserved),
        used: Bytes(before.used.min(after.used)),
        utilization,
        parent: None,
        caveat: None,
        processes,
    })
}

fn processes(
    device: &Device<'_>,
    identities: &mut Identities,
) -> Result<Vec<ProcessSample>, NvmlError> {
    let mut found: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    let graphics = optional(device.running_graphics_processes())?.unwrap_or_default();
    let computing = device.running_compute_processes()?;
    for process in computing.into_iter().chain(graphics) {
        let bytes = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        // A process that both computes and draws is in both lists, each time with all its bytes.
        let known = found.entry(process.pid).or_default();
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
pub(super) fn optional<T>(result: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
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
