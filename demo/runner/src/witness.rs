//! The simulated GPU's own count of the bytes that crossed its link. rtswap has no hand in it.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result};
use serde::Serialize;
use simgpu_core::Observer;

/// Bytes that crossed the link.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Crossed {
    /// From the GPU.
    pub d2h_bytes: u64,
    /// To the GPU.
    pub h2d_bytes: u64,
}

impl Crossed {
    /// Both directions.
    pub(crate) fn total(self) -> u64 {
        self.d2h_bytes + self.h2d_bytes
    }

    /// Both of two.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            d2h_bytes: self.d2h_bytes + other.d2h_bytes,
            h2d_bytes: self.h2d_bytes + other.h2d_bytes,
        }
    }
}

/// The counts of all of `pids` together on the machine in `dir`.
pub(crate) fn crossed(dir: &Path, pids: &[u32]) -> Result<Crossed> {
    let observer = Observer::open(dir).context("opening the simulated GPU's counters")?;
    let processes = observer.processes();
    Ok(processes
        .iter()
        .filter(|process| pids.contains(&process.pid))
        .flat_map(|process| &process.gpus)
        .map(|counters| Crossed {
            d2h_bytes: counters.d2h_bytes.load(Relaxed),
            h2d_bytes: counters.h2d_bytes.load(Relaxed),
        })
        .fold(Crossed::default(), Crossed::plus))
}
