//! The probes beside NVML and what agents report.

use alloc::collections::BTreeSet;
use std::vec::Vec;

use rtswap_policy::units::{Bytes, Time};

use super::{MIB, account, at, claim, process, sample};
use crate::ledger::{Account, Baseline, Claim, Disagreement, Finding, ProbeEntry, Probed};

fn counted(mib: u64) -> Probed {
    Probed {
        bytes: Bytes(mib * MIB),
        managed: Bytes::ZERO,
        first_seen: at(1),
        early: false,
        exact: true,
        trusted: true,
    }
}

fn early(mib: u64) -> Probed {
    Probed {
        early: true,
        ..counted(mib)
    }
}

fn probe(
    account: &mut Account,
    ms: u64,
    counted: &[(u32, Probed)],
    claims: &[(u32, Claim)],
) -> Vec<Finding> {
    let counted = counted.iter().copied().collect();
    let claims = claims.iter().copied().collect();
    account.reconcile_probes(at(ms), &counted, &claims, &BTreeSet::new())
}

fn look(
    account: &mut Account,
    ms: u64,
    shown: &[(u32, u64)],
    claims: &[(u32, Claim)],
) -> Vec<Finding> {
    let shown: Vec<_> = shown.iter().map(|&(pid, mib)| process(pid, mib)).collect();
    let claims = claims.iter().copied().collect();
    account.reconcile(at(ms), sample(64, &shown), &claims, &BTreeSet::new())
}

#[test]
fn a_shortfall_is_found_before_nvml_looks_and_gains_nothing() {
    let mut account = account();
    let honest = [(5, claim(40, 40))];
    look(&mut account, 0, &[(5, 40)], &honest);
    assert_eq!(probe(&mut account, 10, &[(5, counted(38))], &honest), []);
    // The agent reports half of what there is, and its budget is lowered to its report. The report
    // before excuses one sample.
    let lying = [(5, claim(20, 20))];
    assert_eq!(probe(&mut account, 100, &[(5, counted(38))], &lying), []);
    assert_eq!(probe(&mut account, 200, &[(5, counted(38))], &lying), []);
    assert_eq!(account.disagreement(5), None, "it may have been slow");
    let findings = probe(&mut account, 500, &[(5, counted(38))], &lying);
    let named = Finding::Counted {
        pid: 5,
        disagreement: Some(Disagreement::Underreport),
        counted: Bytes(38 * MIB),
        agent: Bytes(20 * MIB),
    };
    assert_eq!(findings, [named]);
    // From the next sample of NVML on the old budget is no excuse any more.
    look(&mut account, 1000, &[(5, 40)], &lying);
    probe(&mut account, 1010, &[(5, counted(38))], &lying);
    assert_eq!(account.others(), Bytes(18 * MIB), "by the probes");
    for ms in [1100, 1200] {
        look(&mut account, ms, &[(5, 40)], &lying);
    }
    probe(&mut account, 1210, &[(5, counted(38))], &lying);
    assert_eq!(account.others(), Bytes(20 * MIB), "by NVML, once");
    assert_eq!(account.update_capacity(at(1210)), Some(Bytes(36 * MIB)));
    // The agent reports the truth again.
    probe(&mut account, 1300, &[(5, counted(38))], &honest);
    let findings = probe(&mut account, 1600, &[(5, counted(38))], &honest);
    assert!(matches!(
        findings.as_slice(),
        [Finding::Counted {
            disagreement: None,
            ..
        }]
    ));
    assert_eq!(account.disagreement(5), None);
}

#[test]
fn memory_beyond_a_budget_is_others_before_nvml_looks() {
    let mut account = account();
    let claims = [(5, claim(10, 10))];
    look(&mut account, 0, &[(5, 10)], &claims);
    probe(&mut account, 10, &[(5, counted(10))], &claims);
    assert_eq!(account.others(), Bytes::ZERO);
    probe(&mut account, 20, &[(5, counted(26))], &claims);
    assert_eq!(account.others(), Bytes(16 * MIB));
    assert_eq!(account.update_capacity(at(20)), Some(Bytes(40 * MIB)));
}

