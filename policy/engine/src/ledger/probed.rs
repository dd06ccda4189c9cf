//! The third witness: what eBPF probes on the driver count. It is exact, immediate and covers every
//! process, but only memory that is asked of the driver by calls.
//!
//! A program without an agent calls the driver itself, and the probes count what it asks for. Under
//! an agent the program's calls end in the agent, which calls the driver: the probes count its chunks
//! (cuMemCreate, δ each) and what it passes through. So for one process
//!
//! - NVML ≥ probes: NVML also has contexts, code, printf and local memory, the driver's rounding, and
//!   what was there before the probes. That difference is the *overhead*. It is nearly constant, so
//!   overhead + probes predicts between two samples of NVML what the next one will show;
//! - agent ≥ probes, at every instant: an agent counts a chunk before it creates it and until it has
//!   released it, and adds a guess of its context. An agent that reports less by more than a chunk is
//!   wrong whatever the size of its context, with no noise to allow for and no sample of NVML to await;
//! - where the probes followed a process from its start, agent ≥ probes says that it hides nothing: what
//!   NVML shows beyond is overhead, however large (variables of modules, code that was loaded eagerly,
//!   what a pool keeps). It takes from the capacity and is named, but proves no lie. Neither does it
//!   for a process that was there before the probes;
//! - NVML < probes: the driver moved memory away without a call of the process, as
//!   cuCheckpointProcessCheckpoint does from another process, or arrays take less than their
//!   estimate. An agent that reports what the probes count does not lie then either;
//! - managed memory may be in host memory, so it is not counted here.
//!
//! The probes are believed as a lower bound only. A process may run a library that poses as a driver,
//! and so have bytes counted that do not exist. So what is counted of a process that calls a library
//! which is not root's lowers no capacity, with NVML or without: it is shown, and may contradict the
//! process's own agent. NVML shows what of it is true. Root inside a container that maps its users to
//! subordinate ids is not root here: the image's libraries are files of a subordinate id, which that
//! container's maker can write. And where NVML speaks, memory of unmanaged processes counts only after
//! NVML has shown the process on that GPU, and never more than is free.

use alloc::collections::BTreeMap;

use rtswap_policy::units::{Bytes, Nanos, Time};

use super::claim::beyond_noise;
use crate::sample::GpuSample;

/// How long NVML may take to show a process that the probes have seen.
const SIGHT: Nanos = Nanos(2_000_000_000);

/// What the probes count for one process on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The least number of bytes on the GPU: frees that the probes missed count as done.
    pub bytes: Bytes,
    /// The bytes of managed memory, which may lie on the GPU or in host memory.
    pub managed: Bytes,
    /// When the probes saw the first call of the process.
    pub first_seen: Time,
    /// Whether the process may have called the driver before the probes were attached.
    pub early: bool,
    /// Whether every call since `first_seen` was followed to its return. If not, status shows `bytes` as
    /// a lower bound, and it is not believed against NVML.
    pub exact: bool,
    /// Whether all drivers that the process is known to have called are root's. What others have counted is
    /// compared with its own agent's reports and shown, and lowers no capacity.
    pub trusted: bool,
}

/// What is known of the time before the probes were attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The probes were there before the process, so they count everything.
    Start,
    /// The process is older than the probes, and NVML has not shown it yet.
    Unknown,
    /// The process is older than the probes; what NVML shows beyond their count is the baseline.
    Nvml,
}

impl Baseline {
    /// The name in status and D-Bus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Unknown => "unknown",
            Self::Nvml => "nvml",
        }
    }
}

/// What the probes count for one process, beside what NVML shows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeEntry {
    /// The counters of the last sample of the probes.
    pub now: Probed,
    /// What NVML showed beyond the counters, at its last sample and the one before; the smaller
    /// counts, because a sample and the counters are never of one instant.
    overhead: Option<(Bytes, Bytes)>,
    /// What the counters have beyond NVML, likewise: the driver moved it away.
    moved: (Bytes, Bytes),
}

impl ProbeEntry {
    /// What is known of the time before the probes were attached.
    pub fn baseline(&self) -> Baseline {
        match (self.now.early, self.overhead) {
            (false, _) => Baseline::Start,
            (true, None) => Baseline::Unknown,
            (true, Some(_)) => Baseline::Nvml,
        }
    }

