//! One sample of the eBPF probes: the bytes that each process asked the CUDA driver for.

use alloc::sync::Arc;
use alloc::vec::Vec;

use rtswap_policy::units::{Bytes, Time};

use super::gpu::Identity;
use crate::uuid::Uuid;

/// What the probes count of all processes at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeSample {
    /// Whether the probes count, and how completely.
    pub state: ProbeState,
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