#[test]
fn a_chunk_in_flight_and_a_context_are_no_lie() {
    let mut account = account();
    for ms in (0..5000).step_by(100) {
        let claims = [(5, claim(10, 12))];
        assert_eq!(probe(&mut account, ms, &[(5, counted(12))], &claims), []);
    }
    // An agent that counts its context says more than the probes see.
    for ms in (5000..10_000).step_by(100) {
        let claims = [(5, claim(20, 20))];
        assert_eq!(probe(&mut account, ms, &[(5, counted(12))], &claims), []);
    }
}

/// The disagreement about process 5 after five seconds, in which its agent reports 10 MiB and NVML
/// shows `nvml` MiB.
fn named(nvml: u64, probed: Option<Probed>) -> Option<&'static str> {
    let mut account = account();
    // The budget is larger than the report.
    let claims = [(5, claim(10, 15))];
    // NVML numbers processes by this PID namespace.
    look(&mut account, 0, &[(5, 10)], &claims);
    let probed: Vec<_> = probed.into_iter().map(|probed| (5, probed)).collect();
    for ms in (0..5000).step_by(100) {
        probe(&mut account, ms, &probed, &claims);
        let shown = [(5, nvml)];
        look(
            &mut account,
            ms + 50,
            &shown[..usize::from(nvml > 0)],
            &claims,
        );
    }
    let named = account.disagreement(5).map(Disagreement::name);
    if nvml > 15 {
        let shown = Bytes((nvml - 10) * MIB);
        assert_eq!(
            account.others(),
            shown,
            "it counts, beside the whole budget"
        );
    }
    named
}

#[test]
fn variables_of_modules_are_no_lie_where_the_probes_saw_every_call() {
    let unaccounted = Some("unaccounted");
    assert_eq!(named(40, Some(counted(8))), unaccounted);
    assert_eq!(
        named(40, Some(counted(0))),
        unaccounted,
        "it has nothing but modules"
    );
    let before = Some(early(8));
    assert_eq!(named(40, before), unaccounted, "there before the probes");
    let underreport = Some("underreport");
    assert_eq!(named(40, None), underreport, "no probe has seen it");
    let doubtful = Probed {
        exact: false,
        ..counted(8)
    };
    assert_eq!(named(40, Some(doubtful)), underreport);
    let managed = Probed {
        managed: Bytes(30 * MIB),
        ..counted(8)
    };
    assert_eq!(named(40, Some(managed)), underreport, "it asked for more");
    assert_eq!(named(40, Some(counted(38))), underreport);
}

#[test]
fn nvml_waits_for_probes_that_have_not_read_a_process_yet() {
    // A shortfall is seen from 1 ms on.
    let cases = [(None, 200), (Some(at(1)), 2000), (Some(Time::ZERO), 10_000)];
    for (complete_at, lasting) in cases {
        let mut account = account();
        account.set_probes(complete_at);
        let claims = [(5, claim(10, 10))];
        look(&mut account, 1, &[(5, 40)], &claims);
        let findings = look(&mut account, lasting, &[(5, 40)], &claims);
        assert_eq!(findings, []);
        let findings = look(&mut account, lasting + 1, &[(5, 40)], &claims);
        assert!(matches!(findings[..], [Finding::Named { .. }]));
    }
    let mut account = account();
    account.set_probes(Some(at(0)));
    let claims = [(5, claim(10, 10))];
    for ms in (0..1800).step_by(100) {
        assert_eq!(look(&mut account, ms, &[(5, 40)], &claims), []);
    }
    probe(&mut account, 1800, &[(5, counted(0))], &claims);
    let mut named = Vec::new();
    for ms in (1900..5000).step_by(100) {
        named.extend(look(&mut account, ms, &[(5, 40)], &claims));
    }
    let unaccounted = Finding::Named {
        pid: 5,
        disagreement: Some(Disagreement::Unaccounted),
        nvml: Bytes(40 * MIB),
        agent: Bytes(10 * MIB),
    };
    assert_eq!(named, [unaccounted], "and no lie");
}

