//! A best-effort job that is revoked goes on: its parts together execute for exactly what was drawn.

use std::sync::Arc;

use rtswap_policy::scheduler::JobEnd;
use rtswap_policy::units::{Nanos, Time};
use rtswap_simulator::baseline::Fixed;
use rtswap_simulator::workload::{Card, MIXES};
use rtswap_simulator::{Burst, Observer, Record, Scenario, observe, observe_with, run};

const MINUTES: Nanos = Nanos(10 * 60_000_000_000);

/// The bursts of each task, with what its accounts say since the one before.
#[derive(Default)]
struct Watched {
    bursts: Vec<(Burst, Executed)>,
    open: Vec<Executed>,
    revoked: u64,
}

#[derive(Clone, Copy, Default)]
struct Executed {
    span: Nanos,
    parts: u32,
    requested: Option<Time>,
}

impl Watched {
    fn open(&mut self, place: usize) -> &mut Executed {
        self.open
            .resize(self.open.len().max(place + 1), Executed::default());
        &mut self.open[place]
    }
}

impl Observer for Watched {
    fn job(&mut self, record: &Record) {
        let account = &record.account;
        self.revoked += u64::from(account.end == JobEnd::Revoked);
        let open = self.open(account.task.0 as usize);
        open.span += account.execution;
        open.parts += 1;
        open.requested = open.requested.or(Some(account.requested));
    }

    fn burst(&mut self, burst: &Burst) {
        let executed = core::mem::take(self.open(burst.task.0 as usize));
        self.bursts.push((*burst, executed));
    }
}

#[test]
fn the_parts_of_a_burst_add_up_to_what_was_drawn() {
    let mut cut = 0;
    for mix in MIXES {
        let scenario = mix.scenario(&Card::SMALL, MINUTES, 3);
        let dispatch = scenario.config.dispatch_latency;
        let mut watched = Watched::default();
        let policy = Arc::new(Fixed::EACH_JOB);
        let report = observe_with(&scenario, policy, &mut watched).unwrap();
        assert!(watched.revoked > 50, "{}: {}", mix.name, watched.revoked);
        let mut bursts = vec![0; mix.programs.len()];
        for (burst, executed) in &watched.bursts {
            assert_eq!(burst.parts, executed.parts);
            assert_eq!(Some(burst.requested), executed.requested);
            let response = burst.ended - burst.requested;
            // Each part has its own ε, and one that leaves during ε has executed nothing.
            let most = burst.work + Nanos(dispatch.0 * u64::from(burst.parts));
            if burst.complete {
                let least = most.saturating_sub(dispatch);
                assert!((least..=most).contains(&executed.span), "{burst:?}");
                assert!(response >= burst.alone, "{burst:?}");
                bursts[burst.task.0 as usize] += 1;
                cut += u32::from(burst.parts > 1);
            } else {
                assert!(executed.span <= most && burst.ended > report.start + MINUTES);
            }
        }
        let told = report.tasks.iter().map(|task| task.bursts);
        assert_eq!(bursts, told.collect::<Vec<_>>());
    }
    assert!(cut > 500, "{cut} bursts in several parts");
}

#[test]
fn a_program_asks_for_the_same_in_every_company_and_under_every_policy() {
    let works = |scenario: &Scenario, policy: Fixed, task: u32| {
        let mut watched = Watched::default();
        observe_with(scenario, Arc::new(policy), &mut watched).unwrap();
        let bursts = watched.bursts.into_iter().map(|(burst, _)| burst);
        let of_task = bursts.filter(|burst| burst.task.0 == task && burst.complete);
        of_task.map(|burst| burst.alone).collect::<Vec<_>>()
    };
    let scenario = MIXES[1].scenario(&Card::SMALL, MINUTES, 1);
    let chat = scenario.tasks[1].clone();
    let alone = Scenario {
        tasks: vec![chat],
        ..scenario.clone()
    };
    let alone = works(&alone, Fixed::NVSHARE, 0);
    for policy in [Fixed::NVSHARE, Fixed::EACH_JOB] {
        let shared = works(&scenario, policy, 1);
        assert!(shared.len() > 3 && shared.len() <= alone.len());
        assert_eq!(shared, alone[..shared.len()]);
    }
}

#[test]
fn observe_is_the_products_policy_and_both_are_reproducible() {
    let scenario = MIXES[1].scenario(&Card::SMALL, MINUTES, 1);
    let first = run(&scenario).unwrap();
    assert_eq!(observe(&scenario, &mut Watched::default()).unwrap(), first);
    let fixed = || observe_with(&scenario, Arc::new(Fixed::NVSHARE), &mut ()).unwrap();
    assert_eq!(fixed(), fixed());
    assert_ne!(fixed(), first);
}
