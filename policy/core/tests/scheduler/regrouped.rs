//! What several processes of a task have together, and wants that only have to wait.

use rtswap_policy::scheduler::{Direction, Event, EventError, SwapOutcome};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos};

use crate::world::setting::{best_effort, config};
use crate::world::{Agent, Answers, World};

/// Task 1, of several processes, holds 60 and comes in, so that some of the `others` of task 2 is out.
fn on_its_way_in(pinnable: u64, others: u64) -> World {
    let mut world = World::new(config(100));
    world.admit(1, best_effort());
    world.fill(1, Agent::pinning(pinnable), 60);
    world.load(2, best_effort(), others);
    world.request(2);
    assert!(world.runs_after_swaps(2));
    world.request(1);
    world.complete(2);
    world.swap_until_in(1);
    while world.op(2).is_some() {
        world.chunk(2);
    }
    world
}

#[test]
fn a_swap_in_whose_budget_turns_out_too_small_is_begun_anew() {
    let mut world = on_its_way_in(100, 50);
    let Agent { budget, usage, .. } = world.agent(1);
    // A process that held 30 is gone, and had not freed what it was thought to have.
    *budget -= Bytes(30);
    let arena = *budget + usage.swapped;
    (usage.resident, usage.arena) = (*budget, arena);
    world.regroup(1, 30);
    world.release(1);
    assert!(world.runs_after_swaps(1), "{:?}", world.status(1));
    assert_eq!(world.status(1).budget, arena);
}

#[test]
fn what_comes_in_can_leave_again_for_a_want() {
    // Its backing store holds what is out now and no more.
    let mut world = on_its_way_in(50, 90);
    assert_eq!(world.out(1), 50);
    assert_eq!(world.budget(2).0, 40);
    world.want(2, 50);
    assert_eq!(world.budget(2).1, 0, "{:?}", world.status(1));
    world.finish_swaps();
    world.complete(1);
    world.finish_swaps();
    assert_eq!(world.budget(2).1, 0);
    let status = world.status(2);
    assert_eq!(status.budget + status.usage.swapped, Bytes(100));
}

#[test]
fn what_was_taken_and_not_reported_yet_refuses_no_want() {
    let mut world = World::new(config(100));
    world.start(1, best_effort());
    world.want(1, 40);
    // Taken, and its report is under way when the budget that it seems not to use is asked for.
    world.agent(1).usage.resident = Bytes(40);
    world.load(2, best_effort(), 50);
    world.at(1_000);
    world.want(2, 80);
    assert_eq!(world.status(1).usage.resident, Bytes(40));
    assert_eq!(world.budget(2).1, 0);
    world.agent(1).usage.resident = Bytes::ZERO;
    world.allocate(1, 40);
    world.finish_swaps();
    assert_eq!(world.budget(2).0, 80);
}

#[test]
fn a_swap_out_cannot_end_beyond_a_backing_store_that_fell() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 60);
    world.start(2, best_effort());
    world.want(2, 60);
    assert_eq!(world.op(1), Some((Direction::Out, 20)));
    let op = world.agents[1].op.unwrap().seq;
    // A process of task 1 is gone, and its backing store with it: nobody has grown the rest yet.
    world.answers = Answers::Nothing;
    let Agent { usage, backing, .. } = world.agent(1);
    (usage.resident, usage.arena) = (Bytes(30), Bytes(30));
    *backing = Bytes(10);
    assert!(world.regroup(1, 30));
    let ended = |swapped| Event::SwapEnded {
        task: TaskId(1),
        op,
        swapped: Bytes(swapped),
        took: Nanos::ZERO,
        outcome: SwapOutcome::Done,
    };
    let refused = world.handle(ended(20));
    assert!(
        matches!(refused, Err(EventError::Impossible { .. })),
        "{refused:?}"
    );
    world.handle(ended(10)).unwrap();
    assert_eq!(world.out(1), 10);
}
