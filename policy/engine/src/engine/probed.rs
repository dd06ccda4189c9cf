//! What the probes count → the ledger → capacities.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use rtswap_policy::units::Bytes;

use super::{Engine, Gpu};
use crate::ledger::{Claim, Probed};
use crate::output::{Level, LogLine};
use crate::sample::{Held, ProbeSample, ProbeState};

#[derive(Debug, Default)]
pub(crate) struct Probes {
    pub(crate) last: ProbeSample,
    /// How many lost records the log was told of.
    reported: u64,
}

impl Engine {
    pub(super) fn take_probed(&mut self, sample: ProbeSample) {
        self.report_losses(&sample.state);
        let last = &self.probes.last;
        if (&sample.state, &sample.processes) != (&last.state, &last.processes) {
            self.note_change();
        }
        self.probes.last = sample;
        for gpu in 0..self.gpus.len() {
            self.probe(gpu);
        }
        let now = self.now;
        if self.gpus.iter().any(|gpu| gpu.account.awaits_nvml(now)) {
            self.hurry_nvml(true);
        }
    }

    /// Compares the sample with what is claimed on a GPU, and tells the scheduler of the capacity that
    /// follows.
    fn probe(&mut self, gpu: usize) {
        let awaited = self.recovery.pids();
        let claims = self.claims(gpu);
        let counted = self.counted(gpu, &claims);
        let are_on = matches!(self.probes.last.state, ProbeState::On { .. });
        let account = &mut self.gpus[gpu].account;
        account.set_probes(are_on.then_some(self.probes.last.complete_at));
        let findings = account.reconcile_probes(self.now, &counted, &claims, &awaited);
        if !findings.is_empty() {
            self.note_change();
        }
        self.lay_out(gpu, findings);
        self.show_all(gpu);
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
                trusted: process.trusted,
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
                let is_complete = counted.exact && !counted.early;
                is_complete && claims.contains_key(&process.pid)
            };
            (holds || holds_nothing()).then_some((process.pid, counted))
        });
        counted.collect()
    }

    /// Says once, and again when it has doubled, how many records found no room.
    fn report_losses(&mut self, state: &ProbeState) {
        let &ProbeState::On {
            lost_news,
            lost_calls,
            ..
        } = state
        else {
            return;
        };
        let lost = lost_news + lost_calls;
        if lost < (self.probes.reported * 2).max(1) {
            return;
        }
        self.probes.reported = lost;
        if lost_calls > 0 {
            let text = format!(
                "{lost_calls} calls of processes that the probes had no room for: what those hold is \
                 known from NVML alone"
            );
            self.log(LogLine::new(Level::Warn, text));
        }
        if lost_news > 0 {
            let text = format!(
                "{lost_news} records of the probes found no room: the totals are exact nonetheless, \
                 having been read from the counters"
            );
            self.log(LogLine::new(Level::Warn, text));
        }
    }
}

/// The index of the GPU that memory is on: the one that the process named, or the only one that it
/// can be. An instance goes by its GPU's UUID, too: that is what the first `cuDeviceGetUuid` gives.
pub(crate) fn gpu_of(gpus: &[Gpu], pid: u32, held: &Held) -> Option<usize> {
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
    // It may as well be on an instance that is not ours.
    let shows = |index: &usize| {
        let last = gpus[*index].account.last();
        last.is_some_and(|last| last.process(pid).is_some())
    };
    let mut shown = may_be.into_iter().filter(shows);
    let only = shown.next()?;
    shown.next().is_none().then_some(only)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec;

    use rtswap_policy::units::Time;

    use super::*;
    use crate::Uuid;
    use crate::config::{Config, GpuConfig, SchedulerConfig, Settings};
    use crate::rules::{RuleSet, Rules};
    use crate::sample::{GpuSample, ProcessSample};

    const MEMORY: Bytes = Bytes(1 << 30);

    /// GPU `number`, an instance of GPU 9 where it is said, on which NVML shows `pid`.
    fn gpu(number: u8, is_instance: bool, pid: u32) -> Gpu {
        let uuid = Uuid::of([number; 16]);
        let described = GpuConfig::learned(uuid).completed(MEMORY, Bytes::ZERO);
        let config = Config {
            settings: Settings::default(),
            scheduler: SchedulerConfig::default(),
            gpus: vec![],
            subordinates: crate::owners::Subordinates::default(),
            max_sessions: 10_000,
            everybody: Rules::default(),
            rules: RuleSet::new(),
        };
        let mut gpu = Gpu::new(described, None, &config);
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
