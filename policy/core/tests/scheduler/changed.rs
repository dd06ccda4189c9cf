//! Scenes of tasks whose class, memory or weight changes.

use rtswap_policy::scheduler::{JobEnd, Phase, ViolationKind};
use rtswap_policy::task::{Class, TaskSpec, Timing};
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::world::World;
use crate::world::setting::{MS, best_effort, config, realtime};

/// With another deadline.
fn due(spec: TaskSpec, millis: u64) -> TaskSpec {
    let Class::Realtime(timing) = spec.class else {
        panic!("{spec:?}");
    };
    TaskSpec {
        class: Class::Realtime(Timing {
            deadline: Nanos(millis * MS),
            ..timing
        }),
        ..spec
    }
}

#[test]
fn a_deadline_counts_from_the_first_job_after_its_change() {
    let mut world = World::two(config(100));
    let shorter = due(realtime(1_000, 10, 60, 40), 200);
    assert!(world.change(1, &shorter), "{:?}", world.refusals);
    assert_eq!(world.status(1).phase, Phase::Loading);
    world.warm(1);
    world.pass(2_000);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    let account = world.account(1);
    assert_eq!(account.deadline, Some(account.eligible + Nanos(200 * MS)));
    assert_eq!(world.violations, []);
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut world = World::two(config(100));
    world.request(1);
    world.request(2);
    let (status, other) = (world.status(1), world.status(2));
    // 8 chunks take 80 ms each way.
    assert!(!world.change(2, &due(realtime(1_000, 10, 60, 40), 12)));
    assert!(
        world.refusals[0].starts_with("not schedulable"),
        "{:?}",
        world.refusals
    );
    assert!(!world.change(2, &due(realtime(1_000, 10, 60, 40), 5)));
    assert_eq!((world.status(1), world.status(2)), (status, other));
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    assert!(world.runs_after_swaps(2));
    world.complete(2);
    let account = world.account(2);
    assert_eq!(account.deadline, Some(Time(6_000 * MS)));
}

#[test]
fn a_demoted_task_is_realtime_again_and_one_that_was_none_becomes_it() {
    let mut world = World::two(config(100));
    world.demote(2);
    assert_eq!(world.status(2).phase, Phase::BestEffort);
    assert!(world.change(2, &realtime(1_000, 10, 60, 40)));
    world.warm(2);
    world.pass(2_000);
    assert!(world.change(2, &best_effort()));
    assert_eq!(world.status(2).phase, Phase::BestEffort);
    world.request(2);
    assert!(world.runs_after_swaps(2));
    world.complete(2);
    assert_eq!(world.account(2).deadline, None);
    assert!(world.change(2, &realtime(500, 20, 60, 60)));
    world.pass(2_000);
    world.warm(2);
    assert_eq!(world.violations, []);
}

#[test]
fn a_job_that_waits_loses_its_deadline_and_one_that_runs_keeps_it() {
    let mut world = World::two(config(100));
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.request(2);
    for id in [1, 2] {
        assert!(world.change(id, &realtime(1_000, 12, 60, 40)));
    }
    world.complete(1);
    assert_eq!(world.account(1).deadline, Some(Time(6_000 * MS)));
    assert!(world.runs_after_swaps(2));
    world.complete(2);
    assert_eq!(world.account(2).deadline, None);
    assert_eq!(world.account(2).end, JobEnd::Completed);
    for id in [1, 2] {
        assert_ne!(world.status(id).phase, Phase::BestEffort);
    }
}

#[test]
fn a_job_that_never_ends_is_bounded_by_what_its_task_was() {
    for becomes in [best_effort(), realtime(9_000, 600, 60, 40)] {
        let mut world = World::two(config(200));
        world.request(1);
        assert!(world.runs(1));
        world.request(2);
        assert!(world.change(1, &becomes), "{:?}", world.refusals);
        world.pass(2_000);
        let kinds = [ViolationKind::Overrun, ViolationKind::Undrainable];
        assert_eq!(world.violations, kinds.map(|kind| (1, kind)));
        assert!(world.runs(2), "beside it");
    }
}

#[test]
fn only_a_registered_task_changes() {
    let mut world = World::new(config(100));
    assert!(!world.change(1, &best_effort()));
    world.load(1, best_effort(), 60);
    world.unregister(1);
    assert!(!world.change(1, &best_effort()));
    assert_eq!(
        world.refusals,
        ["task 1 is not registered: register it first"; 2]
    );
}

#[test]
fn a_tighter_timing_counts_once_those_that_it_was_not_tested_with_are_done() {
    let mut world = World::new(config(200));
    world.load_ready(1, realtime(1_000, 10, 60, 0), 60);
    world.load_ready(2, realtime(1_000, 60, 60, 0), 60);
    world.pass(5_000);
    world.request(2);
    assert!(world.runs(2));
    world.unregister(2);
    // Nobody else is under the plan, but the job that runs would have it miss.
    assert!(world.change(1, &due(realtime(1_000, 10, 60, 0), 30)));
    let volumes = |world: &World| (world.status(1).volume, world.status(1).next_volume);
    assert_eq!(volumes(&world), (None, Some(Bytes(0))));
    world.complete(2);
    assert_eq!(volumes(&world), (Some(Bytes(0)), None), "in effect");
}
