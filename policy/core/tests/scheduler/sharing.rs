//! Scenes of best-effort beside realtime and beside itself.

use rtswap_policy::scheduler::{Config, Direction, JobEnd, JobKind, SwapOutcome};
use rtswap_policy::units::Bytes;

use crate::world::setting::{best_effort, config, realtime};
use crate::world::{Agent, World};

#[test]
fn a_realtime_job_takes_the_gpu_from_best_effort() {
    let mut world = World::new(config(100));
    world.load(1, realtime(100, 10, 40, 40), 40);
    world.load(2, best_effort(), 30);
    world.request(2);
    assert!(world.runs(2));
    world.request(1);
    assert!(world.agents[2].revoked && !world.runs(1));
    world.complete(2);
    assert_eq!(world.account(2).end, JobEnd::Revoked);
    assert!(world.runs(1));
    world.request(2);
    assert!(!world.runs(2));
    world.complete(1);
    assert!(world.runs(2));
}

#[test]
fn only_those_whose_memory_is_needed_leave_for_one_that_comes_after_idleness() {
    let mut world = World::shared();
    for id in [1, 2, 3] {
        world.load(id, best_effort(), 40);
    }
    assert_eq!(world.out(1), 20);
    world.request(2);
    world.at(60);
    // What 1 lacks is had of 3, which is idle.
    world.request(1);
    assert!(!world.agents[2].revoked);
    assert!(world.runs_after_swaps(1) && world.runs(2));
    assert_eq!(world.out(3), 20);
}

#[test]
fn jobs_that_take_turns_do_not_keep_the_memory_from_one_that_waits() {
    let mut world = World::shared();
    world.load(1, best_effort(), 80);
    world.load(2, best_effort(), 40);
    world.load(3, best_effort(), 40);
    assert_eq!(world.out(1), 60);
    world.at(1);
    world.request(2);
    world.at(60);
    world.request(3);
    world.request(1);
    world.at(120);
    assert!(world.agents[2].revoked && world.agents[3].revoked);
    world.complete(2);
    // 1 lacks what 2 and 3 hold together, so 2 may not go on before 1 has run.
    world.request(2);
    assert!(!world.runs(2));
    world.complete(3);
    assert!(world.runs_after_swaps(1));
}

#[test]
fn a_job_for_which_nothing_can_be_done_holds_nobody_back() {
    let mut world = World::shared();
    world.load(1, best_effort(), 80);
    world.load(2, best_effort(), 20);
    world.load(3, best_effort(), 20);
    world.capacity(70);
    world.finish_swaps();
    world.request(1);
    world.at(10);
    world.request(2);
    world.request(3);
    world.at(20);
    world.complete(2);
    world.request(2);
    assert!(world.runs(2) && world.runs(3), "80 of 70");
}

#[test]
fn a_best_effort_swap_is_aborted_and_its_reservation_released() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 40, 0), 40);
    world.load(2, best_effort(), 50);
    world.load(3, best_effort(), 50);
    world.at(2_000);
    world.request(2);
    assert_eq!(world.op(3).unwrap().0, Direction::Out);
    // The abort is obeyed with a chunk moved.
    world.agent(3).place(Bytes(10));
    world.request(1);
    assert_eq!(world.op(3), None);
    assert_eq!(world.status(3).budget, Bytes(40));
    assert!(world.runs(1));
    assert!(world.op(2).is_none());
    world.complete(1);
    assert!(world.runs_after_swaps(2));
}

#[test]
fn a_want_takes_best_effort_memory_and_realtime_chunks_within_x() {
    let mut world = World::two(Config {
        best_effort_reserve: Bytes(20),
        ..config(120)
    });
    // 20 of each realtime task and the reserve can be had.
    world.load(3, best_effort(), 40);
    assert_eq!(world.budget(3).1, 0);
    assert_eq!(world.out(1), 20);
    assert_eq!(world.out(2), 20);
    world.want(3, 81);
    assert_eq!(world.budget(3).1, 1);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    assert_eq!(world.out(3), 20);
}