#[test]
fn memory_that_the_driver_moved_away_is_no_lie() {
    assert_eq!(named(0, Some(counted(10))), None, "a checkpoint");
    assert_eq!(named(1, Some(counted(9))), None);
    let unknown = Some("baseline-unknown");
    assert_eq!(named(0, Some(early(10))), unknown, "but not that it lies");
    assert_eq!(named(0, None), Some("overreport"));
    assert_eq!(named(0, Some(counted(3))), Some("overreport"));
}

#[test]
fn memory_that_the_driver_moved_away_from_an_unmanaged_process_is_free() {
    let mut account = account();
    probe(&mut account, 0, &[(9, counted(20))], &[]);
    look(&mut account, 10, &[(9, 23)], &[]);
    assert_eq!(account.others(), Bytes(23 * MIB));
    // A checkpoint. One sample may be older than the counters.
    look(&mut account, 510, &[(9, 1)], &[]);
    assert_eq!(account.others(), Bytes(20 * MIB));
    look(&mut account, 1010, &[(9, 1)], &[]);
    assert_eq!(account.others(), Bytes(MIB));
    // The memory comes back to the GPU.
    look(&mut account, 1510, &[(9, 23)], &[]);
    probe(&mut account, 1520, &[(9, counted(30))], &[]);
    assert_eq!(account.others(), Bytes(30 * MIB));
    look(&mut account, 2010, &[(9, 33)], &[]);
    look(&mut account, 2510, &[(9, 33)], &[]);
    probe(&mut account, 2520, &[(9, counted(32))], &[]);
    assert_eq!(account.others(), Bytes(35 * MIB), "with its context");
}

#[test]
fn unmanaged_growth_counts_between_two_samples_of_nvml() {
    let mut account = account();
    probe(&mut account, 0, &[(9, counted(10))], &[]);
    look(&mut account, 10, &[(9, 13)], &[]);
    assert_eq!(account.others(), Bytes(13 * MIB));
    // 3 MiB are the context.
    probe(&mut account, 20, &[(9, counted(20))], &[]);
    assert_eq!(account.others(), Bytes(23 * MIB));
    // NVML shows it too by now: nothing is counted twice.
    look(&mut account, 30, &[(9, 23)], &[]);
    assert_eq!(account.others(), Bytes(23 * MIB));
    // Freed memory counts until NVML shows that it is free.
    probe(&mut account, 40, &[(9, counted(5))], &[]);
    assert_eq!(account.others(), Bytes(23 * MIB));
}

#[test]
fn memory_that_only_the_probes_see_takes_nothing() {
    let mut account = account();
    look(&mut account, 0, &[(8, 4)], &[]);
    probe(&mut account, 10, &[(9, counted(50))], &[]);
    assert_eq!(account.others(), Bytes(4 * MIB), "NVML has not shown it");
    assert!(account.awaits_nvml(at(10)));
    assert!(!account.awaits_nvml(at(5000)), "and will not");
    // A process that NVML shows cannot take more than is free.
    probe(&mut account, 20, &[(8, counted(5000))], &[]);
    assert_eq!(account.others(), Bytes(64 * MIB));
}

#[test]
fn where_nvml_is_silent_the_probes_alone_tell() {
    let mut account = account();
    probe(
        &mut account,
        0,
        &[(9, counted(10)), (5, counted(6))],
        &[(5, claim(8, 8))],
    );
    assert_eq!(account.others(), Bytes(10 * MIB));
    assert_eq!(account.update_capacity(at(0)), Some(Bytes(46 * MIB)));
    assert!(!account.awaits_nvml(at(0)));
}

