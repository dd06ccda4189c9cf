//! Scenes of best-effort tasks that take turns: two or more of 70 in 100, chunks of 10, and a
//! millisecond for each chunk in either direction.

use rtswap_policy::scheduler::{
    Config, Direction, Event, JobEnd, Sharing, Undrained, ViolationKind,
};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

use crate::world::setting::{best_effort, config, realtime};
use crate::world::{Answers, World};

/// Tasks that are loaded; the last one is wholly in.
fn loaded(tasks: u32) -> World {
    let mut world = World::new(config(100));
    for id in 1..=tasks {
        world.load(id, best_effort(), 70);
    }
    world
}

/// The job of `id` is requested and completed after `millis`.
fn job(world: &mut World, id: u32, millis: u64) {
    world.request(id);
    assert!(world.runs_after_swaps(id), "{:?}", world.status(id));
    world.pass(millis);
    world.complete(id);
}

/// Both compute without end: 1 has run alone until now, and 2 has just got its first turn.
fn endless() -> World {
    let mut world = loaded(2);
    // A new task begins where the others are.
    for (id, millis) in [(2, 500), (1, 1)] {
        job(&mut world, id, millis);
        world.pass(1);
        job(&mut world, id, millis);
    }
    world.pass(2_000);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.pass(10);
    world.complete(1);
    world.pass(1);
    world.request(1);
    world.request(2);
    // It comes after idleness, and so at once.
    assert!(world.agents[1].revoked);
    world.complete(1);
    world.request(1);
    assert!(world.runs_after_swaps(2));
    world
}

#[test]
fn who_comes_after_idleness_is_served_at_once() {
    let mut world = loaded(2);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.at(3_000);
    world.request(2);
    assert!(world.agents[1].revoked);
    world.complete(1);
    assert_eq!(world.account(1).end, JobEnd::Revoked);
    assert!(world.runs_after_swaps(2));
}

#[test]
fn a_turn_pays_for_its_swap_and_lasts_over_many_jobs() {
    let mut world = endless();
    // 40 leave and 40 come, at the same time: 4 ms, of which nine times as much is the turn ...
    world.pass(30);
    world.complete(2);
    // ... at least 50 ms. Between two jobs the GPU is kept for it.
    assert!(!world.runs(1) && world.op(2).is_none());
    world.pass(1);
    world.request(2);
    assert!(world.runs(2));
    // The time in between counts.
    world.pass(18);
    assert!(!world.agents[2].revoked);
    world.pass(2);
    assert!(world.agents[2].revoked);
}

#[test]
fn chunks_leave_and_come_at_the_same_time() {
    let mut world = endless();
    world.pass(100);
    world.complete(2);
    assert_eq!(world.op(1), Some((Direction::In, 0)));
    assert_eq!(world.op(2), Some((Direction::Out, 40)));
    world.chunk(2);
    assert!(world.chunk(1));
    assert_eq!(world.out(1), 30);
}

#[test]
fn a_task_that_does_not_come_back_loses_its_turn() {
    let mut world = endless();
    world.pass(10);
    world.complete(2);
    assert!(!world.runs(1));
    world.pass(10);
    assert!(world.runs_after_swaps(1));
}

#[test]
fn memory_comes_in_ahead_of_the_turn_from_those_that_have_theirs_later() {
    let mut world = loaded(3);
    world.request(3);
    assert!(world.runs_after_swaps(3));
    world.request(1);
    world.complete(3);
    world.request(3);
    world.finish_swaps();
    assert!(world.runs(1), "{:#?}", world.scheduler.state());
    // 2 is idle and holds nothing or something; what 3 lacks comes while 1 runs, as far as it can.
    world.finish_swaps();
    assert_eq!(world.status(2).usage.resident.0, 0);
    assert_eq!(world.status(3).usage.resident.0, 30);
    assert!(world.runs(1));
}

#[test]
fn what_comes_ahead_does_not_hold_up_one_that_is_served_at_once() {
    let mut world = World::new(config(100));
    for (id, bytes) in [(1, 30), (2, 70), (3, 70)] {
        world.load(id, best_effort(), bytes);
    }
    for id in [2, 1] {
        job(&mut world, id, 1);
    }
    world.pass(2_000);
    job(&mut world, 1, 10);
    world.pass(1);
    world.request(1);
    world.pass(5);
    world.request(3);
    while world.op(3) != Some((Direction::In, 0)) {
        assert!(world.swap_any(Bytes(10)));
    }
    assert!(world.runs(1), "its memory comes while 1 has its turn");
    world.answers = Answers::Budgets;
    world.request(2);
    // Nothing else comes between, whatever ends first.
    world.complete(1);
    world.request(1);
    assert!(world.agents[3].op.is_some_and(|op| op.aborted));
    assert!(!world.runs(1));
    world.answers = Answers::All;
    world.settle();
    assert_ne!(world.op(3), Some((Direction::In, 0)));
    assert!(world.runs_after_swaps(2));
}

#[test]
fn memory_comes_in_ahead_for_the_one_that_has_waited_longest() {
    let mut world = loaded(3);
    // It has had so much more than the others that it waits until the bound gives it a turn.
    for (id, millis) in [(1, 1), (2, 1), (3, 20_000)] {
        job(&mut world, id, millis);
    }
    for id in [1, 2, 3] {
        world.request(id);
    }
    let mut ahead = 0;
    let waits_since = world.now;
    loop {
        world.finish_swaps();
        let running = (1..=3).find(|id| world.runs(*id)).unwrap();
        if running == 3 {
            break;
        }
        ahead = 70 - world.out(3);
        world.pass(10);
        world.complete(running);
        world.request(running);
    }
    let waited = (world.now - waits_since).0 / 1_000_000;
    assert!((14_000..15_000).contains(&waited), "{waited} ms");
    assert_eq!(ahead, 30, "what another waiting task held has left for it");
}

