//! The GPUs as people see them.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use rtswap_policy::units::{Bytes, Nanos, Ppm};

use crate::Uuid;
use crate::config::CostSource;
use crate::engine::{Engine, Gpu};
use crate::ids::RegistrationId;
use crate::sessions::Sessions;

/// One GPU with its plan in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuStatus {
    /// The UUID of the GPU or of the MIG instance.
    pub uuid: Uuid,
    /// What the driver tells of it.
    pub device: DeviceStatus,
    /// mᴰ, the bytes that rtswap may hand out.
    pub capacity: Bytes,
    /// The bytes that its tasks hold and have reserved.
    pub used: Bytes,
    /// δ in bytes.
    pub chunk: Bytes,
    /// The time of one chunk out and in, by the costs that the plan counts on.
    pub chunk_times: (Nanos, Nanos),
    /// What an operation out and in takes beside its chunks.
    pub bases: (Nanos, Nanos),
    /// What these costs rest on.
    pub cost_source: CostSource,
    /// When the GPU was calibrated, in seconds since 1970; none where it was not.
    pub measured: Option<u64>,
    /// The loaded rate of a copy engine, ρ.
    pub duplex: Ppm,
    /// The registration of the job that holds the GPU; none while no job does.
    pub running: Option<RegistrationId>,
    /// ΣU of the plan in effect, swaps included; 1 is the whole GPU.
    pub utilization: f64,
    /// B of all tasks of the plan in effect.
    pub blocking: Nanos,
    /// The bound on the wait of a best-effort job, the time of realtime jobs not counted; none if the policy
    /// has no bound.
    pub longest_wait: Option<Nanos>,
    /// What limits rtswap there, in words: a multi-process server, a vGPU, shared memory, swaps that depart from their
    /// costs.
    pub notes: Vec<String>,
}

/// What the driver tells of a GPU, or the configuration and the agents where NVML does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    /// The product name as the driver spells it; empty without NVML.
    pub name: Arc<str>,
    /// All memory in bytes.
    pub total: Bytes,
    /// The bytes that processes hold, with an agent or without.
    pub used: Bytes,
    /// The bytes that no task holds: of processes without an agent, and what agents do not count.
    pub unmanaged: Bytes,
    /// Per cent of the driver's last sample period in which kernels ran, 0 to 100; none where the
    /// driver does not tell.
    pub utilization: Option<u32>,
    /// Whether NVML speaks for this GPU.
    pub has_nvml: bool,
}

/// The note of a GPU on which NVML cannot tell processes apart.
const MPS: &str = "a multi-process server (MPS) runs: NVML cannot tell what each of its clients holds, so \
                   that agents are believed and only the sum of all others is known";

impl Engine {
    pub(super) fn gpu_status(&mut self, index: usize) -> GpuStatus {
        let gpu = &mut self.gpus[index];
        let analysis = gpu.analysis();
        // An empty sum of floats is −0.
        let (utilization, blocking) = (analysis.utilization + 0.0, analysis.blocking.total);
        let gpu = &self.gpus[index];
        let state = gpu.scheduler.state().gpu();
        let running = state.running.first().and_then(|task| self.tasks.get(*task));
        GpuStatus {
            uuid: gpu.uuid,
            device: device(gpu, index, &self.sessions),
            capacity: state.capacity,
            used: state.used,
            chunk: gpu.config.chunk,
            chunk_times: gpu.chunk_times(),
            bases: (gpu.config.swap_cost.out.base, gpu.config.swap_cost.in_.base),
            cost_source: gpu.cost_source(),
            measured: gpu.measured(),
            duplex: gpu.effective().duplex,
            running: running.map(|task| task.registration),
            utilization,
            blocking,
            longest_wait: gpu.scheduler.longest_wait(),
            notes: notes(gpu, self.awaits_calibration(gpu.uuid), self.host.is_short()),
        }
    }
}

pub(super) fn device(gpu: &Gpu, index: usize, sessions: &Sessions) -> DeviceStatus {
    let last = gpu.account.last();
    let reported = || {
        let sessions = sessions.iter();
        sessions.map(|(_, session)| session.reported(index)).sum()
    };
    DeviceStatus {
        name: last.map_or_else(Arc::default, |last| Arc::clone(&last.name)),
        total: gpu.account.memory(),
        used: last.map_or_else(reported, |last| last.used),
        unmanaged: gpu.account.others(),
        utilization: last.and_then(|last| last.utilization),
        has_nvml: last.is_some(),
    }
}

/// The note of a GPU with a calibration that cannot count yet.
const WAITS: &str = "a calibration waits until no program has a session and no task is on this GPU";

/// The note of all GPUs while the machine's memory is short.
const HOST: &str = "host memory is short, so idle best-effort tasks give back backing store that holds nothing, and no \
                    task gets more";

pub(super) fn notes(gpu: &Gpu, awaits_calibration: bool, is_host_short: bool) -> Vec<String> {
    let caveat = gpu.account.last().and_then(|last| last.caveat);
    let shared = gpu.account.is_shared().then(|| MPS.to_owned());
    let caveat = caveat.map(|caveat| caveat.to_string());
    let waits = awaits_calibration.then(|| WAITS.to_owned());
    let host = is_host_short.then(|| HOST.to_owned());
    let notes = caveat.into_iter().chain(shared).chain(waits).chain(host);
    notes.chain(gpu.pace.notes(gpu.cost_source())).collect()
}
