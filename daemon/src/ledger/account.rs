//! One GPU: who holds what, by whom, and where two witnesses differ.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rtswap_policy::units::{Bytes, Nanos, Time};

use super::Capacity;
use super::finding::Finding;
use super::probed::Entry;
use super::witness::{Claim, Counted, Disagreement, Witness};
use crate::source::gpu::{GpuSample, ProcessSample};

/// The server of CUDA's multi-process service, as the kernel cuts its name.
const MPS: &str = "nvidia-cuda-mps";

/// Looks over which memory must be nobody's before it counts: used bytes and processes are not read
/// at one instant.
const RESIDUES: usize = 3;

/// For so long looks must not show a GPU before NVML counts as silent about it.
const SILENCE: Nanos = Nanos(1_000_000_000);

/// What holds for an account's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// All memory of the GPU that rtswap may use.
    pub memory: Bytes,
    /// What of it is never handed out.
    pub reserve: Bytes,
    /// δ: what others hold is counted in whole chunks.
    pub chunk: Bytes,
}

impl Terms {
    /// The difference below which nobody is contradicted. An agent guesses its context, the
    /// driver rounds.
    pub(super) fn floor(&self) -> Bytes {
        const LEAST: u64 = 2 << 20;
        const MOST: u64 = 512 << 20;
        Bytes((self.memory.0 / 64).clamp(LEAST, MOST))
    }

    /// mᴰ where nobody else holds anything.
    fn capacity(&self) -> Bytes {
        self.memory.saturating_sub(self.reserve)
    }
}

/// One GPU's account.
#[derive(Debug)]
pub struct Account {
    pub(super) terms: Terms,
    capacity: Capacity,
    pub(super) last: Option<GpuSample>,
    /// Since when looks do not show it.
    missing: Option<Time>,
    pub(super) managed: BTreeMap<u32, Witness>,
    /// What the probes count, by pid.
    pub(super) probed: BTreeMap<u32, Entry>,
    /// Whether they count.
    are_probes_on: bool,
    residues: VecDeque<Bytes>,
    /// What was nobody's when nobody was dying.
    residue_before: Bytes,
    /// Held by no task, as of the last look.
    pub(super) others: Bytes,
    /// The same, come since by the probes' account.
    pub(super) grown: Bytes,
    /// NVML has shown a managed process.
    trusted: bool,
    /// Looks in a row that showed none of those that must be there.
    pub(super) blind: u32,
    /// Processes without an agent that were told of.
    pub(super) strangers: BTreeSet<u32>,
    pub(super) shared: bool,
}