#[test]
fn a_want_waits_for_realtime_and_is_answered() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(20_000, 1_000, 60, 0), 60);
    world.load(2, best_effort(), 40);
    world.load(3, best_effort(), 10);
    world.at(30_000);
    world.request(1);
    world.want(3, 40);
    assert_eq!(world.op(2), None);
    world.complete(1);
    assert_eq!(world.op(2).unwrap().0, Direction::Out);
    world.finish_swaps();
    assert_eq!(world.budget(3).0, 40);
    world.want(3, 60);
    world.at(60_000);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    assert_eq!(world.budget(3).1, 1);
}

#[test]
fn in_shared_mode_best_effort_runs_beside_realtime() {
    let mut world = World::shared();
    world.load(1, realtime(100, 10, 40, 40), 40);
    world.load(2, best_effort(), 20);
    world.load(3, best_effort(), 20);
    for id in [2, 1, 3] {
        world.request(id);
        assert!(world.runs(id));
    }
    assert!(!world.agents[2].revoked);
}

#[test]
fn a_want_outlasts_the_death_of_who_is_in_the_way() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 90);
    world.load(2, best_effort(), 10);
    // The connection's end is seen before the process's.
    world.lose(1);
    world.want(2, 60);
    assert_eq!(world.budget(2), (10, 0));
    world.detach(1);
    assert_eq!(world.budget(2), (10, 0));
    world.release(1);
    assert_eq!(world.budget(2), (60, 0));
}

#[test]
fn a_want_waits_for_what_is_on_its_way_in() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 60);
    world.load(2, best_effort(), 60);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    // 2 comes in for its job, and 1 allocates meanwhile.
    world.request(2);
    world.swap_until_in(2);
    world.want(1, world.agents[1].usage.resident.0 + 30);
    assert_eq!(world.budget(1).1, 0);
    world.finish_swaps();
    world.complete(2);
    world.finish_swaps();
    assert_eq!(world.budget(1).1, 0);
}

#[test]
fn a_want_shrinks_with_what_leaves_while_it_waits() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 50);
    world.load(2, best_effort(), 40);
    // 2 wants all that there is, which takes all of 1, and 1 runs.
    world.request(1);
    world.want(2, 100);
    assert_eq!(world.budget(2).0, 40);
    // 1 needs more itself and gets it from 2; then it ends.
    world.want(1, 80);
    world.finish_swaps();
    assert_eq!(world.budget(1).0, 80);
    world.allocate(1, 30);
    let swapped = world.agents[2].usage.swapped.0;
    assert!(swapped > 0);
    world.complete(1);
    world.finish_swaps();
    assert_eq!(world.budget(2), (100 - swapped, 0));
}

#[test]
fn memory_freed_in_the_middle_of_an_operation_confuses_nobody() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 60);
    world.load(2, best_effort(), 60);
    world.request(1);
    assert_eq!(world.op(2), Some((Direction::Out, 20)));
    world.chunk(2);
    // The program frees what has left, and something that has not.
    let Agent { usage, op, .. } = world.agent(2);
    (usage.resident, usage.arena, usage.swapped) = (Bytes(30), Bytes(30), Bytes(0));
    let seq = op.unwrap().seq;
    world.report_swap(2, seq, Bytes(0), None);
    world.end_swap(2, 10, SwapOutcome::Done);
    world.report_usage(2);
    world.finish_swaps();
    world.at(200);
    assert!(world.runs_after_swaps(1), "{:?}", world.status(1));
    assert!(world.violations.is_empty(), "{:?}", world.violations);
}

#[test]
fn two_that_wait_for_a_third_do_not_take_their_memory_from_each_other() {
    let mut world = World::new(config(480));
    for id in [2, 3] {
        world.admit(id, realtime(2_000, 10, 220, 210));
    }
    world.admit(4, realtime(2_000, 10, 240, 230));
    for id in [2, 3, 4] {
        // Pinning takes its time, so nothing can be swapped out yet.
        let slow = Agent {
            pins_late: true,
            ..Agent::default()
        };
        world.fill(id, slow, 30);
    }
    world.request_kind(3, JobKind::Implicit);
    assert!(world.runs(3));
    // Task 4 lacks more than is free, task 2 does not.
    world.request_kind(4, JobKind::Implicit);
    world.request_kind(2, JobKind::Implicit);
    assert!(!world.runs(4) && !world.runs(2));
    world.complete(3);
    assert!(world.runs(4) || world.runs(2));
}