#[test]
fn the_baseline_is_unknown_until_nvml_shows_the_process() {
    let mut account = account();
    let describe = |account: &Account| {
        let entry = account.probed(9).unwrap();
        let named = account.disagreement(9).map(Disagreement::name);
        (entry.baseline(), entry.confidence(), named)
    };
    probe(&mut account, 0, &[(9, early(2))], &[]);
    let (unknown, untracked) = (Some("baseline-unknown"), Some("untracked"));
    assert_eq!(describe(&account), (Baseline::Unknown, "at-least", unknown));
    look(&mut account, 10, &[(9, 12)], &[]);
    assert_eq!(describe(&account), (Baseline::Nvml, "estimated", untracked));
    probe(&mut account, 20, &[(9, early(4))], &[]);
    assert_eq!(account.others(), Bytes(14 * MIB), "10 from before, and 4");
    // A new process with the same pid begins anew.
    let other = Probed {
        first_seen: at(30),
        ..counted(1)
    };
    probe(&mut account, 40, &[(9, other)], &[]);
    assert_eq!(describe(&account), (Baseline::Start, "exact", untracked));
    let doubtful = Probed {
        exact: false,
        ..other
    };
    probe(&mut account, 50, &[(9, doubtful)], &[]);
    assert_eq!(describe(&account), (Baseline::Start, "at-least", untracked));
    probe(&mut account, 60, &[], &[]);
    assert!(account.probed(9).is_none());
}

/// As [`counted`], by a driver that is not root's.
fn claimed(mib: u64) -> Probed {
    Probed {
        trusted: false,
        ..counted(mib)
    }
}

#[test]
fn what_a_strangers_driver_counts_lowers_no_capacity_beside_nvml() {
    let mut account = account();
    let claims = [(5, claim(10, 10))];
    look(&mut account, 0, &[(5, 10), (9, 4)], &claims);
    assert_eq!(account.others(), Bytes(4 * MIB));
    // A process without an agent, and one with an agent that reports 10 MiB.
    for ms in [10, 20] {
        probe(
            &mut account,
            ms,
            &[(5, claimed(30)), (9, claimed(40))],
            &claims,
        );
        assert_eq!(account.others(), Bytes(4 * MIB), "only what NVML shows");
    }
    let shown = account.probed(9).map(ProbeEntry::confidence);
    assert_eq!(shown, Some("claimed"));
    // By root's driver the same takes from the capacity at once.
    probe(
        &mut account,
        30,
        &[(5, counted(30)), (9, counted(40))],
        &claims,
    );
    assert_eq!(account.others(), Bytes(54 * MIB), "all that is free, too");
}

#[test]
fn what_a_strangers_driver_counts_lowers_no_capacity_without_nvml() {
    let mut account = account();
    let claims = [(5, claim(10, 10))];
    probe(
        &mut account,
        10,
        &[(5, claimed(30)), (9, claimed(40))],
        &claims,
    );
    assert_eq!(account.others(), Bytes::ZERO);
    assert_eq!(account.shown(5), Bytes::ZERO, "nor does it prove a claim");
    assert_eq!(account.update_capacity(at(10)), None);
    probe(
        &mut account,
        20,
        &[(5, counted(30)), (9, counted(40))],
        &claims,
    );
    assert_eq!(account.others(), Bytes(60 * MIB));
    assert_eq!(account.shown(5), Bytes(30 * MIB));
}

#[test]
fn what_a_strangers_driver_counts_contradicts_its_own_agent() {
    let mut account = account();
    let lying = [(5, claim(10, 10))];
    let findings: Vec<_> = (0..10)
        .flat_map(|tenth| probe(&mut account, tenth * 100, &[(5, claimed(30))], &lying))
        .collect();
    let named = Finding::Counted {
        pid: 5,
        disagreement: Some(Disagreement::Underreport),
        counted: Bytes(30 * MIB),
        agent: Bytes(10 * MIB),
    };
    assert_eq!(findings, [named]);
    assert_eq!(account.others(), Bytes::ZERO);
}