impl Account {
    /// An account without a look yet.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            capacity: Capacity::new(terms.capacity()),
            last: None,
            missing: None,
            managed: BTreeMap::new(),
            probed: BTreeMap::new(),
            are_probes_on: false,
            residues: VecDeque::new(),
            residue_before: Bytes::ZERO,
            others: Bytes::ZERO,
            grown: Bytes::ZERO,
            trusted: false,
            blind: 0,
            strangers: BTreeSet::new(),
            shared: false,
        }
    }

    /// The last look, while NVML speaks of this GPU.
    pub fn last(&self) -> Option<&GpuSample> {
        self.last.as_ref()
    }

    /// All memory of the GPU.
    pub fn memory(&self) -> Bytes {
        self.last
            .as_ref()
            .map_or(self.terms.memory, |last| last.total)
    }

    /// What no task holds: processes without an agent, what agents do not count, and what is
    /// nobody's.
    pub fn others(&self) -> Bytes {
        self.others + self.grown
    }

    /// Whether NVML shows the processes of this PID namespace.
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Whether a multi-process server (MPS) runs: NVML cannot tell what each of its clients holds.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether the probes count what processes of this machine ask for.
    pub fn set_probes(&mut self, are_on: bool) {
        self.are_probes_on = are_on;
    }

    /// How the witnesses of a process differ.
    pub fn disagreement(&self, pid: u32) -> Option<Disagreement> {
        let managed = self.managed.get(&pid);
        let named = managed.and_then(Witness::disagreement);
        let named = named.or_else(|| self.unfounded(pid));
        named.or_else(|| self.untracked(pid))
    }

    /// Whether NVML should look again soon: it shows more of a process than its agent says.
    pub fn is_doubted(&self) -> bool {
        self.managed.values().any(Witness::is_doubted)
    }

    /// What a look shows of no process, more than when nobody was dying; none where it is noise.
    pub fn nobodys(&self, sample: &GpuSample) -> Bytes {
        let more = unshown(sample).saturating_sub(self.residue_before);
        if more > self.terms.floor() {
            more
        } else {
            Bytes::ZERO
        }
    }

    /// An agent says that its process holds `bytes` now.
    pub fn agent_says(&mut self, pid: u32, bytes: Bytes) {
        if let Some(witness) = self.managed.get_mut(&pid) {
            witness.says(bytes);
        }
    }

    /// A process may hold `bytes` now.
    pub fn is_granted(&mut self, pid: u32, bytes: Bytes) {
        if let Some(witness) = self.managed.get_mut(&pid) {
            witness.held.widen(bytes);
        }
    }

    /// A look did not show this GPU. Whether NVML is silent about it: one look may fail.
    pub fn is_silent(&mut self, now: Time) -> bool {
        let since = *self.missing.get_or_insert(now);
        let silent = now - since >= SILENCE;
        if silent {
            self.fall_silent();
        }
        silent
    }

    /// NVML speaks of this GPU no more: what it said last stays counted.
    pub fn fall_silent(&mut self) {
        self.last = None;
        self.capacity.rise_no_more();
    }

    /// Lays what NVML shows beside what is claimed for each managed process. A value of the time
    /// since the last look is as good as one of now: who reads is never at the same instant.
    /// `awaited` are processes that may be managed soon, and are not counted meanwhile.
    pub fn reconcile(
        &mut self,
        now: Time,
        sample: GpuSample,
        claims: &BTreeMap<u32, Claim>,
        awaited: &BTreeSet<u32>,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.managed.retain(|pid, _| claims.contains_key(pid));
        let shown: BTreeMap<u32, &ProcessSample> = sample
            .processes
            .iter()
            .map(|process| (process.pid, process))
            .collect();
        let shared = sample.processes.iter().any(is_mps);
        if shared && !self.shared {
            findings.push(Finding::Shared);
        }
        self.shared = shared;
        self.trusted |= claims.keys().any(|pid| shown.contains_key(pid));
        let floor = self.terms.floor();
        let (mut excess, mut invisible, mut unseen) = (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO);
        for (&pid, claim) in claims {
            let witness = self
                .managed
                .entry(pid)
                .or_insert_with(|| Witness::new(claim));
            witness.widen(claim);
            let nvml = match shown.get(&pid) {
                Some(process) => process.bytes,
                None if claim.agent.is_none() => {
                    unseen += claim.held;
                    None
                }
                None if self.trusted => Some(Bytes::ZERO),
                None => {
                    invisible += witness.agent.low.min(witness.held.low);
                    None
                }
            };
            if let Some(nvml) = nvml.filter(|_| !shared) {
                if let Some(agent) = claim.agent {
                    let probed = Counted {
                        are_on: self.are_probes_on,
                        entry: self.probed.get(&pid),
                    };
                    findings.extend(witness.compare(now, pid, (nvml, &probed), agent, floor));
                }
                excess += witness.exceeds(nvml, floor);
            }
            witness.settle(claim);
        }
        if invisible > floor && !shared {
            self.blind = self.blind.saturating_add(1);
            if self.blind == 2 {
                findings.push(Finding::Blind);
            }
        }
        let bytes = |process: &ProcessSample| process.bytes.unwrap_or_default();
        let unmanaged: Bytes = sample
            .processes
            .iter()
            .filter(|process| !claims.contains_key(&process.pid) && !awaited.contains(&process.pid))
            .map(bytes)
            .sum();
        // What a driver has not back from the dead yet is the scheduler's to count.
        let residue = self.residue(unshown(&sample).saturating_sub(unseen));
        if unseen == Bytes::ZERO {
            self.residue_before = self.residues.iter().min().copied().unwrap_or_default();
        }
        self.others = if shared {
            let held: Bytes = claims.values().map(|claim| claim.held).sum();
            sample.used.saturating_sub(held)
        } else {
            // Who is invisible under its number is there under another.
            (unmanaged + residue).saturating_sub(invisible) + excess
        };
        self.last = Some(sample);
        self.missing = None;
        self.seed();
        self.grown = self.growth(claims, awaited);
        findings.extend(self.meet(awaited));
        findings
    }

    /// What to tell the scheduler of mᴰ, after a look.
    pub fn capacity(&mut self, now: Time) -> Option<Bytes> {
        // What a file leaves of the GPU is the others' first. It may promise more than there is where
        // the driver came later.
        let Terms { memory, .. } = self.terms;
        let (most, theirs) = self.last.as_ref().map_or((memory, Bytes::ZERO), |last| {
            let usable = last.total.saturating_sub(last.reserved);
            (memory.min(last.total), usable.saturating_sub(memory))
        });
        let others = self.others().saturating_sub(theirs);
        let others = others.round_up(self.terms.chunk);
        let bytes = most.saturating_sub(self.terms.reserve + others);
        self.capacity.update(now, bytes)
    }

    /// Whether the next looks decide if mᴰ rises.
    pub fn is_rising(&self) -> bool {
        self.capacity.is_rising()
    }

    /// Of the bytes that no process shows, those that stay.
    fn residue(&mut self, now: Bytes) -> Bytes {
        if self.residues.len() == RESIDUES {
            self.residues.pop_front();
        }
        self.residues.push_back(now);
        let least = self.residues.iter().min().copied().unwrap_or_default();
        let lasting = self.residues.len() == RESIDUES && least > self.terms.floor();
        if lasting { least } else { Bytes::ZERO }
    }
}

