//! Best-effort agents that do not do as they are told, beside a realtime task that must run.

use rtswap_policy::scheduler::{Config, Direction, JobEnd, SwapOutcome, ViolationKind};
use rtswap_policy::units::{Bytes, Nanos};

use crate::world::World;
use crate::world::setting::{MS, best_effort, config, realtime};

#[test]
fn who_does_not_leave_the_gpu_is_waited_for_no_longer_than_its_bound() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 40, 40), 40);
    world.load(2, best_effort(), 30);
    world.load(3, best_effort(), 30);
    world.at(2_000);
    world.request(2);
    world.request(1);
    assert!(world.agents[2].revoked && !world.runs(1));
    // No later than the tests charge.
    let due = world.scheduler.poll_timeout().unwrap();
    assert_eq!(due.0, 2_001 * MS + 1);
    world.at(2_002);
    assert_eq!(world.violations, [(2, ViolationKind::Undrainable)]);
    assert!(world.runs(1), "the realtime job goes on beside it");
    world.complete(1);
    world.request(3);
    assert!(world.runs(3), "and so do others");
    assert_eq!(world.op(2), None);
    world.complete(2);
    assert_eq!(world.account(2).end, JobEnd::Revoked);
    world.complete(3);
    world.request(2);
    assert!(world.runs(2), "once it has ended it is one of many again");
}

#[test]
fn memory_of_who_strays_is_never_moved() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 40, 40), 40);
    world.load(2, best_effort(), 60);
    world.at(2_000);
    world.request(2);
    world.request(1);
    world.at(2_002);
    world.complete(1);
    // Another wants memory that only the stray could give.
    world.start(3, best_effort());
    world.want(3, 30);
    assert_eq!(world.op(2), None);
}

#[test]
fn an_agent_that_says_done_and_moves_nothing_is_not_asked_again_at_once() {
    let mut world = World::new(Config {
        best_effort_reserve: Bytes(40),
        ..config(140)
    });
    world.load(4, realtime(1_000, 10, 60, 60), 60);
    world.load(1, realtime(1_000, 10, 60, 60), 60);
    world.warm(4);
    world.warm(1);
    world.at(2_000);
    world.load(2, best_effort(), 30);
    world.load(3, best_effort(), 30);
    world.at(4_000);
    world.request(4);
    world.finish_swaps();
    world.complete(4);
    assert!(world.out(1) > 0);
    world.request(1);
    let asked = |world: &World| {
        let out = |id: &u32| world.op(*id).is_some_and(|(way, _)| way == Direction::Out);
        [2, 3, 4].into_iter().find(out).expect("memory leaves")
    };
    let liar = asked(&world);
    assert_ne!(liar, 4, "best-effort first");
    world.end_swap(liar, world.out(liar), SwapOutcome::Done);
    assert_ne!(asked(&world), liar, "another's turn");
    assert!(world.runs_after_swaps(1));
    assert_eq!(world.account(4).lateness(), Nanos::ZERO);
}

/// The task reports `resident` bytes, 30 of them in the arena.
fn report(world: &mut World, id: u32, resident: u64) {
    world.agent(id).usage.resident = Bytes(resident);
    world.report_usage(id);
}

#[test]
fn a_claim_beyond_the_budget_leaves_no_budget_behind() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 30);
    world.load(2, best_effort(), 30);
    world.request(2);
    assert!(world.runs(2));
    report(&mut world, 2, 150);
    assert_eq!(world.violations, [(2, ViolationKind::OverBudget)]);
    assert_eq!(world.status(2).budget, Bytes(150), "it counts");
    // Another of its processes asks meanwhile, and needs no more than the task counts already.
    world.want(2, 60);
    report(&mut world, 2, 40);
    assert_eq!(world.status(2).budget, Bytes(40), "and then what is true");
    report(&mut world, 2, 30);
    assert_eq!(world.status(2).budget, Bytes(30));
    world.finish_swaps();
    world.want(2, 60);
    world.finish_swaps();
    assert_eq!(world.budget(2).0, 60, "what it asked for");
    assert_eq!(world.scheduler.state().gpu().used, Bytes(60));
}

#[test]
fn a_claim_of_a_process_that_dies_takes_nothing_from_the_others() {
    let mut world = World::new(config(100));
    world.load(2, best_effort(), 30);
    world.want(2, 50);
    report(&mut world, 2, 90);
    // The one that claimed had no budget of the 50.
    world.agent(2).usage.resident = Bytes(30);
    world.regroup(2, 40);
    report(&mut world, 2, 30);
    let status = world.status(2);
    assert_eq!((status.budget, status.dying), (Bytes(50), Bytes(40)));
}
