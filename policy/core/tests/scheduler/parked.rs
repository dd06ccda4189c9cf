//! Scenes of parked tasks.

use rtswap_policy::scheduler::{
    Config, Direction, Event, EventError, JobEnd, JobKind, JobSeq, OpenJob, Overrun, Phase,
    SwapOutcome, Usage, ViolationKind,
};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use crate::world::setting::{MS, best_effort, config, realtime};
use crate::world::{Agent, World};

/// An idle best-effort task of 60.
fn idle() -> World {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 60);
    world.pass(1_000);
    world
}

#[test]
fn an_idle_task_leaves_wholly_and_comes_back_with_its_next_job() {
    let mut world = idle();
    world.park(1);
    assert_eq!(world.op(1), Some((Direction::Out, 60)));
    assert!(world.chunk(1));
    assert_eq!(world.status(1).leaving, Bytes(50));
    world.finish_swaps();
    assert_eq!(world.out(1), 60);
    assert_eq!(world.status(1).leaving, Bytes::ZERO);
    assert_eq!(world.status(1).budget, Bytes::ZERO);
    assert!(world.status(1).parked);
    world.park(1);
    world.resume(1);
    world.finish_swaps();
    assert_eq!((world.out(1), world.status(1).parked), (60, false));
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    assert_eq!(world.violations, []);
}

#[test]
fn a_job_that_waits_is_granted_after_the_return_and_not_before() {
    let mut world = idle();
    world.park(1);
    world.finish_swaps();
    world.request(1);
    world.pass(20_000);
    world.finish_swaps();
    assert!(!world.runs(1));
    assert_eq!(world.out(1), 60);
    assert_eq!(world.scheduler.poll_timeout(), None);
    // Nor does it keep the GPU from others, or the memory.
    world.load(2, best_effort(), 100);
    world.request(2);
    assert!(world.runs(2));
    world.complete(2);
    world.resume(1);
    world.pass(2_000);
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    let account = world.account(1);
    assert_eq!(account.end, JobEnd::Completed);
    assert_eq!(account.eligible, Time(21_000 * MS), "the return");
}

#[test]
fn a_job_that_waited_before_goes_out_of_its_queue() {
    let mut world = idle();
    world.load(2, best_effort(), 40);
    world.request(2);
    assert!(world.runs(2));
    world.request(1);
    world.park(1);
    world.complete(2);
    assert!(!world.runs(1));
    world.finish_swaps();
    assert_eq!(world.out(1), 60);
    world.resume(1);
    world.pass(2_000);
    assert!(world.runs_after_swaps(1));
}

#[test]
fn a_best_effort_job_that_runs_is_revoked_and_one_taken_over_too() {
    let mut world = idle();
    world.request(1);
    assert!(world.runs(1));
    world.park(1);
    assert!(world.agent(1).revoked);
    assert_eq!(world.op(1), None);
    world.complete(1);
    assert_eq!(world.account(1).end, JobEnd::Revoked);
    world.finish_swaps();
    assert_eq!(world.out(1), 60);
    // A daemon that starts again parks the task before its process is back.
    world.detach(1);
    let usage = Usage {
        resident: Bytes(60),
        arena: Bytes(60),
        ..Usage::default()
    };
    let open = OpenJob {
        job: JobSeq(7),
        running: true,
        kind: JobKind::Implicit,
    };
    world.attach(1, Agent::with(usage), Some(open));
    assert!(world.status(1).parked && world.agent(1).revoked);
    world.complete(1);
    world.finish_swaps();
    assert_eq!(world.out(1), 60);
}

#[test]
fn a_swap_in_that_is_under_way_is_ended() {
    let mut world = idle();
    world.park(1);
    world.finish_swaps();
    world.resume(1);
    world.request(1);
    assert_eq!(world.op(1), Some((Direction::In, 0)));
    assert!(world.chunk(1));
    world.park(1);
    world.finish_swaps();
    assert_eq!(world.out(1), 60);
    assert!(!world.runs(1));
    world.resume(1);
    assert!(world.runs_after_swaps(1));
    assert_eq!(world.violations, []);
}

#[test]
fn a_request_for_memory_waits_however_long_and_takes_nothing_from_others() {
    let mut world = idle();
    world.load(2, best_effort(), 20);
    world.park(1);
    world.finish_swaps();
    world.want(1, 20);
    world.request(2);
    world.pass(60_000);
    assert!(world.runs(2) && !world.agent(2).revoked);
    assert!(world.agent(1).want.is_some());
    assert_eq!(world.scheduler.poll_timeout(), None);
    world.resume(1);
    assert_eq!(world.agent(1).want, None);
    assert_eq!(world.budget(1), (20, 0));
}

#[test]
fn it_is_the_first_victim_and_makes_no_job_of_others_wait_for_a_turn() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 40);
    world.load(2, best_effort(), 40);
    // Task 2 has been idle for longer.
    world.request(2);
    world.complete(2);
    world.pass(1_000);
    world.request(1);
    world.complete(1);
    world.park(1);
    world.end_swap(1, 0, SwapOutcome::Failed);
    world.pass(200);
    world.load(3, best_effort(), 40);
    assert_eq!((world.out(1), world.out(2)), (40, 0));
}

#[test]
fn side_by_side_a_parked_task_does_not_run_either() {
    let mut world = World::shared();
    world.load(1, best_effort(), 20);
    world.load(2, best_effort(), 20);
    world.request(2);
    world.park(1);
    world.finish_swaps();
    world.request(1);
    assert!(world.runs(2) && !world.runs(1));
    assert_eq!(world.scheduler.state().gpu().running, [TaskId(2)]);
    world.resume(1);
    assert!(world.runs_after_swaps(1));
}