/// What is used and shown of no process.
fn unshown(sample: &GpuSample) -> Bytes {
    let processes = sample.processes.iter();
    let shown = processes.filter_map(|process| process.bytes).sum();
    sample.used.saturating_sub(shown)
}

fn is_mps(process: &ProcessSample) -> bool {
    let identity = process.identity.as_ref();
    identity.is_some_and(|identity| identity.comm == MPS)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::config::Uuid;
    use crate::ledger::witness::LASTING;
    use crate::source::gpu::Identity;

    const MIB: u64 = 1 << 20;

    pub(crate) fn process(pid: u32, mib: u64) -> ProcessSample {
        ProcessSample {
            pid,
            bytes: Some(Bytes(mib * MIB)),
            identity: Some(Identity {
                uid: 1000,
                comm: "program".into(),
                origin: None,
                start_ticks: 0,
            }),
        }
    }

    /// A GPU where `used` is what the processes hold.
    pub(crate) fn sample(total: u64, processes: &[ProcessSample]) -> GpuSample {
        GpuSample {
            uuid: Uuid::of([1; 16]),
            name: "GPU".into(),
            total: Bytes(total * MIB),
            reserved: Bytes::ZERO,
            used: processes.iter().filter_map(|process| process.bytes).sum(),
            utilization: None,
            parent: None,
            caveat: None,
            processes: processes.to_vec(),
        }
    }

    fn account() -> Account {
        Account::new(Terms {
            memory: Bytes(64 * MIB),
            reserve: Bytes(8 * MIB),
            chunk: Bytes(2 * MIB),
        })
    }

    /// An instant so much after the last that what is seen at both lasts.
    fn later() -> Time {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        Time(LOOKS.fetch_add(LASTING.0, Ordering::Relaxed))
    }

    fn claim(agent: u64, held: u64) -> Claim {
        Claim {
            agent: Some(Bytes(agent * MIB)),
            held: Bytes(held * MIB),
        }
    }

    fn look(
        account: &mut Account,
        processes: &[ProcessSample],
        claims: &[(u32, Claim)],
    ) -> Vec<Finding> {
        let claims = claims.iter().copied().collect();
        account.reconcile(later(), sample(64, processes), &claims, &BTreeSet::new())
    }

    fn names(findings: &[Finding]) -> Vec<Option<Disagreement>> {
        findings
            .iter()
            .map(|finding| match finding {
                Finding::Named { disagreement, .. } | Finding::Counted { disagreement, .. } => {
                    *disagreement
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn who_has_no_agent_takes_from_the_capacity_to_the_chunk() {
        let mut account = account();
        let met = Finding::Unmanaged {
            pid: 5,
            nvml: Bytes(11 * MIB),
        };
        assert_eq!(look(&mut account, &[process(5, 11)], &[]), [met]);
        assert_eq!(account.others(), Bytes(11 * MIB));
        assert_eq!(account.capacity(Time(0)), Some(Bytes(44 * MIB)));
        look(&mut account, &[process(5, 12)], &[]);
        assert_eq!(account.capacity(Time(1)), None, "the same in chunks");
    }

    #[test]
    fn what_a_file_leaves_of_the_gpu_is_the_others_first() {
        let mut account = account();
        let mut shown = sample(80, &[process(5, 15)]);
        shown.reserved = Bytes(MIB);
        let (claims, awaited) = (BTreeMap::new(), BTreeSet::new());
        account.reconcile(later(), shown.clone(), &claims, &awaited);
        assert_eq!(account.capacity(Time(0)), None, "64 of the 79 are left");
        shown.processes = vec![process(5, 19)];
        shown.used = Bytes(19 * MIB);
        account.reconcile(later(), shown, &claims, &awaited);
        assert_eq!(account.capacity(Time(1)), Some(Bytes(52 * MIB)));
        assert_eq!(account.others(), Bytes(19 * MIB));
    }

    #[test]
    fn one_look_that_fails_is_no_silence() {
        let mut account = account();
        look(&mut account, &[], &[]);
        let start = Time(5_000_000_000);
        assert!(!account.is_silent(start));
        assert!(account.last().is_some());
        look(&mut account, &[], &[]);
        assert!(!account.is_silent(start + SILENCE), "the first that fails");
        assert!(account.is_silent(start + SILENCE + SILENCE));
        assert!(account.last().is_none());
    }

    #[test]
    fn a_driver_that_comes_later_corrects_what_was_said() {
        let mut account = account();
        let (claims, awaited) = (BTreeMap::new(), BTreeSet::new());
        account.reconcile(later(), sample(32, &[]), &claims, &awaited);
        assert_eq!(account.capacity(Time(0)), Some(Bytes(24 * MIB)));
    }

    #[test]
    fn managed_and_dying_memory_is_the_schedulers_to_count() {
        let mut account = account();
        let dying = Claim {
            agent: None,
            held: Bytes(30 * MIB),
        };
        for _ in 0..3 {
            let shown = [process(5, 20), process(6, 30)];
            let findings = look(&mut account, &shown, &[(5, claim(20, 20)), (6, dying)]);
            assert_eq!(findings, []);
        }
        assert_eq!(account.others(), Bytes::ZERO);
        assert_eq!(account.capacity(Time(0)), None);
        assert!(account.is_trusted());
    }

    #[test]
    fn a_process_that_is_awaited_is_not_counted() {
        let mut account = account();
        let awaited = BTreeSet::from([5]);
        account.reconcile(
            later(),
            sample(64, &[process(5, 20)]),
            &BTreeMap::new(),
            &awaited,
        );
        assert_eq!(account.others(), Bytes::ZERO);
    }

    #[test]
    fn a_difference_is_named_when_it_lasts_and_takes_from_the_capacity() {
        let mut account = account();
        let claims = [(5, claim(20, 20)), (6, claim(0, 0)), (7, claim(12, 12))];
        let shown = [process(5, 26), process(6, 4), process(7, 2)];
        assert_eq!(look(&mut account, &shown, &claims), []);
        let findings = look(&mut account, &shown, &claims);
        let expected = [
            Disagreement::Underreport,
            Disagreement::Untracked,
            Disagreement::Overreport,
        ];
        assert_eq!(names(&findings), expected.map(Some));
        assert_eq!(account.others(), Bytes(10 * MIB), "6 of 5, 4 of 6");
        assert_eq!(look(&mut account, &shown, &claims), [], "said once");
        assert_eq!(account.disagreement(6), Some(Disagreement::Untracked));
        let right = [process(5, 20), process(7, 12)];
        assert_eq!(look(&mut account, &right, &claims), []);
        let findings = look(&mut account, &right, &claims);
        assert_eq!(names(&findings), [None, None, None]);
        assert_eq!(account.others(), Bytes::ZERO);
    }

    #[test]
    fn a_context_is_noise() {
        let mut account = account();
        for _ in 0..3 {
            let findings = look(&mut account, &[process(5, 22)], &[(5, claim(20, 20))]);
            assert_eq!(findings, []);
        }
        assert_eq!(account.others(), Bytes::ZERO);
    }

    #[test]
    fn what_moved_since_the_last_look_contradicts_nobody() {
        let mut account = account();
        look(&mut account, &[process(5, 40)], &[(5, claim(40, 40))]);
        // Out, in again and half out: whatever the driver saw of it was true once.
        for shown in [0, 40, 40, 0, 13] {
            account.agent_says(5, Bytes::ZERO);
            account.is_granted(5, Bytes(40 * MIB));
            account.agent_says(5, Bytes(40 * MIB));
            let findings = look(&mut account, &[process(5, shown)], &[(5, claim(20, 20))]);
            assert_eq!(findings, []);
            assert_eq!(account.others(), Bytes::ZERO);
        }
    }

    #[test]
    fn what_is_nobodys_counts_when_it_stays() {
        let mut account = account();
        let mut torn = sample(64, &[]);
        torn.used = Bytes(20 * MIB);
        let (claims, awaited) = (BTreeMap::new(), BTreeSet::new());
        account.reconcile(later(), torn.clone(), &claims, &awaited);
        account.reconcile(later(), sample(64, &[]), &claims, &awaited);
        assert_eq!(account.others(), Bytes::ZERO);
        for _ in 0..RESIDUES {
            account.reconcile(later(), torn.clone(), &claims, &awaited);
        }
        assert_eq!(account.others(), Bytes(20 * MIB));
    }

    #[test]
    fn what_the_dead_have_not_given_back_is_not_counted_twice() {
        let mut account = account();
        look(&mut account, &[process(5, 20)], &[(5, claim(20, 20))]);
        let mut lagging = sample(64, &[]);
        lagging.used = Bytes(20 * MIB);
        assert_eq!(account.nobodys(&lagging), Bytes(20 * MIB));
        let dead = Claim {
            agent: None,
            held: Bytes(20 * MIB),
        };
        let claims = BTreeMap::from([(5, dead)]);
        for _ in 0..RESIDUES {
            account.reconcile(later(), lagging.clone(), &claims, &BTreeSet::new());
            assert_eq!(account.others(), Bytes::ZERO);
        }
        assert_eq!(account.nobodys(&lagging), Bytes(20 * MIB), "still");
        for _ in 0..RESIDUES {
            account.reconcile(later(), lagging.clone(), &BTreeMap::new(), &BTreeSet::new());
        }
        assert_eq!(account.others(), Bytes(20 * MIB), "given up");
    }

    #[test]
    fn under_another_namespace_nothing_is_counted_twice() {
        let mut account = account();
        // Process 5 is 4005 to NVML; 4006 has no agent.
        let shown = [process(4005, 20), process(4006, 10)];
        let claims = [(5, claim(20, 20))];
        assert_eq!(look(&mut account, &shown, &claims), []);
        assert_eq!(look(&mut account, &shown, &claims), [Finding::Blind]);
        assert_eq!(look(&mut account, &shown, &claims), [], "said once");
        assert_eq!(account.others(), Bytes(10 * MIB));
        assert!(!account.is_trusted());
    }

    #[test]
    fn under_mps_only_the_sum_is_believed() {
        let mut account = account();
        let mut server = process(9, 30);
        server.identity.as_mut().unwrap().comm = MPS.into();
        let claims = [(5, claim(20, 20))];
        let shown = [server];
        assert_eq!(look(&mut account, &shown, &claims), [Finding::Shared]);
        assert_eq!(look(&mut account, &shown, &claims), []);
        assert_eq!(account.others(), Bytes(10 * MIB));
    }
}
