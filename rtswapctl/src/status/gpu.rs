//! One GPU.

use rtswap_dbus::GpuProperties;
use rtswap_taskset::calibration::rfc3339;
use serde::Serialize;

use crate::table::{bytes, ms, percent, seconds, wrapped};

#[derive(Debug, Serialize)]
pub(super) struct Gpu {
    pub(super) index: u32,
    pub(super) uuid: String,
    name: String,
    nvml: bool,
    memory_bytes: u64,
    device_used_bytes: u64,
    unmanaged_bytes: u64,
    device_utilization_percent: Option<u32>,
    capacity_bytes: u64,
    used_bytes: u64,
    chunk_bytes: u64,
    /// `configured`, `calibrated` or `assumed`.
    swap_cost_source: String,
    /// None where no calibration counts.
    calibrated_us: Option<u64>,
    duplex: f64,
    chunk_out_us: u64,
    chunk_in_us: u64,
    swap_out_base_us: u64,
    swap_in_base_us: u64,
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
            swap_cost_source: gpu.swap_cost_source.clone(),
            calibrated_us: Some(gpu.calibrated_usec).filter(|at| *at > 0),
            duplex: f64::from(gpu.duplex_ppm) / 1e6,
            chunk_out_us: gpu.chunk_out_usec,
            chunk_in_us: gpu.chunk_in_usec,
            swap_out_base_us: gpu.swap_out_base_usec,
            swap_in_base_us: gpu.swap_in_base_usec,
            running: name_of(gpu.running_task.as_str()),
            utilization: gpu.utilization,
            blocking_us: gpu.blocking_usec,
            longest_wait_us: Some(gpu.longest_wait_usec).filter(|bound| *bound > 0),
            notes: gpu.notes.clone(),
        }
    }

    /// On what its promises rest, in words.
    fn cost_source(&self) -> String {
        let date = self.calibrated_us.map_or_else(String::new, |at| {
            let mut date = rfc3339(at / 1_000_000);
            date.truncate("2026-11-27".len());
            date
        });
        match self.swap_cost_source.as_str() {
            "calibrated" => format!("calibrated {date}"),
            "configured" if date.is_empty() => "by the configuration".to_owned(),
            "configured" => format!("by the configuration, the rest calibrated {date}"),
            _ => "assumed, of an RTX 3090 on PCIe 3.0: rtswapctl calibrate measures this machine's"
                .to_owned(),
        }
    }

    /// Its name, what the driver says and what rtswap makes of it, for a terminal of so many columns.
    pub(super) fn write(&self, text: &mut String, width: Option<usize>) {
        let mut line = |indent: usize, line: &str| text.push_str(&wrapped(line, indent, width));
        let name = if self.name.is_empty() {
            String::new()
        } else {
            format!("{}  ", self.name)
        };
        line(4, &format!("GPU {}  {name}{}", self.index, self.uuid));
        let unmanaged = bytes(self.unmanaged_bytes);
        let said = match self.device_utilization_percent {
            Some(percent) => format!(", {unmanaged} unmanaged, {percent} % busy"),
            None if self.nvml => format!(", {unmanaged} unmanaged"),
            None => " by the agents' account (no NVML)".to_owned(),
        };
        let (used, memory) = (bytes(self.device_used_bytes), bytes(self.memory_bytes));
        line(12, &format!("  memory    {used} of {memory} used{said}"));
        line(
            12,
            &format!(
                "  capacity  {}, {} held, chunks of {}, planned utilization {}, running: {}",
                bytes(self.capacity_bytes),
                bytes(self.used_bytes),
                bytes(self.chunk_bytes),
                percent(self.utilization),
                self.running.as_deref().unwrap_or("nobody"),
            ),
        );
        let costs = self.cost_source();
        line(
            12,
            &format!(
                "  costs     a chunk takes {} out, {} in; {costs}",
                ms(self.chunk_out_us),
                ms(self.chunk_in_us),
            ),
        );
        if let Some(bound) = self.longest_wait_us {
            let bound = seconds(bound);
            let turns = "a best-effort job waits at most";
            line(
                12,
                &format!("  turns     {turns} {bound}, not counting realtime jobs"),
            );
        }
        for note in &self.notes {
            line(12, &format!("  note      {note}"));
        }
    }
}
