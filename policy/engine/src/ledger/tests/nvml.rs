//! NVML beside what agents report and the scheduler counts.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::{Deref, DerefMut};
use std::vec;
use std::vec::Vec;

use rtswap_policy::units::{Bytes, Time};

use super::{MIB, account, claim, process, sample};
use crate::ledger::managed::LASTING;
use crate::ledger::nvml::SILENCE;
use crate::ledger::{Account, Claim, Disagreement, Finding, residue};
use crate::sample::{GpuSample, ProcessSample};

/// An account with samples of NVML so far apart that what two of them show lasts.
struct Observed {
    account: Account,
    now: Time,
}

impl Observed {
    fn new() -> Self {
        Self {
            account: account(),
            now: Time::ZERO,
        }
    }

    fn show(
        &mut self,
        sample: GpuSample,
        claims: &BTreeMap<u32, Claim>,
        awaited: &BTreeSet<u32>,
    ) -> Vec<Finding> {
        self.now = self.now + LASTING;
        self.account.reconcile(self.now, sample, claims, awaited)
    }

    fn look(&mut self, processes: &[ProcessSample], claims: &[(u32, Claim)]) -> Vec<Finding> {
        let claims = claims.iter().copied().collect();
        self.show(sample(64, processes), &claims, &BTreeSet::new())
    }
}

impl Deref for Observed {
    type Target = Account;

    fn deref(&self) -> &Account {
        &self.account
    }
}

impl DerefMut for Observed {
    fn deref_mut(&mut self) -> &mut Account {
        &mut self.account
    }
}

fn disagreements(findings: &[Finding]) -> Vec<Option<Disagreement>> {
    let disagreement = |finding: &Finding| match finding {
        Finding::Named { disagreement, .. } | Finding::Counted { disagreement, .. } => {
            *disagreement
        }
        other => panic!("{other:?}"),
    };
    findings.iter().map(disagreement).collect()
}

#[test]
fn unmanaged_use_takes_whole_chunks_from_the_capacity() {
    let mut account = Observed::new();
    let met = Finding::Unmanaged {
        pid: 5,
        nvml: Bytes(11 * MIB),
    };
    assert_eq!(account.look(&[process(5, 11)], &[]), [met]);
    assert_eq!(account.others(), Bytes(11 * MIB));
    assert_eq!(account.update_capacity(Time(0)), Some(Bytes(44 * MIB)));
    account.look(&[process(5, 12)], &[]);
    assert_eq!(account.update_capacity(Time(1)), None, "the same in chunks");
}

#[test]
fn unmanaged_use_comes_first_from_what_the_configuration_leaves() {
    let mut account = Observed::new();
    let mut shown = sample(80, &[process(5, 15)]);
    shown.reserved = Bytes(MIB);
    let (claims, awaited) = (BTreeMap::new(), BTreeSet::new());
    account.show(shown.clone(), &claims, &awaited);
    assert_eq!(
        account.update_capacity(Time(0)),
        None,
        "64 of the 79 are left"
    );
    shown.processes = vec![process(5, 19)];
    shown.used = Bytes(19 * MIB);
    account.show(shown, &claims, &awaited);
    assert_eq!(account.update_capacity(Time(1)), Some(Bytes(52 * MIB)));
    assert_eq!(account.others(), Bytes(19 * MIB));
}

#[test]
fn one_sample_that_fails_is_no_silence() {
    let mut account = Observed::new();
    account.look(&[], &[]);
    let start = Time(5_000_000_000);
    assert!(!account.note_missing(start));
    assert!(account.last().is_some());
    account.look(&[], &[]);
    assert!(
        !account.note_missing(start + SILENCE),
        "the first that fails"
    );
    assert!(account.note_missing(start + SILENCE + SILENCE));
    assert!(account.last().is_none());
}

#[test]
fn a_driver_that_is_loaded_later_corrects_the_total() {
    let mut account = Observed::new();
    let (claims, awaited) = (BTreeMap::new(), BTreeSet::new());
    account.show(sample(32, &[]), &claims, &awaited);
    assert_eq!(account.update_capacity(Time(0)), Some(Bytes(24 * MIB)));
}

#[test]
fn managed_and_dying_memory_is_not_others() {
    let mut account = Observed::new();
    let dying = Claim {
        agent: None,
        held: Bytes(30 * MIB),
    };
    for _ in 0..3 {
        let shown = [process(5, 20), process(6, 30)];
        let findings = account.look(&shown, &[(5, claim(20, 20)), (6, dying)]);
        assert_eq!(findings, []);
    }
    assert_eq!(account.others(), Bytes::ZERO);
    assert_eq!(account.update_capacity(Time(0)), None);
    assert!(account.is_trusted());
}

