//! One GPU.

use std::fmt::Write as _;

use rtswap_dbus::GpuProperties;
use serde::Serialize;

use crate::table::{bytes, seconds};

#[derive(Debug, Serialize)]
pub(super) struct Gpu {
    index: u32,
    uuid: String,
    name: String,
    nvml: bool,
    memory_bytes: u64,
    device_used_bytes: u64,
    unmanaged_bytes: u64,
    device_utilization_percent: Option<u32>,
    capacity_bytes: u64,
    used_bytes: u64,
    chunk_bytes: u64,
    running: Option<String>,
    utilization: f64,
    blocking_us: u64,
    /// None where the daemon's policy has no bound.
    longest_wait_us: Option<u64>,
    notes: Vec<String>,
}

impl Gpu {
    /// `name_of` knows the task of a path.
    pub(super) fn new(gpu: &GpuProperties, name_of: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            name: gpu.name.clone(),
            nvml: gpu.has_nvml,
            memory_bytes: gpu.memory_bytes,
            device_used_bytes: gpu.device_used_bytes,
            unmanaged_bytes: gpu.unmanaged_bytes,
            device_utilization_percent: gpu
                .has_utilization
                .then_some(gpu.device_utilization_percent),
            capacity_bytes: gpu.capacity_bytes,
            used_bytes: gpu.used_bytes,
            chunk_bytes: gpu.chunk_bytes,
            running: name_of(gpu.running_task.as_str()),
            utilization: gpu.utilization,
            blocking_us: gpu.blocking_usec,
            longest_wait_us: Some(gpu.longest_wait_usec).filter(|bound| *bound > 0),
            notes: gpu.notes.clone(),
        }
    }

    /// Who it is, what the driver says, what rtswap makes of it.
    pub(super) fn write(&self, text: &mut String) {
        let name = if self.name.is_empty() {
            String::new()
        } else {
            format!("{}  ", self.name)
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "GPU {}  {name}{}", self.index, self.uuid);
        let _ = write!(
            text,
            "  memory    {} of {} used",
            bytes(self.device_used_bytes),
            bytes(self.memory_bytes)
        );
        let unmanaged = bytes(self.unmanaged_bytes);
        let _ = match self.device_utilization_percent {
            Some(percent) => writeln!(text, ", {unmanaged} unmanaged, {percent} % busy"),
            None if self.nvml => writeln!(text, ", {unmanaged} unmanaged"),
            None => writeln!(text, " by the agents' account (no NVML)"),
        };
        let _ = writeln!(
            text,
            "  capacity  {}, {} held, chunks of {}, planned utilization {:.0} %, running: {}",
            bytes(self.capacity_bytes),
            bytes(self.used_bytes),
            bytes(self.chunk_bytes),
            self.utilization * 100.0,
            self.running.as_deref().unwrap_or("nobody"),
        );
        if let Some(bound) = self.longest_wait_us {
            let bound = seconds(bound);
            let _ = writeln!(
                text,
                "  turns     a best-effort job waits at most {bound}, not counting realtime jobs"
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "  note      {note}");
        }
    }
}