#[test]
fn what_an_idle_task_has_leaves_before_what_a_waiting_one_has() {
    let mut world = loaded(3);
    for id in [2, 3, 2] {
        job(&mut world, id, 1);
        world.pass(100);
    }
    world.request(2);
    world.pass(2_000);
    world.request(1);
    world.complete(2);
    world.request(2);
    assert!(world.runs_after_swaps(1));
    assert_eq!((world.out(3), world.out(2)), (70, 40));
}

/// A job that leaves for another best-effort job has time to: nothing is promised to that one. Once realtime
/// waits, it has the drain bound.
#[test]
fn the_drain_bound_counts_from_when_realtime_waits() {
    let mut world = World::new(config(200));
    world.load_ready(1, realtime(1_000, 10, 40, 40), 40);
    world.load(2, best_effort(), 100);
    world.load(3, best_effort(), 100);
    world.at(2_000);
    world.request(2);
    assert!(world.runs_after_swaps(2));
    world.pass(2_000);
    world.request(3);
    assert!(world.agents[2].revoked);
    world.pass(500);
    assert_eq!(world.violations, []);
    world.request(1);
    world.pass(1);
    assert_eq!(world.violations, []);
    world.pass(1);
    assert_eq!(world.violations, [(2, ViolationKind::Undrainable)]);
    assert!(world.runs_after_swaps(1));
}

#[test]
fn a_job_that_never_leaves_holds_others_up_for_a_second() {
    let mut world = loaded(2);
    world.request(2);
    assert!(world.runs_after_swaps(2));
    world.pass(2_000);
    world.request(1);
    assert!(world.agents[2].revoked);
    world.pass(1_000);
    assert_eq!(world.violations, []);
    world.pass(1);
    assert_eq!(world.violations, [(2, ViolationKind::Undrainable)]);
}

#[test]
fn under_auto_jobs_run_side_by_side_until_a_realtime_task_registers() {
    let mut world = World::new(Config {
        sharing: Sharing::Auto,
        ..config(100)
    });
    for id in [2, 3] {
        world.load(id, best_effort(), 30);
        world.request(id);
    }
    assert!(world.runs(2) && world.runs(3));
    assert!(world.admit(1, realtime(1_000, 10, 40, 40)));
    assert!(world.agents[2].revoked && world.agents[3].revoked);
    for id in [2, 3] {
        world.complete(id);
        world.request(id);
    }
    assert!(world.runs(2) != world.runs(3), "one at a time");
    world.tell(Event::Unregister { task: TaskId(1) });
    assert!(world.runs(2) && world.runs(3));
}

#[test]
fn shares_fall_while_nothing_happens() {
    let mut world = loaded(1);
    world.at(10_000);
    job(&mut world, 1, 30_000);
    let end = world.now;
    let share = |seconds: u64, of: &World| {
        let now = end + Nanos(seconds * 1_000_000_000);
        let turns = of.scheduler.state().turns(TaskId(1), now);
        turns.expect("it is best-effort").gpu_share
    };
    assert!(share(0, &world) > Ppm(700_000));
    assert!((Ppm(280_000)..Ppm(310_000)).contains(&share(60, &world)));
    assert_eq!(share(180, &world), Ppm(0));
    world.load_ready(2, realtime(1_000, 1, 10, 10), 10);
    assert_eq!(world.scheduler.state().turns(TaskId(2), end), None);
}

#[test]
fn a_job_for_which_nothing_can_be_done_holds_nobody_back_however_long_it_has_waited() {
    let mut world = World::new(config(200));
    for (id, bytes) in [(1, 100), (2, 70), (3, 70)] {
        world.load(id, best_effort(), bytes);
    }
    for id in [2, 3] {
        job(&mut world, id, 1);
        world.pass(2_000);
    }
    world.request(1);
    assert!(world.op(1).is_some());
    world.answers = Answers::Budgets;
    world.tell(Event::Stopped { task: TaskId(1) });
    for _ in 0..20 {
        for id in [2, 3] {
            world.pass(2_000);
            world.request(id);
            while !world.runs(id) {
                let moved = [2, 3].map(|id| world.op(id).is_some() && world.chunk(id));
                assert!(moved.contains(&true), "{:?}", world.status(id));
            }
            world.complete(id);
        }
    }
    assert!(world.status(1).job.unwrap().granted.is_none());
}

/// As every job of a task that is killed has: its process may need that long to die.
#[test]
fn one_that_is_killed_because_it_did_not_give_way_has_its_time_to_end() {
    let mut world = World::new(Config {
        undrained: Undrained::Kill(Nanos(250_000_000)),
        ..config(100)
    });
    for id in [1, 2] {
        world.load(id, best_effort(), 70);
    }
    world.request(2);
    assert!(world.runs_after_swaps(2));
    world.pass(2_000);
    world.request(1);
    assert!(world.agents[2].revoked);
    world.pass(1_001);
    assert_eq!(world.violations, [(2, ViolationKind::Undrainable)]);
    world.pass(249);
    assert_eq!(world.violations.len(), 1);
    world.pass(2);
    assert_eq!(world.violations.len(), 2, "others go on beside it");
}
