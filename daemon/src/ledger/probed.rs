//! The third witness: what eBPF probes on the driver count. Exact, at once, and of every process, but
//! only of what is asked of the driver by calls.
//!
//! What equals what. A program without an agent calls the driver, and the probes count what it asks
//! for. Under an agent the driver is called by the agent: the probes count its chunks (cuMemCreate,
//! δ each), and what it passes through; the program's own calls end in the agent, and never reach
//! the driver. So of one process
//!
//! - NVML ≥ probes: NVML has besides them contexts, code, printf and local memory, the driver's
//!   rounding, and what was there before the probes. That difference is its *overhead*; it is
//!   nearly constant, so overhead + probes tells between two looks what NVML will show;
//! - agent ≥ probes, at every instant: an agent counts a chunk before it makes it, and until it is
//!   released, and adds a guess of its context. An agent that says less, by more than a chunk, is
//!   wrong whatever its context is: no noise has to be allowed for, and no look of NVML awaited;
//! - managed memory may lie in host memory, and counts for nobody here.
//!
//! The probes are believed as a lower bound only. A process may run a library that calls itself a
//! driver, and so have counted what does not exist: where NVML speaks, nobody's memory counts
//! before NVML has shown the process on that GPU, and never more than is free.

use std::collections::{BTreeMap, BTreeSet};

use rtswap_policy::units::{Bytes, Nanos, Time};

use super::account::{Account, Finding};
use super::witness::{Claim, Disagreement, Witness};

/// How long an agent must say less than was counted before it is named: it may write its page
/// after it was asked.
pub(super) const LASTING: Nanos = Nanos(300_000_000);

/// For so long NVML may take to show a process that the probes have seen.
const SIGHT: Nanos = Nanos(2_000_000_000);

/// What the probes count for one process on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// On the GPU, at least.
    pub bytes: Bytes,
    /// Managed memory: there, or in host memory.
    pub managed: Bytes,
    /// When it first called the driver under their eyes.
    pub first_seen: Time,
    /// It may have called the driver before.
    pub early: bool,
    /// Every call since was followed to its end.
    pub exact: bool,
}

/// What is known of the time before the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// All: they were there first.
    Start,
    /// Nothing yet.
    Unknown,
    /// What NVML showed beyond what they counted.
    Nvml,
}

impl Baseline {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Unknown => "unknown",
            Self::Nvml => "nvml",
        }
    }
}

/// One process by the probes' account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The last sample.
    pub now: Probed,
    /// What NVML shows beyond it: the least of two looks, because neither is of the same instant.
    overhead: Option<(Bytes, Bytes)>,
}

impl Entry {
    /// What is known of the time before the probes.
    pub fn baseline(&self) -> Baseline {
        match (self.now.early, self.overhead) {
            (false, _) => Baseline::Start,
            (true, None) => Baseline::Unknown,
            (true, Some(_)) => Baseline::Nvml,
        }
    }

    /// How far the figure may be trusted: `exact`; `estimated`, with a baseline of NVML's; `at-least`.
    pub fn confidence(&self) -> &'static str {
        match self.baseline() {
            _ if !self.now.exact => "at-least",
            Baseline::Start => "exact",
            Baseline::Nvml => "estimated",
            Baseline::Unknown => "at-least",
        }
    }

    /// What NVML will show, by the overhead that it had.
    fn expected(&self) -> Bytes {
        let overhead = self.overhead.map(|(last, before)| last.min(before));
        self.now.bytes + overhead.unwrap_or_default()
    }
}

impl Account {
    /// A process by the probes' account.
    pub fn probed(&self, pid: u32) -> Option<&Entry> {
        self.probed.get(&pid)
    }

    /// All of them, by pid.
    pub fn all_probed(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.probed.iter().map(|(pid, entry)| (*pid, entry))
    }

