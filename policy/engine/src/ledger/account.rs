//! One GPU's account: which process holds how much, and where two witnesses differ.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use rtswap_policy::units::{Bytes, Time};

use super::capacity::Capacity;
use super::claim::Claim;
use super::finding::{Disagreement, Finding};
use super::managed::ManagedProcess;
use super::nvml::Nvml;
use super::probed::{Baseline, ProbeEntry, Probed, Probes};
use super::residue::{Residue, unattributed};
use crate::sample::{GpuSample, ProcessSample};

/// What no sample changes. All sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// All memory of the GPU that rtswap may use.
    pub memory: Bytes,
    /// The part of `memory` that is never handed out.
    pub reserve: Bytes,
    /// The swap chunk size δ; unmanaged use is rounded up to whole chunks.
    pub chunk: Bytes,
}

impl Terms {
    /// The largest difference between NVML and another witness that counts as noise, 2 to 512 MiB:
    /// an agent guesses the size of its context, and the driver rounds.
    fn tolerance(&self) -> Bytes {
        const LEAST: u64 = 2 << 20;
        const MOST: u64 = 512 << 20;
        Bytes((self.memory.0 / 64).clamp(LEAST, MOST))
    }
}

/// One GPU's account. Pids are those of the daemon's PID namespace.
#[derive(Debug)]
pub struct Account {
    terms: Terms,
    capacity: Capacity,
    nvml: Nvml,
    probes: Probes,
    /// The processes that the last sample's claims name, by pid.
    managed: BTreeMap<u32, ManagedProcess>,
    /// The unmanaged processes of the last sample that a finding has named.
    reported: BTreeSet<u32>,
    residue: Residue,
    /// What no task holds by NVML's last sample.
    others: Bytes,
    /// What the probes have added to `others` since.
    grown: Bytes,
}

/// What one sample of NVML shows of all managed processes together.
#[derive(Debug, Default)]
struct Sums {
    /// The bytes beyond what is accounted for.
    excess: Bytes,
    /// The bytes of living processes that NVML does not show, while it has never shown a managed one.
    invisible: Bytes,
    /// The part of `invisible` that belongs to processes that no sample before was compared with.
    fresh: Bytes,
    /// The bytes that count as held by dead processes that NVML shows no more.
    dying: Bytes,
}

