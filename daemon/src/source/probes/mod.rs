//! What eBPF probes on the CUDA driver count: the bytes that each process asks the driver for,
//! with an agent or without. `libraries` knows who maps which driver, `scan` looks, `library` finds
//! a driver's functions in its file and `prologue` the instruction to probe, `attach` puts the
//! programs there, by `multi` where the kernel can, `read` reads what they count, `sweep` removes
//! what the dead leave; `watch` keeps it all together, `thread` drives it, beside the dispatch
//! thread.

mod attach;
mod libraries;
mod library;
mod multi;
mod problem;
mod prologue;
mod read;
mod scan;
mod sweep;
mod tally;
mod thread;
mod watch;

pub use library::{Place, functions};
pub use multi::Multi;
pub use problem::Problem;
pub use thread::{Prober, spawn};

use std::sync::Arc;

use rtswap_policy::units::{Bytes, Time};

use super::gpu::Identity;
use crate::config::Uuid;

/// What all processes hold by the probes' account, as of one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeSample {
    /// How the probes do.
    pub state: ProbeState,
    /// In the order of their pids, each once; those of other PID namespaces are missing.
    pub processes: Vec<ProbedProcess>,
}

/// How the probes do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProbeState {
    /// The configuration does not want them.
    #[default]
    Off,
    /// They count.
    On {
        /// Driver libraries that they are on.
        libraries: u32,
        /// News that found no room. They cost no byte: the counters are kept apart.
        lost_news: u64,
        /// Calls that could not be counted.
        lost_calls: u64,
    },
    /// They cannot be had: what is missing, and what to do.
    Missing(Arc<str>),
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedProcess {
    /// In the daemon's PID namespace.
    pub pid: u32,
    /// Who it is; none once it is gone.
    pub identity: Option<Identity>,
    /// When it first called the driver under the probes' eyes.
    pub first_seen: Time,
    /// It may have called the driver before the probes were there.
    pub early: bool,
    /// Every call since was followed to its end: what is counted is all and no more.
    pub exact: bool,
    /// By GPU, each once; what it holds on none that is known comes first.
    pub held: Vec<Held>,
}

/// What a process holds on one GPU through calls that the probes saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which; none where the process made its context before the probes were there, or never
    /// asked for its GPU's UUID.
    pub gpu: Option<Uuid>,
    /// On the GPU, at least: without what it may have freed unseen.
    pub bytes: Bytes,
    /// Managed memory: there, or in host memory.
    pub managed: Bytes,
}
