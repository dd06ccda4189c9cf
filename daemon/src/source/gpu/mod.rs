//! What the driver says of the GPUs: `nvml` reads it, `mig` what is special about MIG instances,
//! `poller` reads it again and again on a thread of its own, because a call to NVML may take as long
//! as the driver likes.

mod identities;
mod mig;
mod nvml;
mod poller;

pub use nvml::open;
pub use poller::{Poller, spawn};

use std::fmt;
use std::sync::Arc;

use rtswap_policy::units::{Bytes, Time};

use crate::config::Uuid;
use crate::origin;
use crate::sys::clock::now;
use crate::sys::peer;

/// One look at all GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it began: what it does not show was gone by its end, and perhaps not yet then.
    pub began: Time,
    /// In the driver's order. A GPU that could not be read is missing.
    pub gpus: Vec<GpuSample>,
    /// Those that CUDA programs do not use as such, in the driver's order.
    pub left_alone: Vec<LeftAlone>,
}

impl Sample {
    /// Nothing yet, as of now.
    pub fn begin() -> Self {
        Self {
            began: now(),
            gpus: Vec::new(),
            left_alone: Vec::new(),
        }
    }
}

/// A GPU that is no place for tasks, though the driver shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftAlone {
    /// Which.
    pub uuid: Uuid,
    /// Which by all its names, why, and what to do.
    pub why: String,
}

/// What a user should know of a GPU that rtswap manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caveat {
    /// A vGPU: this is a virtual machine.
    Virtual,
    /// A MIG instance whose memory other compute instances use too.
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
    /// The GPU that it is an instance of.
    pub parent: Option<Uuid>,
    /// What is unlike a GPU of its own.
    pub caveat: Option<Caveat>,
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
    /// Those that can be read.
    fn read(&mut self) -> Sample;
}