impl Account {
    /// An account before the first sample.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            capacity: Capacity::new(terms.memory.saturating_sub(terms.reserve)),
            nvml: Nvml::default(),
            probes: Probes::default(),
            managed: BTreeMap::new(),
            reported: BTreeSet::new(),
            residue: Residue::default(),
            others: Bytes::ZERO,
            grown: Bytes::ZERO,
        }
    }

    /// Another δ, which counts from the next sample on.
    pub fn set_chunk(&mut self, chunk: Bytes) {
        self.terms.chunk = chunk;
    }

    /// The last sample of NVML; none before the first and while NVML is silent.
    pub fn last(&self) -> Option<&GpuSample> {
        self.nvml.last.as_ref()
    }

    /// All memory of the GPU in bytes.
    pub fn memory(&self) -> Bytes {
        self.last().map_or(self.terms.memory, |last| last.total)
    }

    /// The bytes that no task holds: of unmanaged processes, of managed ones beyond what their agents
    /// count, and of no process. They lower the capacity at once, so no report of an agent can hide
    /// memory from the others.
    pub fn others(&self) -> Bytes {
        self.others + self.grown
    }

    /// Whether NVML numbers processes by the daemon's PID namespace, for all that is known.
    pub fn is_trusted(&self) -> bool {
        self.nvml.is_trusted
    }

    /// Whether a multi-process server (MPS) runs: NVML cannot tell what each of its clients holds.
    pub fn is_shared(&self) -> bool {
        self.nvml.is_shared
    }

    /// The most bytes that a process holds by another witness than its agent: by NVML, or by the probes
    /// where NVML does not tell.
    pub fn shown(&self, pid: u32) -> Bytes {
        let by_nvml = self.last().filter(|_| self.nvml.tells_processes());
        if let Some(last) = by_nvml {
            return last.process(pid).map_or(Bytes::ZERO, bytes_of);
        }
        // By a driver that is not root's a process would witness for itself.
        let counted = self.probes.get(pid).map(|it| it.now);
        let counted = counted.filter(|counted| counted.trusted);
        counted.map_or(Bytes::ZERO, |counted| counted.bytes)
    }

    /// Records that the probes count every process that called the driver before `complete_at`; none
    /// where they count nothing.
    pub fn set_probes(&mut self, complete_at: Option<Time>) {
        self.probes.complete_at = complete_at;
    }

    /// How the witnesses of a process differ; none where they agree.
    pub fn disagreement(&self, pid: u32) -> Option<Disagreement> {
        let managed = self.managed.get(&pid);
        if let Some(confirmed) = managed.and_then(ManagedProcess::disagreement) {
            return Some(confirmed);
        }
        let is_unknown = |entry: &ProbeEntry| entry.baseline() == Baseline::Unknown;
        if self.probes.get(pid).is_some_and(is_unknown) {
            return Some(Disagreement::BaselineUnknown);
        }
        let process = self.last()?.process(pid)?;
        let is_untracked = self.is_unmanaged(process) && self.is_beyond_context(process);
        is_untracked.then_some(Disagreement::Untracked)
    }

    /// Whether NVML should look again soon: mᴰ rises if the next samples show as much, NVML shows more of
    /// a process than its agent reports but not yet for long enough, or as [`Self::awaits_nvml`] says.
    pub fn wants_sample(&self, now: Time) -> bool {
        let is_doubted = self.managed.values().any(ManagedProcess::is_doubted);
        is_doubted || self.capacity.is_rising() || self.awaits_nvml(now)
    }

    /// The bytes of no process in `sample` beyond those before the first death; zero where they may
    /// be noise.
    pub fn unattributed(&self, sample: &GpuSample) -> Bytes {
        self.residue.excess(sample, self.terms.tolerance())
    }

    /// Records that the agent of a process reports `bytes`. O(log n) in the number of managed
    /// processes, without an allocation; a process without a claim is left out.
    pub fn record_report(&mut self, pid: u32, bytes: Bytes) {
        if let Some(process) = self.managed.get_mut(&pid) {
            process.record_report(bytes);
        }
    }

    /// Records that a process may hold up to `bytes` from now on. Costs what
    /// [`Self::record_report`] does.
    pub fn record_budget(&mut self, pid: u32, bytes: Bytes) {
        if let Some(process) = self.managed.get_mut(&pid) {
            process.record_budget(bytes);
        }
    }

    /// Records that a sample of NVML does not show this GPU. Returns whether NVML counts as silent
    /// about it now, which takes a second: one sample may fail.
    pub fn note_missing(&mut self, now: Time) -> bool {
        let is_silent = self.nvml.note_missing(now);
        if is_silent {
            self.fall_silent();
        }
        is_silent
    }

    /// Records that NVML does not tell of this GPU any more. What it showed last stays counted.
    pub fn fall_silent(&mut self) {
        self.nvml.last = None;
        self.capacity.stop_rising();
    }

    /// Takes a sample of NVML and compares it with the claims, by pid. A value that an agent reported
    /// at any time since the sample before is as good as the present one: the driver reads at its own
    /// time. Processes in `awaited` may become managed soon, and do not count meanwhile.
    pub fn reconcile(
        &mut self,
        now: Time,
        sample: GpuSample,
        claims: &BTreeMap<u32, Claim>,
        awaited: &BTreeSet<u32>,
    ) -> Vec<Finding> {
        debug_assert!(sample.processes.is_sorted_by(|a, b| a.pid < b.pid));
        let tolerance = self.terms.tolerance();
        let mut findings = Vec::new();
        findings.extend(self.nvml.note_shared(&sample));
        let shows = |pid: &u32| sample.process(*pid).is_some();
        if claims.keys().any(shows) {
            self.nvml.trust();
        }
        let sums = self.compare_managed(now, &sample, claims, &mut findings);
        if sums.invisible > tolerance && !self.nvml.is_shared {
            findings.extend(self.nvml.note_blind());
        }
        // The scheduler counts what the driver has not got back from dead processes yet.
        let residue = self.residue.record(
            unattributed(&sample).saturating_sub(sums.dying),
            tolerance,
            sums.dying > Bytes::ZERO,
        );
        self.others = if self.nvml.is_shared {
            let held: Bytes = claims.values().map(|claim| claim.held).sum();
            sample.used.saturating_sub(held)
        } else {
            let is_other = is_other(claims, awaited);
            let unmanaged = sample.processes.iter().filter(|it| is_other(it.pid));
            let unmanaged: Bytes = unmanaged.map(bytes_of).sum();
            // An invisible process is there under another number. Or its memory is younger than the sample:
            // then what was unmanaged before may be so still.
            let shown = (unmanaged + residue).saturating_sub(sums.invisible - sums.fresh);
            let least = shown.min(self.others);
            shown.saturating_sub(sums.fresh).max(least) + sums.excess
        };
        self.probes.calibrate(&sample);
        self.nvml.record(sample);
        self.grown = self.growth(claims, awaited);
        findings.extend(self.report_unmanaged(awaited));
        findings
    }

    /// Takes a sample of the probes, their counters for this GPU by pid, and compares it with the
    /// claims. Processes in `awaited` may become managed soon, and do not count meanwhile.
    pub fn reconcile_probes(
        &mut self,
        now: Time,
        counted: &BTreeMap<u32, Probed>,
        claims: &BTreeMap<u32, Claim>,
        awaited: &BTreeSet<u32>,
    ) -> Vec<Finding> {
        self.probes.record(counted);
        self.track(claims);
        let mut findings = Vec::new();
        let tolerance = self.terms.chunk;
        for ((&pid, process), claim) in self.managed.iter_mut().zip(claims.values()) {
            let Some(entry) = self.probes.get(pid) else {
                continue;
            };
            process.widen(claim);
            if let Some(agent) = claim.agent {
                let bytes = entry.now.bytes;
                findings.extend(process.compare_counted(now, pid, bytes, agent, tolerance));
            }
            process.settle_counted(claim);
        }
        self.grown = self.growth(claims, awaited);
        findings
    }

    /// Brings mᴰ up to date after a sample; returns it where the scheduler must be told.
    pub fn update_capacity(&mut self, now: Time) -> Option<Bytes> {
        let Terms { memory, .. } = self.terms;
        // Unmanaged use comes first out of what the configuration leaves of the GPU. The configuration
        // may also promise more than there is, where the driver was loaded after the daemon.
        let (most, left) = self.last().map_or((memory, Bytes::ZERO), |last| {
            let usable = last.total.saturating_sub(last.reserved);
            (memory.min(last.total), usable.saturating_sub(memory))
        });
        let others = self.others().saturating_sub(left);
        let others = others.round_up(self.terms.chunk);
        let bytes = most.saturating_sub(self.terms.reserve + others);
        self.capacity.update(now, bytes)
    }

    /// What the probes count for a process; none where they count nothing for it.
    pub fn probed(&self, pid: u32) -> Option<&ProbeEntry> {
        self.probes.get(pid)
    }

    /// Whether NVML should look again soon: the probes have seen a process that it does not show yet.
    pub fn awaits_nvml(&self, now: Time) -> bool {
        self.last()
            .is_some_and(|last| self.probes.are_ahead(now, last))
    }

    /// The processes in NVML's last sample that have no agent; none where NVML cannot tell them from
    /// managed ones.
    pub fn unmanaged(&self) -> impl Iterator<Item = &ProcessSample> {
        let shown = self.last().into_iter().flat_map(|last| &last.processes);
        shown.filter(|process| self.is_unmanaged(process))
    }

    /// Makes the managed processes those of the claims.
    fn track(&mut self, claims: &BTreeMap<u32, Claim>) {
        self.managed.retain(|pid, _| claims.contains_key(pid));
        for (&pid, claim) in claims {
            let entry = self.managed.entry(pid);
            entry.or_insert_with(|| ManagedProcess::new(claim));
        }
    }

    /// Compares each managed process with a sample of NVML.
    fn compare_managed(
        &mut self,
        now: Time,
        sample: &GpuSample,
        claims: &BTreeMap<u32, Claim>,
        findings: &mut Vec<Finding>,
    ) -> Sums {
        self.track(claims);
        let tolerance = self.terms.tolerance();
        let mut sums = Sums::default();
        for ((&pid, process), claim) in self.managed.iter_mut().zip(claims.values()) {
            process.widen(claim);
            let nvml = match sample.process(pid) {
                Some(shown) => shown.bytes,
                None if claim.agent.is_none() => {
                    sums.dying += claim.held;
                    None
                }
                None if self.nvml.is_trusted => Some(Bytes::ZERO),
                None => {
                    let least = process.least();
                    sums.invisible += least;
                    if !process.is_compared {
                        sums.fresh += least;
                    }
                    None
                }
            };
            if let Some(nvml) = nvml.filter(|_| !self.nvml.is_shared) {
                if let Some(agent) = claim.agent {
                    let probes = &self.probes;
                    findings.extend(process.compare(now, pid, nvml, probes, agent, tolerance));
                }
                sums.excess += process.record_excess(nvml, tolerance);
            }
            process.settle(now, claim);
        }
        sums
    }

    /// What no task holds by now beyond what NVML showed last.
    fn growth(&self, claims: &BTreeMap<u32, Claim>, awaited: &BTreeSet<u32>) -> Bytes {
        let is_other = is_other(claims, awaited);
        let excess = self.managed.iter().filter_map(|(&pid, process)| {
            let counted = self.probes.get(pid)?.now;
            let excess = || process.excess_counted(counted.bytes, self.terms.chunk);
            counted.trusted.then(excess)
        });
        let excess: Bytes = excess.sum();
        let Some(last) = self.last() else {
            // The probes are alone. What NVML showed before it fell silent is counted already.
            return self.probes.counted(is_other).saturating_sub(self.others) + excess;
        };
        if self.nvml.is_shared {
            return Bytes::ZERO;
        }
        let grown = self.probes.growth(last, self.terms.tolerance(), is_other);
        let free = last.total.saturating_sub(last.reserved + last.used);
        (grown + excess).min(free)
    }

    /// Finds the unmanaged processes that the last sample is the first to show.
    fn report_unmanaged(&mut self, awaited: &BTreeSet<u32>) -> Vec<Finding> {
        let here: BTreeMap<u32, Bytes> = self
            .unmanaged()
            .filter(|it| self.is_beyond_context(it) && !awaited.contains(&it.pid))
            .map(|process| (process.pid, bytes_of(process)))
            .collect();
        self.reported.retain(|pid| here.contains_key(pid));
        let new = here
            .into_iter()
            .filter(|(pid, _)| self.reported.insert(*pid));
        new.map(|(pid, nvml)| Finding::Unmanaged { pid, nvml })
            .collect()
    }

    fn is_unmanaged(&self, process: &ProcessSample) -> bool {
        self.nvml.tells_processes() && !self.managed.contains_key(&process.pid)
    }

    fn is_beyond_context(&self, process: &ProcessSample) -> bool {
        bytes_of(process) > self.terms.tolerance()
    }
}

/// Whether a pid is neither managed nor about to be.
fn is_other(claims: &BTreeMap<u32, Claim>, awaited: &BTreeSet<u32>) -> impl Fn(u32) -> bool {
    move |pid| !claims.contains_key(&pid) && !awaited.contains(&pid)
}

fn bytes_of(process: &ProcessSample) -> Bytes {
    process.bytes.unwrap_or_default()
}
