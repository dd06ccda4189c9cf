//! Scenes of requests for memory that wait.

use rtswap_policy::scheduler::SwapOutcome;

use crate::world::setting::{MS, best_effort, config, engine};
use crate::world::{Agent, World};

/// A GPU that task 1 fills, and on which a chunk moves in one second. Tasks 2 and 3 each want more than half of it.
fn queued() -> World {
    let mut config = config(100);
    (config.swap_cost.out, config.swap_cost.in_) = (engine(1_000 * MS), engine(1_000 * MS));
    let mut world = World::new(config);
    world.load(1, best_effort(), 100);
    for id in [2, 3] {
        world.start(id, best_effort());
        world.want(id, 60);
    }
    assert_eq!((world.budget(2), world.budget(3)), ((0, 0), (0, 0)));
    world
}

/// What moves takes so many seconds.
fn swap_for(world: &mut World, id: u32, seconds: u64) {
    let (_, target) = world.op(id).expect("its memory leaves");
    world.pass(seconds * 1_000);
    world.end_swap(id, target, SwapOutcome::Done);
}

#[test]
fn who_waits_behind_others_is_not_refused_while_they_get_theirs() {
    let mut world = queued();
    swap_for(&mut world, 1, 4);
    assert_eq!(world.budget(2), (60, 0));
    world.allocate(2, 60);
    world.pass(20);
    for id in [1, 2] {
        assert_eq!(world.budget(3), (0, 0), "it waits");
        swap_for(&mut world, id, 2);
    }
    assert_eq!(world.budget(3), (60, 0), "after eight seconds");
    assert_eq!(world.violations, []);
}

#[test]
fn who_comes_no_nearer_is_refused() {
    let mut world = queued();
    swap_for(&mut world, 1, 4);
    world.allocate(2, 60);
    world.pass(4_999);
    assert_eq!(world.budget(3), (0, 0));
    world.pass(1);
    assert_eq!(
        world.budget(3),
        (0, 1),
        "five seconds after the last grant before it"
    );
}

#[test]
fn those_who_asked_later_keep_nobody_waiting() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 60);
    world.request(1);
    world.start(2, best_effort());
    world.want(2, 60);
    world.start(3, best_effort());
    for second in 0..5 {
        assert_eq!(world.budget(2), (0, 0), "after {second} seconds");
        world.want(3, second + 1);
        world.pass(1_000);
    }
    assert_eq!(world.budget(2), (0, 1));
}

#[test]
fn the_time_that_its_own_store_takes_counts_for_nobody() {
    // Beside realtime memory is given only where it can leave again.
    let mut world = World::two(config(100));
    world.admit(3, best_effort());
    let late = Agent {
        pins_late: true,
        ..Agent::default()
    };
    world.attach(3, late, None);
    world.want(3, 20);
    let before = world.agent(3).asked_stores;
    assert_eq!(before, 1);
    world.pass(8_000);
    assert_eq!(world.budget(3), (0, 0), "it is pinning");
    world.pin_now(3);
    world.finish_swaps();
    assert_eq!(world.budget(3), (20, 0));
}