#[test]
fn a_process_that_is_awaited_is_not_counted() {
    let mut account = Observed::new();
    let awaited = BTreeSet::from([5]);
    account.show(sample(64, &[process(5, 20)]), &BTreeMap::new(), &awaited);
    assert_eq!(account.others(), Bytes::ZERO);
}

#[test]
fn a_difference_that_lasts_is_found_and_takes_from_the_capacity() {
    let mut account = Observed::new();
    let claims = [(5, claim(20, 20)), (6, claim(0, 0)), (7, claim(12, 12))];
    let shown = [process(5, 26), process(6, 4), process(7, 2)];
    assert_eq!(account.look(&shown, &claims), []);
    let findings = account.look(&shown, &claims);
    let expected = [
        Disagreement::Underreport,
        Disagreement::Untracked,
        Disagreement::Overreport,
    ];
    assert_eq!(disagreements(&findings), expected.map(Some));
    assert_eq!(account.others(), Bytes(10 * MIB), "6 of 5, 4 of 6");
    assert_eq!(account.look(&shown, &claims), [], "said once");
    assert_eq!(account.disagreement(6), Some(Disagreement::Untracked));
    let right = [process(5, 20), process(7, 12)];
    assert_eq!(account.look(&right, &claims), []);
    let findings = account.look(&right, &claims);
    assert_eq!(disagreements(&findings), [None, None, None]);
    assert_eq!(account.others(), Bytes::ZERO);
}

#[test]
fn a_context_is_noise() {
    let mut account = Observed::new();
    for _ in 0..3 {
        let findings = account.look(&[process(5, 22)], &[(5, claim(20, 20))]);
        assert_eq!(findings, []);
    }
    assert_eq!(account.others(), Bytes::ZERO);
}

#[test]
fn values_since_the_last_sample_contradict_no_agent() {
    let mut account = Observed::new();
    account.look(&[process(5, 40)], &[(5, claim(40, 40))]);
    // Out, in again and half out: the driver may have seen any of these values.
    for shown in [0, 40, 40, 0, 13] {
        account.record_report(5, Bytes::ZERO);
        account.record_budget(5, Bytes(40 * MIB));
        account.record_report(5, Bytes(40 * MIB));
        let findings = account.look(&[process(5, shown)], &[(5, claim(20, 20))]);
        assert_eq!(findings, []);
        assert_eq!(account.others(), Bytes::ZERO);
    }
}

#[test]
fn memory_of_no_process_counts_when_it_lasts() {
    let mut account = Observed::new();
    let mut torn = sample(64, &[]);
    torn.used = Bytes(20 * MIB);
    let (claims, awaited) = (BTreeMap::new(), BTreeSet::new());
    account.show(torn.clone(), &claims, &awaited);
    account.show(sample(64, &[]), &claims, &awaited);
    assert_eq!(account.others(), Bytes::ZERO);
    for _ in 0..residue::SAMPLES {
        account.show(torn.clone(), &claims, &awaited);
    }
    assert_eq!(account.others(), Bytes(20 * MIB));
}

#[test]
fn memory_of_dead_processes_is_not_counted_twice() {
    let mut account = Observed::new();
    account.look(&[process(5, 20)], &[(5, claim(20, 20))]);
    let mut lagging = sample(64, &[]);
    lagging.used = Bytes(20 * MIB);
    assert_eq!(account.unattributed(&lagging), Bytes(20 * MIB));
    let dead = Claim {
        agent: None,
        held: Bytes(20 * MIB),
    };
    let claims = BTreeMap::from([(5, dead)]);
    for _ in 0..residue::SAMPLES {
        account.show(lagging.clone(), &claims, &BTreeSet::new());
        assert_eq!(account.others(), Bytes::ZERO);
    }
    assert_eq!(account.unattributed(&lagging), Bytes(20 * MIB), "still");
    for _ in 0..residue::SAMPLES {
        account.show(lagging.clone(), &BTreeMap::new(), &BTreeSet::new());
    }
    assert_eq!(account.others(), Bytes(20 * MIB), "given up");
}

