//! The processes of which any witness tells.

use alloc::string::String;
use alloc::sync::Arc;

use rtswap_policy::units::{Bytes, Time};

use crate::ids::RegistrationId;
use crate::input::Kept;
use crate::ledger::Disagreement;

/// One process on one GPU, with what each witness tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStatus {
    /// The pid in the daemon's PID namespace.
    pub pid: u32,
    /// The user id; none once the process is gone.
    pub uid: Option<u32>,
    /// The short name; empty once the process is gone.
    pub comm: String,
    /// The index of the GPU; none for a session that uses no GPU, and for memory that the probes
    /// count on a GPU that is not known.
    pub gpu: Option<usize>,
    /// The container or the systemd unit; none where it is in neither.
    pub origin: Option<Arc<str>>,
    /// The bytes that NVML shows; none where NVML does not show the process or does not tell.
    pub nvml: Option<Bytes>,
    /// What the probes count; none where they have not seen the process.
    pub probed: Option<ProbedStatus>,
    /// The bytes that its agent reports; none without an agent on that GPU.
    pub agent: Option<Bytes>,
    /// The bytes that its agent keeps resident for others.
    pub kept: Kept,
    /// Its registration; none without a session.
    pub task: Option<RegistrationId>,
    /// Whether it has an agent; for a dead one, until the driver shows it no more.
    pub managed: bool,
    /// Whether its agent can be talked to.
    pub attached: bool,
    /// How the witnesses differ; none where they agree.
    pub disagreement: Option<Disagreement>,
}

/// What the probes count for a process on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbedStatus {
    /// The least number of bytes on the GPU.
    pub bytes: Bytes,
    /// The bytes of managed memory, which may lie on the GPU or in host memory.
    pub managed: Bytes,
    /// When the probes saw its first call, on the daemon's monotonic clock.
    pub first_seen: Time,
    /// What is known of the time before: `start`, `nvml` or `unknown`.
    pub baseline: &'static str,
    /// How far the counters can be trusted: `exact`, `estimated` or `at-least`.
    pub confidence: &'static str,
}
