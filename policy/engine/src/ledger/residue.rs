//! Memory in use that NVML shows of no process.

use alloc::collections::VecDeque;

use rtswap_policy::units::Bytes;

use super::claim::beyond_noise;
use crate::sample::GpuSample;

/// How many samples in a row must show memory of no process before it counts: NVML reads used bytes
/// and processes one after the other, so a single sample may be torn.
pub(super) const SAMPLES: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Residue {
    /// The last samples' bytes, the oldest first.
    recent: VecDeque<Bytes>,
    /// What was of no process while no process was dying.
    before_deaths: Bytes,
}

impl Residue {
    /// Takes one more sample's bytes, without those of the dead; returns those that last, zero where
    /// they are within `tolerance`. While a process `is_dying` the base of [`Self::excess`] stays.
    pub(super) fn record(&mut self, bytes: Bytes, tolerance: Bytes, is_dying: bool) -> Bytes {
        if self.recent.len() == SAMPLES {
            self.recent.pop_front();
        }
        self.recent.push_back(bytes);
        let least = self.recent.iter().min().copied().unwrap_or_default();
        if !is_dying {
            self.before_deaths = least;
        }
        if self.recent.len() < SAMPLES {
            return Bytes::ZERO;
        }
        beyond_noise(least, tolerance)
    }

    /// The bytes of no process beyond those before the first death; zero within `tolerance`.
    pub(super) fn excess(&self, sample: &GpuSample, tolerance: Bytes) -> Bytes {
        let more = unattributed(sample).saturating_sub(self.before_deaths);
        beyond_noise(more, tolerance)
    }
}

/// The bytes in use that a sample shows of no process.
pub(super) fn unattributed(sample: &GpuSample) -> Bytes {
    let processes = sample.processes.iter();
    let shown = processes.filter_map(|process| process.bytes).sum();
    sample.used.saturating_sub(shown)
}