#[test]
fn under_another_pid_namespace_nothing_is_counted_twice() {
    let mut account = Observed::new();
    // Process 5 is 4005 to NVML; 4006 has no agent.
    let shown = [process(4005, 20), process(4006, 10)];
    let claims = [(5, claim(20, 20))];
    assert_eq!(account.look(&shown, &claims), []);
    assert_eq!(account.look(&shown, &claims), [Finding::Blind]);
    assert_eq!(account.look(&shown, &claims), [], "said once");
    assert_eq!(account.others(), Bytes(10 * MIB));
    assert!(!account.is_trusted());
}

#[test]
fn a_sample_older_than_a_process_does_not_hide_unmanaged_ones_for_ever() {
    let mut account = Observed::new();
    let claims = [(5, claim(20, 20))];
    // NVML was read before process 5 took its memory.
    account.look(&[process(8, 9)], &claims);
    assert_eq!(account.unmanaged().count(), 0, "nobody can tell yet");
    let met = Finding::Unmanaged {
        pid: 8,
        nvml: Bytes(9 * MIB),
    };
    let findings = account.look(&[process(5, 20), process(8, 9)], &claims);
    assert_eq!(findings, [met]);
    assert_eq!(account.disagreement(8), Some(Disagreement::Untracked));
}

#[test]
fn fresh_memory_that_a_sample_is_too_old_for_hides_no_unmanaged_memory() {
    let mut account = Observed::new();
    let stranger = process(8, 9);
    account.look(core::slice::from_ref(&stranger), &[]);
    assert_eq!(account.others(), Bytes(9 * MIB));
    // NVML was read before process 5 came and took its memory.
    account.look(core::slice::from_ref(&stranger), &[(5, claim(20, 20))]);
    assert_eq!(account.others(), Bytes(9 * MIB));
    // What is unmanaged may leave at the same time.
    account.look(&[], &[(5, claim(20, 20)), (6, claim(4, 4))]);
    assert_eq!(account.others(), Bytes::ZERO);
    account.look(&[process(5, 20), stranger], &[(5, claim(20, 20))]);
    assert_eq!(account.others(), Bytes(9 * MIB));
    assert!(account.is_trusted());
}

#[test]
fn under_another_pid_namespace_a_process_that_comes_is_not_counted_twice() {
    let mut account = Observed::new();
    account.look(&[process(4006, 10)], &[]);
    let both = [process(4005, 20), process(4006, 10)];
    for _ in 0..3 {
        account.look(&both, &[(5, claim(20, 20))]);
        assert_eq!(account.others(), Bytes(10 * MIB));
    }
    // The unmanaged one ends.
    account.look(&both[..1], &[(5, claim(20, 20))]);
    assert_eq!(account.others(), Bytes::ZERO);
}

#[test]
fn under_mps_only_the_sum_is_believed() {
    let mut account = Observed::new();
    let mut server = process(9, 30);
    server.identity.as_mut().unwrap().comm = "nvidia-cuda-mps".into();
    let claims = [(5, claim(20, 20))];
    let shown = [server];
    assert_eq!(account.look(&shown, &claims), [Finding::Shared]);
    assert_eq!(account.look(&shown, &claims), []);
    assert_eq!(account.others(), Bytes(10 * MIB));
}

#[test]
fn an_unmanaged_process_beyond_a_context_is_untracked() {
    let mut account = Observed::new();
    let met = |pid, mib| Finding::Unmanaged {
        pid,
        nvml: Bytes(mib * MIB),
    };
    let (claims, awaited) = (BTreeMap::from([(5, claim(20, 20))]), BTreeSet::from([7]));
    // One with an agent, a bare context, one that is awaited, and one that is untracked.
    let all = [process(5, 20), process(6, 2), process(7, 10), process(8, 9)];
    let shows = |account: &mut Observed, shown: &[ProcessSample]| {
        account.show(sample(64, shown), &claims, &awaited)
    };
    assert_eq!(shows(&mut account, &all), [met(8, 9)]);
    assert_eq!(shows(&mut account, &all), [], "said once");
    let named = |account: &Observed, pid| account.disagreement(pid);
    assert_eq!(named(&account, 8), Some(Disagreement::Untracked));
    assert_eq!(named(&account, 6), None, "a context is noise");
    assert_eq!(named(&account, 5), None);
    // It ends, and a new process gets its pid.
    assert_eq!(shows(&mut account, &all[..1]), []);
    assert_eq!(named(&account, 8), None);
    assert_eq!(shows(&mut account, &all), [met(8, 9)]);
}