    /// How far the counters can be trusted: `exact`, `estimated` (with a baseline from NVML),
    /// `at-least`, or `claimed` by a driver that is not root's.
    pub fn confidence(&self) -> &'static str {
        match self.baseline() {
            _ if !self.now.trusted => "claimed",
            _ if !self.now.exact => "at-least",
            Baseline::Start => "exact",
            Baseline::Nvml => "estimated",
            Baseline::Unknown => "at-least",
        }
    }

    /// All bytes that calls gave the process, on the GPU or in host memory; none where the probes may
    /// have missed a call.
    pub(super) fn all_given(&self) -> Option<Bytes> {
        let complete = self.now.exact && self.baseline() == Baseline::Start;
        complete.then(|| self.now.bytes + self.now.managed)
    }

    /// What the next sample of NVML will show: the counters and the overhead, less what the driver
    /// moved away where that is more than `tolerance`.
    fn expected(&self, tolerance: Bytes) -> Bytes {
        let overhead = self.overhead.map(|(last, before)| last.min(before));
        let moved = beyond_noise(self.moved.0.min(self.moved.1), tolerance);
        (self.now.bytes + overhead.unwrap_or_default()).saturating_sub(moved)
    }

    /// Takes what a sample of NVML shows of the process.
    fn calibrate(&mut self, shown: Bytes) {
        let counted = self.now.bytes;
        let over = shown.saturating_sub(counted);
        let before = self.overhead.map_or(over, |(last, _)| last);
        self.overhead = Some((over, before));
        self.moved = (counted.saturating_sub(shown), self.moved.0);
    }
}

/// The probes' view of one GPU.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// Every process that called the driver before this time is counted; none where the probes count
    /// nothing on this machine.
    pub(super) complete_at: Option<Time>,
    /// The processes that the last sample of the probes has on this GPU, by pid.
    entries: BTreeMap<u32, ProbeEntry>,
}

impl Probes {
    /// The entry of a process; none where the probes count nothing for it.
    pub(super) fn get(&self, pid: u32) -> Option<&ProbeEntry> {
        self.entries.get(&pid)
    }

    /// Takes a sample of the probes. A process that was first seen at another time is a new process
    /// with an old pid.
    pub(super) fn record(&mut self, counted: &BTreeMap<u32, Probed>) {
        self.entries.retain(|pid, entry| {
            let counted = counted.get(pid);
            counted.is_some_and(|counted| counted.first_seen == entry.now.first_seen)
        });
        for (&pid, &counted) in counted {
            let entry = self.entries.entry(pid);
            let uncompared = ProbeEntry {
                now: counted,
                overhead: None,
                moved: (Bytes::ZERO, Bytes::ZERO),
            };
            entry.or_insert(uncompared).now = counted;
        }
    }

    /// Takes a sample of NVML: what it shows of each process beyond the counters.
    pub(super) fn calibrate(&mut self, sample: &GpuSample) {
        for process in &sample.processes {
            if let Some(entry) = self.entries.get_mut(&process.pid)
                && let Some(bytes) = process.bytes
            {
                entry.calibrate(bytes);
            }
        }
    }

    /// The bytes that can be believed that the counters have of processes with pids `of`.
    pub(super) fn counted(&self, of: impl Fn(u32) -> bool) -> Bytes {
        let entries = self.entries.iter();
        let entries = entries.filter(|(pid, entry)| entry.now.trusted && of(**pid));
        entries.map(|(_, entry)| entry.now.bytes).sum()
    }

    /// By how much the processes with pids `of` that a sample of NVML shows have grown since.
    pub(super) fn growth(
        &self,
        since: &GpuSample,
        tolerance: Bytes,
        of: impl Fn(u32) -> bool,
    ) -> Bytes {
        let processes = since.processes.iter().filter(|process| of(process.pid));
        let grown = processes.filter_map(|process| {
            let entry = self.get(process.pid).filter(|entry| entry.now.trusted)?;
            let expected = entry.expected(tolerance);
            Some(expected.saturating_sub(process.bytes?))
        });
        grown.sum()
    }

    /// Whether the probes have just seen memory of a process that NVML's last sample does not show.
    pub(super) fn are_ahead(&self, now: Time, last: &GpuSample) -> bool {
        self.entries.iter().any(|(&pid, entry)| {
            now - entry.now.first_seen < SIGHT
                && entry.now.bytes > Bytes::ZERO
                && last.process(pid).is_none()
        })
    }
}