    /// Takes what the probes count of each process on this GPU.
    pub fn probe(
        &mut self,
        now: Time,
        counted: &BTreeMap<u32, Probed>,
        claims: &BTreeMap<u32, Claim>,
        awaited: &BTreeSet<u32>,
    ) -> Vec<Finding> {
        self.probed.retain(|pid, entry| {
            let counted = counted.get(pid);
            counted.is_some_and(|counted| counted.first_seen == entry.now.first_seen)
        });
        for (&pid, &counted) in counted {
            let entry = self.probed.entry(pid).or_insert(Entry {
                now: counted,
                overhead: None,
            });
            entry.now = counted;
        }
        self.managed.retain(|pid, _| claims.contains_key(pid));
        for (&pid, claim) in claims {
            self.managed.entry(pid).or_insert_with(|| Witness::new(claim));
        }
        let mut findings = Vec::new();
        let floor = self.terms.chunk;
        for (&pid, witness) in &mut self.managed {
            let (Some(entry), Some(claim)) = (self.probed.get(&pid), claims.get(&pid)) else {
                continue;
            };
            witness.widen(claim);
            if let Some(agent) = claim.agent {
                findings.extend(witness.count(now, pid, entry.now.bytes, agent, floor));
            }
            witness.settle_counted(claim);
        }
        self.grown = self.growth(claims, awaited);
        findings
    }

    /// Whether NVML should look again soon: the probes have seen who it has not shown yet.
    pub fn awaits_sight(&self, now: Time) -> bool {
        let Some(last) = self.last() else {
            return false;
        };
        let shown = |pid| last.processes.iter().any(|process| process.pid == pid);
        let mut probed = self.probed.iter();
        probed.any(|(&pid, entry)| {
            now - entry.now.first_seen < SIGHT && entry.now.bytes > Bytes::ZERO && !shown(pid)
        })
    }

    /// A look of NVML is taken: what it shows of each process beyond what was counted.
    pub(super) fn seed(&mut self) {
        let Some(last) = &self.last else {
            return;
        };
        for process in &last.processes {
            if let Some(entry) = self.probed.get_mut(&process.pid)
                && let Some(bytes) = process.bytes
            {
                let over = bytes.saturating_sub(entry.now.bytes);
                let before = entry.overhead.map_or(over, |(last, _)| last);
                entry.overhead = Some((over, before));
            }
        }
    }

    /// What others hold by now beyond what NVML showed last.
    pub(super) fn growth(
        &self,
        claims: &BTreeMap<u32, Claim>,
        awaited: &BTreeSet<u32>,
    ) -> Bytes {
        let is_other = |pid: &u32| !claims.contains_key(pid) && !awaited.contains(pid);
        let beyond: Bytes = claims
            .keys()
            .filter_map(|pid| {
                let (entry, witness) = (self.probed.get(pid)?, self.managed.get(pid)?);
                Some(witness.exceeds_counted(entry.now.bytes, self.terms.chunk))
            })
            .sum();
        let Some(last) = &self.last else {
            // The probes alone. What NVML showed before it fell silent is counted still.
            let others = self.probed.iter().filter(|(pid, _)| is_other(pid));
            let counted: Bytes = others.map(|(_, entry)| entry.now.bytes).sum();
            return counted.saturating_sub(self.others) + beyond;
        };
        if self.shared {
            return Bytes::ZERO;
        }
        let shown = last.processes.iter();
        let grown: Bytes = shown
            .filter(|process| is_other(&process.pid))
            .filter_map(|process| {
                let entry = self.probed.get(&process.pid)?;
                Some(entry.expected().saturating_sub(process.bytes?))
            })
            .sum();
        let free = last.total.saturating_sub(last.reserved + last.used);
        (grown + beyond).min(free)
    }

    /// What a process is named for where no agent's word is at stake.
    pub(super) fn unfounded(&self, pid: u32) -> Option<Disagreement> {
        let entry = self.probed.get(&pid)?;
        (entry.baseline() == Baseline::Unknown).then_some(Disagreement::BaselineUnknown)
    }
}
