//! What NVML shows of one GPU, and how far it can be believed.

use rtswap_policy::units::{Nanos, Time};

use super::finding::Finding;
use crate::sample::{GpuSample, ProcessSample};

/// The process name of the multi-process server (MPS), as the kernel cuts it.
const MPS: &str = "nvidia-cuda-mps";

/// How long samples must miss a GPU before NVML counts as silent about it: one sample may fail.
pub(super) const SILENCE: Nanos = Nanos(1_000_000_000);

/// Samples with an invisible managed process after which NVML counts as blind.
const BLIND: u32 = 2;

/// NVML's view of one GPU.
#[derive(Debug, Default)]
pub(super) struct Nvml {
    /// The last sample; none while NVML is silent.
    pub(super) last: Option<GpuSample>,
    /// When the first of the latest samples missed the GPU.
    missing_since: Option<Time>,
    /// Whether NVML has ever shown a managed process: it numbers processes as the daemon does.
    pub(super) is_trusted: bool,
    /// Samples that did not show a managed process that must be there; zero once one was shown.
    blind: u32,
    /// Whether the last sample shows a multi-process server.
    pub(super) is_shared: bool,
}

impl Nvml {
    /// Whether NVML can tell which processes have no agent.
    pub(super) fn tells_processes(&self) -> bool {
        !self.is_shared && self.blind == 0
    }

    /// Reads from a sample whether processes share the GPU by a multi-process server.
    pub(super) fn note_shared(&mut self, sample: &GpuSample) -> Option<Finding> {
        let is_shared = sample.processes.iter().any(is_mps);
        let began = is_shared && !self.is_shared;
        self.is_shared = is_shared;
        began.then_some(Finding::Shared)
    }

    /// Records that a sample shows a managed process. Samples before may have been read before their
    /// processes took memory.
    pub(super) fn trust(&mut self) {
        self.is_trusted = true;
        self.blind = 0;
    }

    /// Records that a sample did not show a managed process that must be there.
    pub(super) fn note_blind(&mut self) -> Option<Finding> {
        self.blind = self.blind.saturating_add(1);
        (self.blind == BLIND).then_some(Finding::Blind)
    }

    /// Records that samples miss the GPU since `now` or before; returns whether NVML is silent now.
    pub(super) fn note_missing(&mut self, now: Time) -> bool {
        let since = *self.missing_since.get_or_insert(now);
        now - since >= SILENCE
    }

    pub(super) fn record(&mut self, sample: GpuSample) {
        self.last = Some(sample);
        self.missing_since = None;
    }
}

fn is_mps(process: &ProcessSample) -> bool {
    let identity = process.identity.as_ref();
    identity.is_some_and(|identity| identity.comm == MPS)
}