#[test]
fn a_realtime_task_leaves_and_returns_while_another_keeps_its_deadlines() {
    let mut world = World::two(config(100));
    let volume = world.status(1).volume;
    world.park(1);
    assert_eq!(world.status(1).phase, Phase::Loading);
    world.finish_swaps();
    for round in 0..16_u64 {
        world.at(6_000 + 1_000 * round);
        if round == 5 {
            world.request(1);
        }
        if round == 15 {
            world.resume(1);
        }
        world.request(2);
        assert!(world.runs_after_swaps(2));
        world.pass(2);
        world.complete(2);
        let account = world.account(2);
        assert!(Some(account.ended) <= account.deadline, "{account:?}");
        world.finish_swaps();
        if round < 15 {
            assert!(!world.runs(1));
            assert_eq!((world.out(1), world.status(1).volume), (60, volume));
        }
    }
    // The job that waited was the newcomer's first, as best-effort.
    assert!(world.runs(1));
    world.complete(1);
    assert_eq!(world.account(1).deadline, None);
    assert_eq!(world.status(1).phase, Phase::Ready);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    assert!(world.account(1).deadline.is_some());
    assert_eq!(world.violations, []);
}

#[test]
fn a_realtime_job_completes_before_its_task_leaves() {
    let mut world = World::two(config(100));
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.park(1);
    assert!(!world.agent(1).revoked);
    assert_eq!(world.status(1).phase, Phase::Ready);
    world.pass(3);
    world.complete(1);
    let account = world.account(1);
    assert_eq!(account.end, JobEnd::Completed);
    assert!(account.deadline.is_some());
    assert_eq!(world.status(1).phase, Phase::Loading);
    world.finish_swaps();
    assert_eq!(world.out(1), 60);
}

#[test]
fn a_region_that_is_open_goes_on_and_one_that_fails_waits() {
    for fails in [false, true] {
        let mut world = World::two(config(100));
        world.request(1);
        world.swap_until_in(1);
        world.park(1);
        assert_eq!(world.op(1), Some((Direction::In, 0)));
        if fails {
            while world.status(1).phase == Phase::Ready {
                world.swap_until_in(1);
                world.end_swap(1, 20, SwapOutcome::OutOfMemory);
            }
            assert!(world.violated(1, ViolationKind::Emergency));
        } else {
            assert!(world.runs_after_swaps(1));
            world.complete(1);
            assert!(world.account(1).deadline.is_some());
        }
        world.pass(200);
        world.finish_swaps();
        assert!(!world.runs(1));
        assert_eq!(world.out(1), 60);
    }
}

#[test]
fn no_release_is_gained_by_parking() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 40, 40), 40);
    world.at(5_000);
    world.request(1);
    world.complete(1);
    world.park(1);
    world.resume(1);
    // Nothing of it has left yet: it is ready with its next job, which is not eligible before.
    world.finish_swaps();
    world.request(1);
    world.finish_swaps();
    if world.runs(1) {
        world.complete(1);
        world.request(1);
    }
    assert_eq!(world.status(1).job.unwrap().eligible, Time(6_000 * MS));
}

#[test]
fn its_swap_out_makes_way_for_realtime_and_is_tried_again() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 40, 0), 40);
    world.load(2, best_effort(), 60);
    world.at(5_000);
    world.park(2);
    assert!(world.chunk(2));
    assert_eq!(world.op(2), Some((Direction::Out, 60)));
    world.request(1);
    assert!(world.runs(1));
    assert_eq!((world.op(2), world.out(2)), (None, 10));
    world.complete(1);
    world.finish_swaps();
    assert_eq!(world.out(2), 60);
}

#[test]
fn what_ends_it_ends_it_cleanly() {
    let mut world = idle();
    world.park(1);
    world.finish_swaps();
    world.request(1);
    // A process that goes and comes back is parked still.
    world.detach(1);
    world.join(1);
    assert!(world.status(1).parked);
    world.request(1);
    assert!(!world.runs(1));
    // One whose registration ends could not be resumed.
    world.unregister(1);
    assert!(!world.status(1).parked);
    assert!(world.runs_after_swaps(1));
    let event = Event::Park { task: TaskId(1) };
    assert_eq!(
        world.handle(event),
        Err(EventError::NotRegistered(TaskId(1)))
    );
    world.complete(1);
    let mut world = World::two(config(100));
    world.park(1);
    world.demote(1);
    world.finish_swaps();
    world.request(1);
    assert_eq!((world.runs(1), world.out(1)), (false, 60));
    assert_eq!(world.status(1).phase, Phase::BestEffort);
}

#[test]
fn a_job_that_overruns_while_its_task_is_parked_is_revoked_once_it_has_no_deadline() {
    let mut world = World::two(Config {
        overrun: Overrun::Demote,
        ..config(100)
    });
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.park(1);
    world.pass(50);
    assert!(world.violated(1, ViolationKind::Overrun) && world.agent(1).revoked);
}

#[test]
fn what_no_host_memory_can_be_had_for_stays() {
    let mut world = World::new(config(100));
    assert!(world.admit(1, best_effort()));
    world.fill(1, Agent::pinning(40), 60);
    world.pass(1_000);
    world.park(1);
    world.finish_swaps();
    assert_eq!((world.out(1), world.status(1).leaving), (40, Bytes::ZERO));
    assert_eq!(world.scheduler.poll_timeout(), None);
}
