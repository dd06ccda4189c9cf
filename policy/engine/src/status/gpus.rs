//! The GPUs as people see them.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rtswap_policy::units::{Bytes, Nanos};

use crate::Uuid;
use crate::ids::RegistrationId;

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
    /// The registration of the job that holds the GPU; none while no job does.
    pub running: Option<RegistrationId>,
    /// ΣU of the plan in effect, swaps included; 1 is the whole GPU.
    pub utilization: f64,
    /// B of all tasks of the plan in effect.
    pub blocking: Nanos,
    /// What limits rtswap there, in words: a multi-process server, a vGPU, shared memory.
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
