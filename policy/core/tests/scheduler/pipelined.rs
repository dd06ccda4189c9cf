//! Scenes of pipelined regions: chunks change hands one by one.

use rtswap_policy::scheduler::{Direction, Event, JobEnd, Phase, SwapOutcome, ViolationKind};
use rtswap_policy::units::Nanos;

use crate::world::World;
use crate::world::setting::{MS, realtime};

/// Ready realtime tasks of 60 each in 100, of each of which 40 may leave.
fn ready(tasks: u32) -> World {
    let mut world = World::pipelined(100);
    for id in 1..=tasks {
        world.load(id, realtime(1_000 * u64::from(id), 10, 60, 40), 60);
    }
    for id in 1..=tasks {
        world.warm(id);
    }
    world.at(90_000);
    world
}

fn handed_out(world: &World) -> u64 {
    world.agents.iter().map(|agent| agent.budget.0).sum()
}

#[test]
fn eviction_and_swap_in_start_together_and_hand_over_each_chunk() {
    let mut world = ready(2);
    assert_eq!(world.out(1), 20);
    world.request(1);
    assert_eq!(world.op(1), Some((Direction::In, 0)));
    assert_eq!(world.op(2), Some((Direction::Out, 20)));
    assert!(!world.chunk(1), "nothing is free yet");
    for _ in 0..2 {
        assert!(world.chunk(2));
        assert_eq!(handed_out(&world), 100);
        assert!(world.chunk(1));
    }
    assert!(world.runs(1));
    assert_eq!(world.violations, []);
    world.complete(1);
    assert_eq!(world.account(1).end, JobEnd::Completed);
}

/// A task that became ready would keep the chunks that the region opened for. Another victim would
/// have to give them, and that one may still be draining.
#[test]
fn no_task_is_promoted_while_a_region_is_filled() {
    let mut world = World::pipelined(160);
    for id in 1..=3 {
        let period = 1_000 * u64::from(4 - id);
        world.load(id, realtime(period, 10, 60, 40), 60);
    }
    world.at(90_000);
    assert_eq!(world.out(1), 20);
    world.request(1);
    assert_eq!(world.op(1), Some((Direction::In, 0)));
    assert_eq!(world.op(3), None);
    world.request(3);
    assert_eq!(world.status(3).phase, Phase::Loading);
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    assert!(world.runs_after_swaps(3));
    world.complete(3);
    assert_eq!(world.status(3).phase, Phase::Ready);
}

#[test]
fn nothing_leaves_early_for_what_a_running_job_holds() {
    let mut world = ready(2);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.request(2);
    assert_eq!(world.op(2), None, "the job that runs has its chunks");
    world.complete(1);
    assert_eq!(world.op(2), Some((Direction::In, 0)));
    assert_eq!(world.op(1), Some((Direction::Out, 20)));
    assert!(world.runs_after_swaps(2));
}

#[test]
fn a_region_opens_beside_a_running_job_if_others_can_give_all() {
    let mut world = World::pipelined(100);
    world.load(1, realtime(1_000, 10, 20, 0), 20);
    world.load(2, realtime(1_000, 10, 60, 40), 60);
    world.load(3, realtime(1_000, 10, 60, 40), 60);
    for id in [1, 2, 3] {
        world.warm(id);
    }
    world.at(9_000);
    world.request(1);
    assert!(world.runs(1));
    world.request(2);
    assert_eq!(world.op(2), Some((Direction::In, 0)));
    world.finish_swaps();
    assert!(!world.runs(2));
    world.complete(1);
    assert!(world.runs(2));
}

#[test]
fn a_victim_that_ends_short_is_asked_again_later() {
    let mut world = ready(2);
    world.request(1);
    world.chunk(2);
    world.end_swap(2, 10, SwapOutcome::Failed);
    // Nobody else has any: the swap-in is stopped, and others may pass.
    assert_eq!(world.op(1), None);
    assert_eq!(world.violations, [(1, ViolationKind::Emergency)]);
    world.at(90_101);
    assert_eq!(world.op(1), Some((Direction::In, 0)));
    assert_eq!(world.op(2), Some((Direction::Out, 20)));
    assert!(world.runs_after_swaps(1), "{:#?}", world.scheduler.state());
}

#[test]
fn memory_of_a_victim_that_dies_is_waited_for() {
    let mut world = ready(2);
    world.request(1);
    world.chunk(2);
    world.detach(2);
    assert_eq!(world.op(1), Some((Direction::In, 0)));
    world.pass(4);
    world.release(2);
    assert!(world.runs_after_swaps(1));
    assert_eq!(world.violations, []);
}

#[test]
fn a_victim_that_dies_and_is_not_released_leaves_its_region_to_try_again() {
    let mut world = ready(2);
    world.request(1);
    world.chunk(2);
    world.detach(2);
    // Nobody else has any: the swap-in is stopped, and others may pass.
    let due = world.now + Nanos(5 * MS);
    assert_eq!(world.scheduler.poll_timeout(), Some(due));
    world.pass(5);
    assert_eq!(world.op(1), None);
    assert_eq!(world.violations, [(1, ViolationKind::Emergency)]);
    world.release(2);
    world.pass(5);
    assert!(world.runs_after_swaps(1));
}

#[test]
fn a_region_that_dies_leaves_its_evictions_to_end() {
    let mut world = ready(2);
    world.request(1);
    world.chunk(2);
    world.detach(1);
    world.request(2);
    world.finish_swaps();
    assert!(!world.runs(2), "the dead are counted until released");
    world.release(1);
    world.pass(10);
    assert!(world.runs_after_swaps(2), "{:#?}", world.scheduler.state());
}

#[test]
fn less_capacity_in_a_region_takes_more_from_others() {
    let mut world = ready(2);
    world.request(1);
    world.capacity(90);
    assert!(world.runs_after_swaps(1), "{:#?}", world.scheduler.state());
    assert!(handed_out(&world) <= 90);
    assert_eq!(world.violations, [(2, ViolationKind::Emergency)]);
}

#[test]
fn a_victim_that_hangs_costs_its_bound_and_no_more() {
    let mut world = ready(2);
    world.request(1);
    assert!(world.op(2).is_some());
    let wake = world.scheduler.poll_timeout().unwrap();
    assert!(wake > world.now);
    world.now = wake;
    world.tell(Event::Timer);
    assert!(world.violated(2, ViolationKind::SwapOverdue));
    assert!(world.violated(1, ViolationKind::Emergency));
    assert_eq!(world.scheduler.state().gpu().region, None);
}
