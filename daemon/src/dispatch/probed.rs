//! What the probes count → the ledger → capacities, and what is shown of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rtswap_policy::units::{Bytes, Time};

use super::gpu::Gpu;
use super::{Dispatcher, Process};
use crate::ledger::{Claim, Probed};
use crate::source::probes::{Held, ProbeSample, ProbeState, ProbedProcess};

/// What the dispatch thread knows of the probes.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// The last sample.
    last: ProbeSample,
    /// Lost news that the log was told of.
    told: u64,
}

impl Probes {
    /// How they do.
    pub(super) fn state(&self) -> &ProbeState {
        &self.last.state
    }

    fn find(&self, pid: u32) -> Option<&ProbedProcess> {
        let processes = &self.last.processes;
        let at = processes.binary_search_by_key(&pid, |process| process.pid);
        Some(&processes[at.ok()?])
    }
}

/// What is shown of a process by the probes' account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedView {
    /// On the GPU, at least.
    pub bytes: Bytes,
    /// Managed memory: there, or in host memory.
    pub managed: Bytes,
    /// When it first called the driver under the probes' eyes, by the monotonic clock.
    pub first_seen: Time,
    /// What is known of the time before: `start`, `nvml` or `unknown`.
    pub baseline: &'static str,
    /// `exact`, `estimated` or `at-least`.
    pub confidence: &'static str,
}

impl Dispatcher {
    /// Takes one sample of the probes.
    pub(super) fn take_probed(&mut self, sample: ProbeSample, now: Time) {
        self.report_losses(&sample.state);
        self.unpublished |= sample != self.probes.last;
        self.probes.last = sample;
        // What agents wrote until now is among the values that the sample may have met.
        let all: Vec<_> = self.sessions.keys().copied().collect();
        for session in all {
            self.read_pages(session, now, false);
        }
        for gpu in 0..self.gpus.len() {
            self.probe(gpu, now);
        }
        if self.gpus.iter().any(|gpu| gpu.account.awaits_sight(now)) {
            self.nvml.hurry(true);
        }
    }

    /// Lays the sample beside what is claimed on a GPU, and tells the scheduler of the capacity that
    /// follows.
    fn probe(&mut self, gpu: usize, now: Time) {
        let awaited = self.recovery.pids();
        let claims = self.claims(gpu);
        let counted = self.counted(gpu, &claims);
        let are_on = matches!(self.probes.state(), ProbeState::On { .. });
        let account = &mut self.gpus[gpu].account;
        account.set_probes(are_on);
        let findings = account.probe(now, &counted, &claims, &awaited);
        self.unpublished |= !findings.is_empty();
        self.lay_out(gpu, findings, now);
    }

    /// What processes hold on a GPU by the last sample: those that hold anything there, and those of
    /// agents that are known to hold nothing.
    fn counted(&self, gpu: usize, claims: &BTreeMap<u32, Claim>) -> BTreeMap<u32, Probed> {
        let processes = self.probes.last.processes.iter();
        let counted = processes.filter_map(|process| {
            let place = |held| gpu_of(&self.gpus, process.pid, held);
            let mut counted = Probed {
                bytes: Bytes::ZERO,
                managed: Bytes::ZERO,
                first_seen: process.first_seen,
                early: process.early,
                // What is on a GPU that is not known may be on this one.
                exact: process.exact && process.held.iter().all(|held| place(held).is_some()),
            };
            let here = process.held.iter().filter(|held| place(held) == Some(gpu));
            for held in here {
                counted.bytes += held.bytes;
                counted.managed += held.managed;
            }
            let holds = counted.bytes + counted.managed > Bytes::ZERO;
            let holds_nothing = || {
                let complete = counted.exact && !counted.early;
                complete && claims.contains_key(&process.pid)
            };
            (holds || holds_nothing()).then_some((process.pid, counted))
        });
        counted.collect()
    }

    /// Adds to the rows of processes what the probes count, and those that nobody else knows of.
    pub(super) fn add_probed(&self, rows: &mut Vec<Process>) {
        for row in rows.iter_mut() {
            let process = self.probes.find(row.pid);
            if row.origin.is_none() {
                row.origin = process.and_then(|process| process.identity.as_ref()?.origin.clone());
            }
            let account = row.gpu.map(|gpu| &self.gpus[gpu].account);
            row.probed = account
                .and_then(|account| account.probed(row.pid))
                .map(|entry| ProbedView {
                    bytes: entry.now.bytes,
                    managed: entry.now.managed,
                    first_seen: entry.now.first_seen,
                    baseline: entry.baseline().name(),
                    confidence: entry.confidence(),
                });
        }
        for process in &self.probes.last.processes {
            for held in &process.held {
                let gpu = gpu_of(&self.gpus, process.pid, held);
                let known = |row: &Process| row.pid == process.pid && row.gpu == gpu;
                if !rows.iter().any(known) {
                    rows.push(self.of_probed(process, held, gpu));
                }
            }
        }
    }

