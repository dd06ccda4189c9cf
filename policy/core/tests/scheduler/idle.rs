//! Scenes of best-effort tasks that leave the GPU because they have idled for as long as they may.

use rtswap_policy::scheduler::{Direction, Event, JobEnd, Phase, SwapOutcome};
use rtswap_policy::task::TaskSpec;
use rtswap_policy::units::{Nanos, Time};

use crate::world::World;
use crate::world::setting::{MS, best_effort, config, realtime};

/// A best-effort task that may idle for this many milliseconds.
fn leaving_after(millis: u64) -> TaskSpec {
    TaskSpec {
        idle_after: Some(Nanos(millis * MS)),
        ..best_effort()
    }
}

#[test]
fn it_leaves_at_its_time_and_comes_back_with_its_next_job() {
    let mut world = World::new(config(100));
    world.load(1, leaving_after(500), 60);
    world.request(1);
    assert!(world.runs(1));
    world.pass(1_000);
    assert_eq!(world.op(1), None, "it runs");
    world.complete(1);
    let left = world.now;
    assert_eq!(world.scheduler.poll_timeout(), Some(left + Nanos(500 * MS)));
    world.pass(499);
    assert_eq!(world.op(1), None);
    world.pass(1);
    assert_eq!(world.op(1), Some((Direction::Out, 60)));
    world.finish_swaps();
    assert_eq!((world.out(1), world.budget(1)), (60, (0, 0)));
    assert_eq!(world.scheduler.poll_timeout(), None);
    world.pass(10_000);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    assert_eq!(world.account(1).end, JobEnd::Completed);
    world.pass(500);
    world.finish_swaps();
    assert_eq!(world.out(1), 60);
    assert_eq!(world.violations, []);
}

#[test]
fn one_that_loads_and_asks_for_memory_is_not_idle() {
    let mut world = World::new(config(100));
    world.load(1, leaving_after(500), 20);
    for _ in 0..4 {
        world.pass(400);
        world.want(1, 10);
        assert_eq!(world.op(1), None);
    }
    world.pass(500);
    world.finish_swaps();
    assert_eq!(world.out(1), 20, "what it has taken");
    assert_eq!(world.budget(1), (0, 0), "what it has not");
}

#[test]
fn all_leave_one_after_another_by_the_time_that_each_was_due() {
    let mut world = World::new(config(100));
    world.load(1, leaving_after(900), 30);
    world.load(2, leaving_after(300), 30);
    world.load(3, best_effort(), 30);
    world.pass(2_000);
    assert_eq!(world.op(2), Some((Direction::Out, 30)));
    assert_eq!(world.op(1), None);
    world.finish_swaps();
    assert_eq!((world.out(1), world.out(2), world.out(3)), (30, 30, 0));
}

#[test]
fn work_that_comes_meanwhile_keeps_the_rest() {
    let mut world = World::new(config(100));
    world.load(1, leaving_after(500), 60);
    world.pass(500);
    assert!(world.chunk(1));
    world.request(1);
    world.swap_until_in(1);
    // The chunk that had left, and at most the one that was on its way.
    assert!(world.out(1) <= 20, "{}", world.out(1));
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    world.pass(500);
    world.finish_swaps();
    assert_eq!(world.out(1), 60);
    assert_eq!(world.violations, []);
}

#[test]
fn realtime_jobs_do_not_wait_for_it_and_realtime_tasks_stay() {
    let mut world = World::new(config(80));
    let spec = TaskSpec {
        idle_after: Some(Nanos(500 * MS)),
        ..realtime(4, 1, 40, 40)
    };
    world.load_ready(1, spec, 40);
    world.load(2, leaving_after(700), 40);
    world.at(5_000);
    world.finish_swaps();
    assert_eq!((world.out(1), world.out(2)), (0, 40));
    // It comes back, and idles again while the other has a job.
    world.request(2);
    assert!(world.runs_after_swaps(2));
    world.complete(2);
    world.at(5_699);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.pass(1);
    assert_eq!(world.op(2), None, "a realtime job runs");
    world.complete(1);
    assert_eq!(world.op(2), Some((Direction::Out, 40)));
    assert!(world.chunk(2));
    world.at(5_703);
    world.request(1);
    assert!(world.runs(1), "at once, beside the swap");
    world.pass(1);
    world.complete(1);
    let account = world.account(1);
    assert!(Some(account.ended) <= account.deadline, "{account:?}");
    world.finish_swaps();
    world.pass(30_000);
    world.finish_swaps();
    assert_eq!((world.out(1), world.out(2)), (0, 40));
    assert_eq!(world.status(1).phase, Phase::Ready);
    assert_eq!(world.violations, []);
}

#[test]
fn a_new_time_counts_for_a_task_that_idles_already() {
    let mut world = World::new(config(100));
    world.load(1, best_effort(), 60);
    world.pass(5_000);
    assert!(world.change(1, &leaving_after(6_000)));
    assert_eq!(world.op(1), None);
    assert!(world.change(1, &leaving_after(500)));
    assert_eq!(world.op(1), Some((Direction::Out, 60)));
    world.finish_swaps();
    assert!(world.change(1, &best_effort()));
    world.request(1);
    assert!(world.runs_after_swaps(1));
    world.complete(1);
    world.pass(60_000);
    assert_eq!((world.op(1), world.out(1)), (None, 0));
}

#[test]
fn what_cannot_leave_now_is_tried_again_and_not_without_end() {
    let mut world = World::new(config(100));
    world.load(1, leaving_after(500), 60);
    world.pass(500);
    world.end_swap(1, 0, SwapOutcome::Failed);
    let again = world.scheduler.poll_timeout().expect("it is tried again");
    assert!(again > world.now);
    world.tell(Event::Timer);
    assert_eq!(world.op(1), None);
    world.at(again.0.div_ceil(MS));
    assert_eq!(world.op(1), Some((Direction::Out, 60)));
    world.finish_swaps();
    assert_eq!(world.out(1), 60);
    assert!(world.now >= Time(500 * MS));
}
