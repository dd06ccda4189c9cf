//! What the witnesses of memory show, as plain data that the daemon fills in: of the GPUs' a [`Sample`] of NVML,
//! and a [`ProbeSample`] of the eBPF probes on the CUDA driver; of the machine's a [`HostSample`].

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use rtswap_policy::units::{Bytes, Ppm, Time};

use crate::uuid::Uuid;

/// One sample of all GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When reading began, on the daemon's monotonic clock. A process that the sample does not show
    /// was gone when reading ended, but perhaps not yet at this instant.
    pub began: Time,
    /// The GPUs that could be read, in the driver's order, each once.
    pub gpus: Vec<GpuSample>,
    /// The GPUs that CUDA programs do not use as such, in the driver's order.
    pub left_alone: Vec<LeftAlone>,
    /// The GPUs that the CUDA driver names where NVML shows none; empty while it was not asked.
    pub named: Vec<NamedGpu>,
}

/// A GPU as the CUDA driver names it where there is no NVML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedGpu {
    /// The UUID of the GPU.
    pub uuid: Uuid,
    /// All memory in bytes.
    pub total: Bytes,
}

/// A GPU that the driver shows, but on which no task can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// The UUID of the GPU.
    pub uuid: Uuid,
    /// A sentence for the log: all names of the GPU, the reason, and what to do about it.
    pub why: String,
}

/// What a user should know of a GPU that rtswap manages. [`fmt::Display`] writes the sentence for
/// status and log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caveat {
    /// The GPU is a vGPU: this machine is virtual.
    Virtual,
    /// The GPU is a compute instance (MIG) that shares its memory with other compute instances.
    PartOfInstance,
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtual => {
                "a virtual GPU (vGPU): where its profile has no virtual memory management, agents \
                 leave it alone, and say so in each program"
            }
            Self::PartOfInstance => {
                "a compute instance that shares its GPU instance's memory with others: what they \
                 hold is taken from the capacity"
            }
        })
    }
}

/// One GPU, or one MIG instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSample {
    /// The UUID of the GPU or of the instance.
    pub uuid: Uuid,
    /// The product name, as the driver spells it.
    pub name: Arc<str>,
    /// All memory in bytes.
    pub total: Bytes,
    /// The bytes of `total` that the driver keeps for itself.
    pub reserved: Bytes,
    /// The bytes in use, without `reserved`. Processes may have changed between this value and
    /// `processes`: the driver reads them one after the other.
    pub used: Bytes,
    /// Per cent of the driver's last sample period in which kernels ran, 0 to 100; none where the
    /// GPU does not tell.
    pub utilization: Option<u32>,
    /// The GPU that a MIG instance is part of; none for a GPU.
    pub parent: Option<Uuid>,
    /// What sets this GPU apart from an ordinary one; none for an ordinary one.
    pub caveat: Option<Caveat>,
    /// The processes on the GPU by ascending pid, each once.
    pub processes: Vec<ProcessSample>,
}

impl GpuSample {
    /// The process with this pid; none where the sample does not show it.
    pub fn process(&self, pid: u32) -> Option<&ProcessSample> {
        let found = self.processes.binary_search_by_key(&pid, |it| it.pid);
        found.ok().map(|at| &self.processes[at])
    }
}

/// One process on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSample {
    /// The pid as NVML numbers it, which may be that of another PID namespace.
    pub pid: u32,
    /// The bytes that the process holds on the GPU; none where the driver does not tell.
    pub bytes: Option<Bytes>,
    /// What tells the process from others with the same pid; none once it is gone.
    pub identity: Option<Identity>,
}

/// What /proc tells of a process. `start_ticks` and the pid together name one process until the
/// next boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user id that the process runs as.
    pub uid: u32,
    /// The short name of the process, cut to what may name a task; `process` where nothing is left.
    pub comm: String,
    /// The container or the systemd unit, such as `docker 3f2a1b4c5d6e` or `nginx.service`; none in
    /// a user's session.
    pub origin: Option<Arc<str>>,
    /// When the process started, in clock ticks since boot.
    pub start_ticks: u64,
}

/// The memory of the machine at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSample {
    /// When the look began: it shows all that was pinned before.
    pub looked: Time,
    /// All memory in bytes.
    pub total: Bytes,
    /// The bytes that programs can have without swapping to disk, as the kernel estimates them.
    pub available: Bytes,
    /// The part of the time since the sample before in which some process waited for memory (pressure stall
    /// information, `some`); zero where the kernel does not tell.
    pub stalled: Ppm,
    /// The cgroups that processes with a session are in, and those around them.
    pub cgroups: Vec<CgroupSample>,
}

/// The memory of one cgroup at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupSample {
    /// Its folder in the file system of cgroups: its name.
    pub path: Arc<str>,
    /// The most bytes that the processes in it and below may have together; `Bytes::MAX` where there is no limit.
    pub limit: Bytes,
    /// The bytes that they can have more: what the limit leaves, and what files they have read keep in memory.
    pub available: Bytes,
}

/// What the probes count of all processes at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeSample {
    /// Whether the probes count, and how completely.
    pub state: ProbeState,
    /// Every process that called the driver before this time is in `processes`.
    pub complete_at: Time,
    /// The processes of the daemon's PID namespace by ascending pid, each once.
    pub processes: Vec<ProbedProcess>,
}

/// Whether the probes count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProbeState {
    /// The configuration turns the probes off.
    #[default]
    Off,
    /// The probes count.
    On {
        /// The number of driver libraries that have probes.
        libraries: u32,
        /// The number of records that found no room in the ring. No byte is lost with them: the
        /// counters are kept apart.
        lost_news: u64,
        /// The number of calls that could not be counted.
        lost_calls: u64,
    },
    /// The probes cannot be attached. The text says what is missing and what to do.
    Missing(Arc<str>),
}

/// One process that called the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedProcess {
    /// The pid in the daemon's PID namespace.
    pub pid: u32,
    /// What tells the process from others with the same pid; none once it is gone.
    pub identity: Option<Identity>,
    /// When the probes saw its first call, on the daemon's monotonic clock.
    pub first_seen: Time,
    /// Whether the process may have called the driver before the probes were attached.
    pub early: bool,
    /// Whether every call since `first_seen` was followed to its return: the counters are then
    /// complete.
    pub exact: bool,
    /// Whether all drivers that it is known to have called are root's. Others may have bytes counted that there
    /// are not.
    pub trusted: bool,
    /// The counters by GPU, each GPU once. Those of no known GPU come first.
    pub held: Vec<Held>,
}

/// The bytes that a process holds on one GPU by the calls that the probes saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The GPU's UUID; none where the process made its context before the probes were attached, or
    /// never asked the driver for the UUID.
    pub gpu: Option<Uuid>,
    /// The least number of bytes on the GPU: frees that the probes missed count as done.
    pub bytes: Bytes,
    /// The bytes of managed memory, which may lie on the GPU or in host memory.
    pub managed: Bytes,
}
