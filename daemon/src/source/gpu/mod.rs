//! What the driver says of the GPUs: `nvml` reads it, `poller` reads it again and again on a thread
//! of its own, because a call to NVML may take as long as the driver likes.

mod identities;
mod nvml;
mod poller;

pub use nvml::open;
pub use poller::{Poller, spawn};

use std::sync::Arc;

use rtswap_policy::units::{Bytes, Time};

use crate::config::Uuid;
use crate::origin;
use crate::sys::peer;

/// One look at all GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it began: what it does not show was gone by its end, and perhaps not yet then.
    pub began: Time,
    /// In the driver's order. A GPU that could not be read is missing.
    pub gpus: Vec<GpuSample>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSample {
    /// Which.
    pub uuid: Uuid,
    /// As the driver calls it.
    pub name: Arc<str>,
    /// All memory.
    pub total: Bytes,
    /// What of it the driver keeps for itself.
    pub reserved: Bytes,
    /// What processes hold; without `reserved`.
    pub used: Bytes,
    /// Percent of the last sample period in which kernels ran; none where the GPU does not tell.
    pub utilization: Option<u32>,
    /// In the order of their pids, each once.
    pub processes: Vec<ProcessSample>,
}

/// One process on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSample {
    /// As NVML numbers it.
    pub pid: u32,
    /// What it holds; none where the driver does not tell.
    pub bytes: Option<Bytes>,
    /// Who it is; none once it is gone.
    pub identity: Option<Identity>,
}

/// Who a process is, by /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its user.
    pub uid: u32,
    /// Its short name.
    pub comm: String,
    /// Its container or its unit, as [`crate::origin::parse`] has it.
    pub origin: Option<Arc<str>>,
    /// As [`crate::sys::peer::start_ticks`].
    pub start_ticks: u64,
}

impl Identity {
    /// Who process `pid` is. Its start comes last: whoever took its number meanwhile started later.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self {
            uid: peer::owner(pid)?,
            comm: peer::comm(pid),
            origin: origin::of_process(pid).map(Arc::from),
            start_ticks: peer::start_ticks(pid)?,
        })
    }
}

/// Reads all GPUs once. It may take its time.
pub trait Reader: Send + 'static {
    /// In the driver's order, those that can be read.
    fn read(&mut self) -> Vec<GpuSample>;
}