    /// A process that only the probes know of.
    fn of_probed(&self, process: &ProbedProcess, held: &Held, gpu: Option<usize>) -> Process {
        let identity = process.identity.as_ref();
        let account = gpu.map(|gpu| &self.gpus[gpu].account);
        let entry = account.and_then(|account| account.probed(process.pid));
        let unknown = if process.early { "unknown" } else { "start" };
        let certain = process.exact && !process.early;
        Process {
            pid: process.pid,
            uid: identity.map(|identity| identity.uid),
            comm: identity.map_or_else(String::new, |identity| identity.comm.clone()),
            origin: identity.and_then(|identity| identity.origin.clone()),
            gpu,
            nvml: None,
            probed: Some(ProbedView {
                bytes: held.bytes,
                managed: held.managed,
                first_seen: process.first_seen,
                baseline: entry.map_or(unknown, |entry| entry.baseline().name()),
                confidence: if certain { "exact" } else { "at-least" },
            }),
            agent: None,
            kept: rtswap_wire::page::KeptReport::default(),
            task: None,
            managed: false,
            attached: false,
            disagreement: account
                .and_then(|account| account.disagreement(process.pid))
                .map(crate::ledger::Disagreement::name),
        }
    }

    /// Says once, and again when it has doubled, how many records found no room.
    fn report_losses(&mut self, state: &ProbeState) {
        let ProbeState::On {
            lost_news,
            lost_calls,
            ..
        } = state
        else {
            return;
        };
        let lost = lost_news + lost_calls;
        if lost < (self.probes.told * 2).max(1) {
            return;
        }
        self.probes.told = lost;
        if *lost_calls > 0 {
            tracing::warn!(
                lost_calls,
                "calls of processes that the probes had no room for: what those hold is known from \
                 NVML alone"
            );
        }
        if *lost_news > 0 {
            tracing::warn!(
                lost_news,
                "records of the probes found no room: the totals are exact nonetheless, having been \
                 read from the counters"
            );
        }
    }

    /// What the probes do, for all to see.
    pub(super) fn probe_state(&self) -> Arc<ProbeState> {
        Arc::new(self.probes.state().clone())
    }
}

/// The GPU that memory is on: the one that the process named, or the only one that it can be. An
/// instance goes by its GPU's UUID, too: that is what the first `cuDeviceGetUuid` gives.
fn gpu_of(gpus: &[Gpu], pid: u32, held: &Held) -> Option<usize> {
    let may_be = |index: &usize| {
        let gpu = &gpus[*index];
        let parent = || gpu.account.last()?.parent;
        held.gpu
            .is_none_or(|uuid| gpu.uuid == uuid || parent() == Some(uuid))
    };
    let may_be: Vec<_> = (0..gpus.len()).filter(may_be).collect();
    if let [only] = may_be[..]
        && held.gpu.is_none_or(|uuid| gpus[only].uuid == uuid)
    {
        return Some(only);
    }
    // On an instance that is not ours it may be as well.
    let shows = |index: &usize| {
        let last = gpus[*index].account.last();
        last.is_some_and(|last| last.processes.iter().any(|process| process.pid == pid))
    };
    let mut shown = may_be.into_iter().filter(shows);
    let only = shown.next()?;
    shown.next().is_none().then_some(only)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::{Config, GpuConfig, Uuid};
    use crate::source::gpu::{GpuSample, ProcessSample};

    const MEMORY: Bytes = Bytes(1 << 30);

    /// GPU `number`, an instance of GPU 9 where it is said, on which NVML shows `pid`.
    fn gpu(number: u8, is_instance: bool, pid: u32) -> Gpu {
        let uuid = Uuid::of([number; 16]);
        let described = GpuConfig::learned(uuid).completed(MEMORY, Bytes::ZERO);
        let mut gpu = Gpu::new(&described, &Config::default());
        let sample = GpuSample {
            uuid,
            name: "GPU".into(),
            total: MEMORY,
            reserved: Bytes::ZERO,
            used: Bytes::ZERO,
            utilization: None,
            parent: is_instance.then_some(Uuid::of([9; 16])),
            caveat: None,
            processes: vec![ProcessSample {
                pid,
                bytes: Some(Bytes::ZERO),
                identity: None,
            }],
        };
        let (claims, awaited) = (BTreeMap::new(), BTreeSet::new());
        gpu.account
            .reconcile(Time::default(), sample, &claims, &awaited);
        gpu
    }

    #[test]
    fn memory_is_where_its_process_says_or_the_only_place_where_it_can_be() {
        let gpus = [gpu(1, false, 10), gpu(2, true, 20), gpu(3, true, 30)];
        let on = |gpus: &[Gpu], named: Option<u8>, pid| {
            let held = Held {
                gpu: named.map(|number| Uuid::of([number; 16])),
                bytes: Bytes(1),
                managed: Bytes::ZERO,
            };
            gpu_of(gpus, pid, &held)
        };
        assert_eq!(on(&gpus, Some(1), 99), Some(0));
        assert_eq!(on(&gpus, Some(3), 99), Some(2));
        assert_eq!(on(&gpus, Some(7), 10), None, "a GPU that is not ours");
        assert_eq!(on(&gpus, None, 20), Some(1), "NVML shows it there");
        assert_eq!(on(&gpus, None, 99), None);
        assert_eq!(on(&gpus[..1], None, 99), Some(0));
        // By the GPU that instances are of.
        assert_eq!(on(&gpus[..2], Some(9), 20), Some(1));
        assert_eq!(on(&gpus[..2], Some(9), 99), None, "another instance's");
        assert_eq!(on(&gpus, Some(9), 30), Some(2));
        assert_eq!(on(&gpus, Some(9), 99), None);
        assert_eq!(on(&gpus, Some(9), 10), None);
    }
}
