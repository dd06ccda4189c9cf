//! What a plan leaves to those that are not under it.

use rtswap_policy::scheduler::{Event, Phase};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::Bytes;

use crate::world::World;
use crate::world::setting::{best_effort, config, realtime};

/// A ready realtime task of 70 of which 50 can leave, with no need to.
fn alone() -> World {
    let mut world = World::new(config(100));
    world.load(1, realtime(1_000, 10, 70, 50), 70);
    world.warm(1);
    world.at(5_000);
    assert_eq!(world.status(1).volume, Some(Bytes::ZERO));
    world
}

#[test]
fn a_program_gets_what_realtime_can_do_without() {
    let mut world = alone();
    world.load(2, best_effort(), 60);
    assert_eq!(world.budget(2).1, 0);
    assert_eq!(world.status(1).volume, Some(Bytes(30)));
    assert_eq!(world.out(1), 30);
    world.request(1);
    world.finish_swaps();
    assert!(world.runs(1), "and gives it back for its next job");
    world.complete(1);
    // 80 is the most: 20 never leave.
    world.want(2, 81);
    world.finish_swaps();
    assert_eq!(world.budget(2).1, 1);
    assert_eq!(world.status(1).volume, Some(Bytes(30)));
}

#[test]
fn a_program_is_there_before_realtime() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 60);
    world.load(2, best_effort(), 50);
    assert!(world.admit(3, realtime(1_000, 10, 70, 50)));
    assert_eq!(world.status(3).volume, Some(Bytes(30)));
}

#[test]
fn who_is_demoted_has_its_memory_again() {
    let mut world = World::new(config(100));
    for id in [1, 2] {
        world.load(id, realtime(1_000, 10, 80, 70), 80);
        world.warm(id);
        world.at(5_000 * u64::from(id));
    }
    assert_eq!(world.status(1).volume, Some(Bytes(60)));
    world.demote(1);
    world.finish_swaps();
    assert_eq!(world.status(2).volume, Some(Bytes(60)), "not 0");
    for round in 0..3 {
        for id in [1, 2] {
            world.request(id);
            world.finish_swaps();
            assert!(world.runs(id), "{id} in round {round}");
            world.complete(id);
        }
        world.at(20_000 + 5_000 * round);
    }
}

/// Nobody has to pin anything, and so no event tells that the plan has changed.
#[test]
fn a_plan_that_nobody_has_to_confirm_is_looked_at_again() {
    let mut world = alone();
    let agent = world.agent(1);
    (agent.backing, agent.keeps) = (Bytes(30), true);
    let (task, bytes) = (TaskId(1), Bytes(30));
    world.tell(Event::Backing { task, bytes });
    world.start(2, best_effort());
    world.want(2, 60);
    assert_eq!(world.scheduler.poll_timeout(), Some(world.now));
    world.tell(Event::Timer);
    world.finish_swaps();
    assert_eq!(world.budget(2), (60, 0));
}

/// It took its memory before the realtime task took it away, so it asks for none.
#[test]
fn a_job_that_waits_gets_room() {
    let mut world = World::new(config(100));
    assert!(world.admit(1, realtime(1_000, 10, 70, 50)));
    world.load(2, best_effort(), 60);
    assert_eq!(world.budget(2).1, 0);
    world.join(1);
    world.want(1, 70);
    world.finish_swaps();
    world.allocate(1, 70);
    world.warm(1);
    world.at(5_000);
    assert_eq!(world.status(1).volume, Some(Bytes::ZERO));
    world.request(2);
    world.at(5_001);
    world.finish_swaps();
    assert!(world.runs(2), "{:?}", world.status(2));
    assert_eq!(world.status(1).volume, Some(Bytes(30)));
}

/// The deadlines leave time for 20 to be swapped: more is not to be had.
#[test]
fn the_promise_comes_first() {
    let mut world = World::new(config(100));
    world.load(1, realtime(28, 10, 70, 50), 70);
    world.warm(1);
    world.at(5_000);
    world.load(2, best_effort(), 50);
    assert_eq!(world.budget(2).1, 0);
    assert_eq!(world.status(1).volume, Some(Bytes(20)));
    world.want(2, 60);
    world.pass(100);
    assert_eq!(world.budget(2).1, 1);
    assert_eq!(world.status(1).volume, Some(Bytes(20)));
}

#[test]
fn what_cannot_be_pinned_is_not_promised() {
    let mut world = alone();
    world.agent(1).pinnable = Some(Bytes(20));
    world.start(2, best_effort());
    world.want(2, 60);
    world.pass(100);
    assert_eq!(world.budget(2).1, 1);
    assert_eq!(world.status(1).volume, Some(Bytes::ZERO));
    assert_eq!(world.status(1).phase, Phase::Ready);
    world.want(2, 50);
    world.pass(100);
    world.finish_swaps();
    assert_eq!(world.budget(2).1, 1, "20 can be pinned");
    assert_eq!(world.status(1).volume, Some(Bytes(20)));
}

#[test]
fn a_search_waits_for_the_end_of_realtime_jobs() {
    let mut world = alone();
    world.start(2, best_effort());
    world.agent(2).pinnable = Some(Bytes::ZERO);
    world.request(1);
    world.want(2, 60);
    assert_eq!(world.budget(2).1, 0, "not looked at yet");
    world.complete(1);
    assert_eq!(world.budget(2).1, 1);
}

/// Each search costs time that others need.
#[test]
fn a_search_does_not_follow_another_at_once() {
    let mut world = World::new(config(100));
    world.load(1, realtime(28, 10, 70, 50), 70);
    world.warm(1);
    world.at(5_000);
    world.start(2, best_effort());
    world.want(2, 100);
    assert_eq!(world.budget(2).1, 1);
    world.want(2, 60);
    world.at(5_050);
    assert_eq!(world.budget(2).1, 1, "not looked at yet");
    world.at(5_100);
    assert_eq!(world.budget(2).1, 2);
    world.want(2, 70);
    assert_eq!(world.budget(2).1, 3, "needs no search");
}
