//! How GPUs become known: from the configuration, from NVML or, where there is none, from the CUDA
//! driver, at the start or later. Then the registrations that waited for them are placed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::units::Bytes;

use super::Gpu;
use crate::Uuid;
use crate::config::{GpuConfig, MAX_GPUS};
use crate::engine::Engine;
use crate::output::{Level, LogLine};
use crate::sample::{GpuSample, LeftAlone, NamedGpu, Sample};

impl Engine {
    /// Takes in the GPUs of the configuration, or all that NVML shows where it has none. Where NVML shows
    /// none, those that the CUDA driver names stand for them.
    pub(in crate::engine) fn add_first_gpus(&mut self, first: Sample) {
        self.expect_sample();
        self.leave_alone(first.left_alone);
        let mut shown = first.gpus;
        self.nvml.speaks |= !shown.is_empty();
        let named = if self.nvml.speaks {
            Vec::new()
        } else {
            first.named
        };
        let mut gpus = self.config.gpus.clone();
        if gpus.is_empty() {
            gpus.extend(shown.iter().map(|gpu| GpuConfig::learned(gpu.uuid)));
            gpus.extend(named.iter().map(|gpu| GpuConfig::learned(gpu.uuid)));
            gpus.truncate(MAX_GPUS);
        }
        for gpu in gpus {
            let uuid = gpu.uuid;
            let total = named.iter().find(|named| named.uuid == uuid);
            let gpu = total.map_or(gpu, |named| gpu.completed(named.total, Bytes::ZERO));
            match shown.iter().position(|shown| shown.uuid == uuid) {
                Some(at) => {
                    let shown = shown.swap_remove(at);
                    if gpu.memory() > shown.total {
                        let text = format!(
                            "{uuid} has {} of memory, less than the {} that its file says: that \
                             counts",
                            shown.total,
                            gpu.memory()
                        );
                        self.log(LogLine::new(Level::Warn, text));
                    }
                    let gpu = gpu.completed(shown.total, shown.reserved);
                    self.add_gpu(&gpu, Some(shown));
                }
                None if self.is_left_alone(uuid) => {}
                None if gpu.memory() > Bytes::ZERO => self.add_gpu(&gpu, None),
                None => {
                    let text = format!(
                        "the memory of {uuid} is not known: no file says it, and neither NVML nor \
                         the CUDA driver shows the GPU; it waits for one of them"
                    );
                    self.log(LogLine::new(Level::Warn, text));
                }
            }
        }
        self.place_registered();
    }

    /// Takes in a GPU that the CUDA driver names after the start. NVML and files go before.
    pub(in crate::engine) fn add_named(&mut self, named: NamedGpu) {
        let NamedGpu { uuid, total } = named;
        let is_known = self.gpus.iter().any(|gpu| gpu.uuid == uuid);
        if is_known || self.is_left_alone(uuid) || self.gpus.len() == MAX_GPUS {
            return;
        }
        let gpu = match self.described(uuid) {
            Some(gpu) => gpu,
            None if self.config.gpus.is_empty() && !self.nvml.speaks => GpuConfig::learned(uuid),
            None => return,
        };
        self.add_gpu(&gpu.completed(total, Bytes::ZERO), None);
        self.place_registered();
    }

    /// Takes in a GPU that NVML did not show at the start: its driver was loaded since.
    pub(in crate::engine) fn add_late(&mut self, shown: GpuSample) {
        self.nvml.speaks = true;
        let gpu = match self.described(shown.uuid) {
            Some(gpu) => gpu,
            None if self.config.gpus.is_empty() => GpuConfig::learned(shown.uuid),
            None => return,
        };
        let gpu = gpu.completed(shown.total, shown.reserved);
        if self.gpus.len() < MAX_GPUS && gpu.complaint().is_none() {
            self.add_gpu(&gpu, Some(shown));
            self.place_registered();
        }
    }

    /// Takes a GPU in, with what NVML shows of it now and what is remembered of it.
    pub(in crate::engine) fn add_gpu(&mut self, gpu: &GpuConfig, shown: Option<GpuSample>) {
        let uuid = gpu.uuid;
        if let Some(complaint) = gpu.complaint() {
            let text = format!("{uuid} cannot be managed: {complaint}");
            self.log(LogLine::new(Level::Error, text));
            return;
        }
        let index = self.gpus.len();
        let calibration = self.calibration_of(gpu);
        self.gpus.push(Gpu::new(*gpu, calibration, &self.config));
        self.note_change();
        for release in self.recovery.take_releases(uuid) {
            let scheduler = &mut self.gpus[index].scheduler;
            scheduler.remember(release.task, release.at);
        }
        let name = shown.as_ref().map(|shown| format!(" ({})", shown.name));
        let text = format!(
            "GPU {index} is {uuid}{}: {} to hand out, in chunks of {}",
            name.unwrap_or_default(),
            gpu.capacity(),
            self.gpus[index].config.chunk
        );
        self.log(LogLine::new(Level::Info, text).gpu(index));
        if let Some(shown) = shown {
            self.reconcile(index, shown);
        }
    }

    /// Says which GPUs are no place for tasks, and why, where that is news.
    pub(in crate::engine) fn leave_alone(&mut self, left_alone: Vec<LeftAlone>) {
        self.nvml.speaks |= !left_alone.is_empty();
        if left_alone == self.nvml.left_alone {
            return;
        }
        let before = core::mem::replace(&mut self.nvml.left_alone, left_alone);
        let news = self.nvml.left_alone.iter();
        let news = news.filter(|gpu| !before.contains(gpu));
        let news: Vec<_> = news
            .map(|gpu| format!("a GPU is left alone: {}", gpu.why))
            .collect();
        for text in news {
            self.log(LogLine::new(Level::Warn, text));
        }
        self.note_change();
    }

    /// A sentence for each GPU that is left alone.
    pub(crate) fn left_alone(&self) -> Vec<String> {
        let gpus = self.nvml.left_alone.iter();
        gpus.map(|gpu| gpu.why.clone()).collect()
    }

    fn is_left_alone(&self, uuid: Uuid) -> bool {
        self.nvml.left_alone.iter().any(|gpu| gpu.uuid == uuid)
    }

    /// What a file says of a GPU.
    fn described(&self, uuid: Uuid) -> Option<GpuConfig> {
        let mut gpus = self.config.gpus.iter();
        gpus.find(|gpu| gpu.uuid == uuid).copied()
    }
}