#[test]
fn who_could_never_run_with_it_gets_no_more() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 60);
    world.load(2, best_effort(), 60);
    let swapped = world.out(1);
    assert!(swapped > 0);
    world.want(1, 60 - swapped + 50);
    assert_eq!(world.budget(1).1, 1, "110 in all, of 100");
}

#[test]
fn memory_taken_during_a_swap_may_leave_with_it() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 30);
    world.load(2, best_effort(), 40);
    // Its fresh budget is left to it.
    world.want(1, 60);
    world.want(2, 70);
    let Some((Direction::Out, target)) = world.op(1) else {
        panic!("{:?}", world.status(1));
    };
    // Within its budget it allocated after its last report, and all that is known leaves.
    assert_eq!((target, world.status(1).usage.resident), (30, Bytes(30)));
    let Agent { usage, .. } = world.agent(1);
    (usage.resident, usage.arena) = (Bytes(40), Bytes(40));
    world.end_swap(1, 30, SwapOutcome::Done);
    world.report_usage(1);
    assert_eq!(world.violations, []);
}

#[test]
fn what_another_has_not_reported_yet_is_no_reason_to_refuse() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 100, 100), 100);
    world.at(1_100);
    // All of the plan's memory can be had again only if all of theirs can leave.
    world.load(2, best_effort(), 30);
    world.want(2, 40);
    world.pass(100);
    world.finish_swaps();
    assert_eq!(world.budget(2), (40, 0));
    world.register(3, best_effort());
    world.attach(3, Agent::default(), None);
    world.request(1);
    world.want(3, 30);
    let Agent { usage, .. } = world.agent(2);
    (usage.resident, usage.arena) = (Bytes(40), Bytes(40));
    assert_eq!(world.op(2), Some((Direction::Out, 30)));
    world.end_swap(2, 30, SwapOutcome::Done);
    assert_eq!(world.status(2).usage.resident, Bytes(10));
    assert_eq!(world.budget(3), (0, 0), "it waits");
    world.report_usage(2);
    world.finish_swaps();
    assert_eq!(world.budget(3), (30, 0));
}

#[test]
fn a_task_that_loads_waits_for_what_it_declared_until_another_has_reported() {
    let mut world = World::new(config(100));
    world.start(1, realtime(1_000, 10, 95, 95));
    world.start(2, best_effort());
    world.want(2, 10);
    let report = |world: &mut World, arena| {
        let Agent { usage, .. } = world.agent(2);
        (usage.resident, usage.arena) = (Bytes(10), Bytes(arena));
        world.report_usage(2);
    };
    // It has taken the memory, and not told yet that it is in its arena.
    report(&mut world, 0);
    world.want(1, 50);
    assert_eq!(world.budget(1), (0, 0), "it waits");
    report(&mut world, 10);
    assert_eq!(world.budget(1), (50, 0));
    world.allocate(1, 50);
    report(&mut world, 0);
    world.want(1, 96);
    assert_eq!(world.agents[1].refused, 1, "beyond its declaration");
}

#[test]
fn who_cannot_run_for_now_lets_others_pass() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 40);
    world.load(2, best_effort(), 60);
    world.capacity(50);
    world.finish_swaps();
    assert_eq!(world.status(1).usage.resident, Bytes(0));
    world.request(2);
    world.finish_swaps();
    assert!(!world.runs(2), "60 of 50");
    world.request(1);
    assert!(world.runs_after_swaps(1), "{:#?}", world.scheduler.state());
    world.complete(1);
    world.capacity(100);
    assert!(world.runs_after_swaps(2));
}

#[test]
fn chunks_that_have_left_are_movable_while_the_others_leave() {
    // Realtime needs all of the GPU in turn: what best-effort holds must be able to leave.
    let mut world = World::two(config(100));
    world.admit(3, best_effort());
    world.fill(3, Agent::pinning(20), 20);
    world.start(4, best_effort());
    world.want(4, 20);
    assert_eq!(world.op(3), Some((Direction::Out, 20)));
    world.chunk(3);
    assert_eq!(world.budget(4).1, 0);
    world.chunk(3);
    assert_eq!(world.budget(4).0, 20);
}
