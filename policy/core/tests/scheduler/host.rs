//! Scenes of backing stores while the host's memory is short.

use rtswap_policy::scheduler::{Event, Scheduler};
use rtswap_policy::task::TaskId;

use crate::world::World;
use crate::world::setting::{best_effort, config, realtime};

fn store(scheduler: &Scheduler, id: u32) -> u64 {
    let task = scheduler.state().task(TaskId(id));
    task.map_or(0, |task| task.backing.0)
}

fn is_short(world: &mut World, short: bool) {
    assert!(world.tell(Event::HostMemory { short }));
}

/// Two tasks with memory, of which 2 ran last.
fn two() -> World {
    let mut world = World::new(config(100));
    for id in [1, 2] {
        world.load(id, best_effort(), 30);
    }
    for id in [1, 2] {
        world.request(id);
        world.complete(id);
    }
    assert!(store(&world.scheduler, 1) >= 30 && store(&world.scheduler, 2) >= 30);
    world
}

#[test]
fn idle_tasks_give_back_stores_that_hold_nothing_the_longest_idle_first() {
    let mut world = two();
    is_short(&mut world, true);
    assert!(store(&world.scheduler, 1) >= 30, "nobody is idle yet");
    world.pass(1_000);
    is_short(&mut world, true);
    assert_eq!(store(&world.scheduler, 1), 0);
    assert!(store(&world.scheduler, 2) >= 30, "one at a time");
    is_short(&mut world, true);
    assert_eq!(store(&world.scheduler, 2), 0);
    // A job of its own needs no store.
    world.request(1);
    assert!(world.runs(1));
    world.complete(1);
    assert_eq!(store(&world.scheduler, 1), 0);
    is_short(&mut world, false);
    assert!(store(&world.scheduler, 1) >= 30 && store(&world.scheduler, 2) >= 30);
    assert_eq!(world.violations, []);
}

#[test]
fn what_holds_memory_that_has_left_stays() {
    let mut world = two();
    world.tell(Event::Park { task: TaskId(1) });
    world.finish_swaps();
    assert_eq!(world.out(1), 30);
    world.pass(1_000);
    is_short(&mut world, true);
    assert_eq!(
        store(&world.scheduler, 1),
        30,
        "only what it had beyond that"
    );
    world.tell(Event::Resume { task: TaskId(1) });
    world.request(1);
    assert!(world.runs_after_swaps(1));
}

#[test]
fn who_keeps_others_from_the_gpu_gets_back_what_it_needs_to_leave() {
    let mut world = two();
    world.pass(1_000);
    is_short(&mut world, true);
    is_short(&mut world, true);
    assert_eq!(store(&world.scheduler, 1), 0);
    world.load(3, best_effort(), 20);
    world.want(3, 50);
    assert_eq!(
        (world.op(1), world.op(2)),
        (None, None),
        "nothing can leave"
    );
    assert_eq!(world.agent(3).refused, 0, "it waits");
    is_short(&mut world, true);
    world.finish_swaps();
    assert!(world.out(1) + world.out(2) >= 10);
    assert_eq!(world.agent(3).refused, 0);
    assert_eq!(world.violations, []);
}

#[test]
fn beside_realtime_who_is_on_the_gpu_can_leave_it_at_once() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(300, 10, 60, 40), 60);
    world.load(2, best_effort(), 60);
    world.pass(10_000);
    let store_before = store(&world.scheduler, 2);
    assert!(world.out(2) < 60, "some of it is on the GPU");
    for _ in 0..3 {
        is_short(&mut world, true);
        world.pass(1_000);
    }
    assert!(store_before >= 60);
    assert_eq!(store(&world.scheduler, 2), store_before);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    assert_eq!(world.violations, []);
}

#[test]
fn realtime_tasks_keep_theirs() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(300, 10, 60, 40), 60);
    let before = store(&world.scheduler, 1);
    world.pass(10_000);
    is_short(&mut world, true);
    assert_eq!(store(&world.scheduler, 1), before);
}
