//! Scenes of realtime tasks, and of what goes wrong with them.

use rtswap_policy::scheduler::{
    Config, Direction, Event, EventError, JobEnd, JobKind, JobSeq, MAX_TASKS, OpenJob, Overrun,
    Phase, Refusal, Scheduler, SwapOutcome, Usage, ViolationKind,
};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::world::setting::{MS, best_effort, config, realtime};
use crate::world::{Agent, World};

/// Of two tasks 20 each may leave, and 20 of task 1 are out.
fn two() -> World {
    let world = World::two(config(100));
    assert_eq!(world.out(1), 20);
    world
}

#[test]
fn what_fits_runs_without_a_swap() {
    let mut world = World::new(config(100));
    world.load(1, realtime(100, 10, 40, 40), 40);
    world.load(2, realtime(100, 10, 40, 40), 40);
    world.request(1);
    assert!(world.runs(1));
    world.request(2);
    assert!(!world.runs(2));
    world.at(7);
    world.complete(1);
    assert!(world.runs(2));
    world.at(9);
    world.complete(2);
    let second = world.account(2);
    assert_eq!(second.queue, Nanos(7 * MS));
    assert_eq!(second.execution, Nanos(2 * MS));
    assert_eq!(second.blocked_by, Some(TaskId(1)));
    assert_eq!(second.deadline, Some(Time(100 * MS)));
    assert_eq!(world.violations, []);
}

#[test]
fn exactly_what_is_lacking_leaves_and_the_account_says_so() {
    let mut world = two();
    world.request(1);
    assert_eq!(world.op(2), Some((Direction::Out, 20)));
    world.at(5_003);
    world.end_swap(2, 20, SwapOutcome::Done);
    assert_eq!(world.op(1), Some((Direction::In, 0)));
    world.at(5_008);
    world.end_swap(1, 0, SwapOutcome::Done);
    assert!(world.runs(1));
    world.at(5_010);
    world.complete(1);
    let account = world.account(1);
    assert_eq!(account.queue, Nanos(0));
    assert_eq!(account.swap_out, Nanos(3 * MS));
    assert_eq!(account.swap_in, Nanos(5 * MS));
    assert_eq!(account.execution, Nanos(2 * MS));
}

#[test]
fn the_earliest_deadline_goes_first_but_no_region_is_preempted() {
    let mut world = World::new(config(100));
    world.load(1, realtime(150, 10, 60, 40), 60);
    world.load(2, realtime(2_000, 10, 60, 40), 60);
    world.load(3, realtime(300, 10, 10, 0), 10);
    for id in [1, 2, 3] {
        world.warm(id);
    }
    world.at(9_000);
    world.request(1);
    assert!(world.runs_after_swaps(1));
    // Task 2 heads the queue, but task 1, which must make room for it, runs.
    world.request(2);
    assert_eq!(world.op(1), None);
    // Task 3 is due before it, and goes first when the GPU is free.
    world.request(3);
    world.complete(1);
    world.request(1);
    assert!(world.runs(3));
    assert_eq!(world.op(1).unwrap().0, Direction::Out);
    world.at(9_090);
    world.complete(3);
    world.end_swap(1, 30, SwapOutcome::Done);
    // The region of task 2 is open: task 1, due before it, must wait for its end.
    assert_eq!(world.op(2), Some((Direction::In, 0)));
    world.at(9_150);
    assert_eq!(world.scheduler.state().gpu().queue, [TaskId(1)]);
    world.end_swap(2, 0, SwapOutcome::Done);
    assert!(world.runs(2) && !world.runs(1));
}

#[test]
fn who_comes_too_often_delays_only_itself() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(100, 10, 40, 40), 40);
    world.at(30);
    world.request(1);
    assert!(!world.runs(1));
    assert_eq!(world.scheduler.poll_timeout(), Some(Time(100 * MS)));
    world.at(100);
    assert!(world.runs(1));
    world.complete(1);
    assert_eq!(world.account(1).eligible, Time(100 * MS));
}

#[test]
fn registering_again_keeps_the_next_release() {
    let mut world = World::new(config(100));
    let mut spec = realtime(1_000, 10, 40, 40);
    spec.name = "again".into();
    world.register(1, spec.clone());
    world.join(1);
    world.request(1);
    world.complete(1);
    world.unregister(1);
    world.detach(1);
    assert!(world.scheduler.state().task(TaskId(1)).is_some(), "dying");
    world.release(1);
    assert!(world.scheduler.state().task(TaskId(1)).is_none());
    world.at(10);
    world.register(2, spec);
    world.join(2);
    world.request(2);
    assert_eq!(world.status(2).job.unwrap().eligible, Time(1_000 * MS));
}

#[test]
fn what_a_dead_task_held_is_dying_until_released() {
    let mut world = two();
    world.request(1);
    assert_eq!(world.op(2), Some((Direction::Out, 20)));
    world.detach(2);
    assert_eq!(world.status(2).dying, Bytes(60));
    assert_eq!(world.op(1), None);
    world.release(2);
    world.at(5_005);
    assert!(world.runs_after_swaps(1));
}

#[test]
fn a_want_waits_for_what_one_of_several_processes_held() {
    let mut world = World::new(config(100));
    world.admit(1, best_effort());
    world.fill(1, Agent::pinning(0), 80);
    world.start(2, best_effort());
    let Agent { usage, budget, .. } = world.agent(1);
    (usage.resident, usage.arena) = (Bytes(30), Bytes(30));
    *budget = Bytes(30);
    world.regroup(1, 50);
    let status = world.status(1);
    assert_eq!((status.dying, status.budget), (Bytes(50), Bytes(30)));
    world.want(2, 60);
    assert_eq!(world.budget(2), (0, 0));
    world.release(1);
    assert_eq!(world.budget(2).0, 60);
    assert_eq!(world.status(1).budget, Bytes(30));
}

#[test]
fn a_region_whose_task_dies_gives_way() {
    let mut world = two();
    world.request(1);
    world.end_swap(2, 20, SwapOutcome::Done);
    world.request(2);
    world.detach(1);
    assert_eq!(world.account(1).end, JobEnd::TaskGone);
    world.release(1);
    world.at(5_005);
    assert!(world.runs_after_swaps(2));
}

#[test]
fn a_swap_in_without_memory_is_tried_again_and_then_put_aside() {
    let mut world = two();
    world.request(1);
    world.end_swap(2, 20, SwapOutcome::Done);
    world.end_swap(1, 20, SwapOutcome::OutOfMemory);
    // A chunk more than it needs is to be free, and the plan lets nobody else give one.
    assert_eq!(world.violations, [(1, ViolationKind::Emergency)]);
    world.at(5_005);
    assert_eq!(world.op(1), Some((Direction::In, 0)));
    assert!(world.runs_after_swaps(1));
}

#[test]
fn who_cannot_be_drained_loses_its_class() {
    let mut world = two();
    world.request(1);
    world.end_swap(2, 0, SwapOutcome::Undrainable);
    assert_eq!(world.violations[0], (2, ViolationKind::Undrainable));
    assert_eq!(world.status(2).phase, Phase::BestEffort);
    // It is spared for a while, then its memory can be asked for again.
    world.at(5_200);
    assert_eq!(world.op(2), Some((Direction::Out, 20)));
}

#[test]
fn an_agent_that_hangs_is_left_alone() {
    let mut world = two();
    world.request(1);
    world.at(5_900);
    assert_eq!(world.violations[0], (2, ViolationKind::SwapOverdue));
    assert!(!world.runs(1));
    world.end_swap(2, 20, SwapOutcome::Done);
    world.at(5_910);
    assert!(world.runs_after_swaps(1));
    let overdue = |(_, kind): &&(u32, ViolationKind)| *kind == ViolationKind::SwapOverdue;
    assert_eq!(world.violations.iter().filter(overdue).count(), 1);
}

#[test]
fn unmanaged_growth_takes_what_may_leave_and_then_more() {
    let mut world = two();
    world.capacity(80);
    world.finish_swaps();
    assert_eq!(world.out(2), 20);
    assert_eq!(world.violations, []);
    world.capacity(70);
    world.finish_swaps();
    let gpu = world.scheduler.state().gpu();
    assert!(gpu.used <= Bytes(70), "{gpu:?}");
    assert_eq!(world.violations[0].1, ViolationKind::Emergency);
}

#[test]
fn what_does_not_leave_beyond_the_plan_is_asked_for_again_after_a_while() {
    let mut world = two();
    world.capacity(80);
    world.finish_swaps();
    world.capacity(70);
    let asked = |world: &World| [1, 2].into_iter().find(|id| world.op(*id).is_some());
    for round in 1..=2 {
        // Both are asked, one after the other, and neither moves anything.
        for _ in 0..2 {
            let id = asked(&world).unwrap();
            world.end_swap(id, world.out(id), SwapOutcome::Aborted);
        }
        assert_eq!(asked(&world), None, "both are spared");
        assert_eq!(world.violations.len(), 2 * round);
        world.pass(200);
    }
}

#[test]
fn a_job_past_its_wcet_is_said_once() {
    let mut world = two();
    world.request(2);
    assert_eq!(world.scheduler.poll_timeout(), Some(Time(5_010 * MS + 1)));
    world.at(5_011);
    world.at(5_012);
    world.complete(2);
    assert_eq!(world.violations, [(2, ViolationKind::Overrun)]);
    assert_eq!(world.status(2).phase, Phase::Ready);
}

#[test]
fn demotion_takes_the_gpu_from_who_overran() {
    let mut world = World::new(Config {
        overrun: Overrun::Demote,
        ..config(100)
    });
    world.load(1, realtime(1_000, 10, 40, 40), 40);
    world.load(2, realtime(1_000, 10, 40, 40), 40);
    world.request(1);
    world.request(2);
    world.at(11);
    assert!(world.agents[1].revoked);
    world.complete(1);
    assert!(world.runs(2));
    assert_eq!(world.status(1).phase, Phase::BestEffort);
}

#[test]
fn who_is_demoted_from_outside_is_best_effort_from_then_on() {
    let mut world = two();
    world.request(2);
    assert!(world.runs(2));
    world.request(1);
    assert!(world.status(1).job.unwrap().deadline.is_some());
    world.demote(1);
    assert_eq!(world.status(1).phase, Phase::BestEffort);
    assert_eq!(world.status(1).job.unwrap().deadline, None, "it waited");
    world.demote(2);
    assert!(world.runs(2), "what runs goes on as it began");
    world.complete(2);
    world.request(2);
    assert_eq!(world.status(2).job.unwrap().deadline, None);
    // A second demotion changes nothing, and that of an unknown task is an error.
    world.demote(2);
    assert_eq!(world.status(2).phase, Phase::BestEffort);
    let task = TaskId(9);
    let unknown = world.handle(Event::Demote { task });
    assert_eq!(unknown, Err(EventError::UnknownTask(task)));
}

#[test]
fn a_newcomer_waits_for_every_backing_store() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 60, 40), 60);
    assert_eq!(world.status(1).volume, Some(Bytes(0)));
    world.agent(1).pinnable = Some(Bytes(0));
    world.admit(2, realtime(1_000, 10, 60, 40));
    // 20 each cannot be pinned for task 1, and task 2 alone cannot make room for itself.
    assert_eq!(world.violations, [(2, ViolationKind::Backing)]);
    assert_eq!(world.status(2).phase, Phase::BestEffort);
    assert_eq!(world.status(1).volume, Some(Bytes(0)));
    assert_eq!(world.status(1).phase, Phase::Ready);
}

#[test]
fn a_registration_is_answered_with_x_or_a_refusal() {
    let mut scheduler = Scheduler::new(config(100));
    let mut register = |id, spec| scheduler.register(Time(MS), TaskId(id), spec);
    assert_eq!(register(1, best_effort()), Ok(Bytes(0)));
    assert_eq!(register(2, realtime(1_000, 10, 60, 40)), Ok(Bytes(0)));
    // Of two that need 60 of 100 each, 20 must leave.
    assert_eq!(register(3, realtime(1_000, 10, 60, 40)), Ok(Bytes(20)));
    let known = register(3, best_effort()).unwrap_err();
    assert_eq!(known, Refusal::KnownTask(TaskId(3)));
    let unsound = register(4, realtime(1_000, 10, 40, 60)).unwrap_err();
    assert_eq!(
        unsound.to_string(),
        "realtime: swappable 60 B is more than the footprint 40 B"
    );
    let too_large = register(4, realtime(1_000, 10, 101, 40)).unwrap_err();
    let begin = "not schedulable on this GPU (100 B for realtime, 0 B reserved for best-effort): ";
    assert!(too_large.to_string().starts_with(begin), "{too_large}");
    assert_eq!(scheduler.poll_command(), None);
}

#[test]
fn a_refusal_says_what_binds() {
    let mut world = two();
    world.admit(3, realtime(1_000, 10, 101, 40));
    world.admit(3, realtime(10, 20, 1, 0));
    world.admit(3, realtime(30, 10, 20, 20));
    let reasons = ["realtime3 needs 101 B", "WCET", "the test fails"];
    for (refusal, reason) in world.refusals.iter().zip(reasons) {
        assert!(refusal.contains(reason), "{refusal}");
    }
    assert_eq!(world.refusals.len(), 3);
    assert!(world.scheduler.state().task(TaskId(3)).is_none());
}

#[test]
fn an_implicit_job_that_behaves_ends_the_loading() {
    let mut world = World::new(config(100));
    world.load(1, realtime(100, 10, 40, 40), 20);
    world.request_kind(1, JobKind::Implicit);
    world.allocate(1, 20);
    world.complete(1);
    assert_eq!(world.status(1).phase, Phase::Loading, "the arena grew");
    world.request_kind(1, JobKind::Implicit);
    world.at(50);
    world.complete(1);
    assert_eq!(world.status(1).phase, Phase::Loading, "it took too long");
    world.request_kind(1, JobKind::Implicit);
    world.complete(1);
    assert_eq!(world.status(1).phase, Phase::Ready);
    world.request_kind(1, JobKind::Implicit);
    assert!(world.status(1).job.unwrap().deadline.is_some());
}

/// Two tasks in step: the second loads, and each job of the first revokes its job just as that has done all its work.
#[test]
fn a_revoked_job_with_nothing_left_ends_the_loading() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(100, 10, 40, 0), 40);
    world.load(2, realtime(100, 10, 40, 40), 40);
    let mut at = 200;
    let mut in_step = |world: &mut World| {
        world.at(at);
        world.request_kind(2, JobKind::Implicit);
        world.at(at + 5);
        world.request(1);
        assert!(world.agents[2].revoked);
        world.complete(2);
        at += 100;
    };
    in_step(&mut world);
    let cut = world.account(2).job;
    world.request_kind(2, JobKind::Implicit);
    world.complete(1);
    world.at(240);
    world.complete(2);
    assert!(world.whole.is_empty(), "the rest of it came at once");
    assert_eq!(world.status(2).phase, Phase::Loading, "and took too long");

    in_step(&mut world);
    let next = world.account(2).job;
    assert_ne!(next, cut);
    world.complete(1);
    world.at(400);
    world.request_kind(2, JobKind::Implicit);
    assert_eq!(world.whole, [(2, next)]);
    assert_eq!(world.status(2).phase, Phase::Ready);
    assert!(world.status(2).job.unwrap().deadline.is_some());
}

#[test]
fn after_a_restart_nobody_joins_two_that_run() {
    let mut world = World::new(config(100));
    for id in [1, 2, 3] {
        world.admit(id, realtime(1_000, 10, 20, 0));
        let open = OpenJob {
            job: JobSeq(7),
            running: id < 3,
            kind: JobKind::Declared,
        };
        let usage = Usage {
            resident: Bytes(20),
            ..Usage::default()
        };
        world.attach(id, Agent::with(usage), Some(open));
    }
    assert!(!world.runs(3));
    world.complete(1);
    assert!(!world.runs(3));
    world.complete(2);
    assert!(world.runs(3));
}

#[test]
fn an_agent_that_never_unpins_is_asked_to_once() {
    let mut world = World::new(config(100));
    world.start(1, realtime(1_000, 10, 60, 40));
    world.agent(1).keeps = true;
    world.want(1, 60);
    world.allocate(1, 60);
    let pinned = world.agents[1].backing;
    assert!(pinned >= Bytes(60), "it can leave whole: {pinned}");
    let asked = world.agents[1].asked_stores;
    // Ready and alone it needs no backing store.
    world.warm(1);
    assert_eq!(world.status(1).volume, Some(Bytes(0)));
    world.at(5_000);
    world.request(1);
    world.complete(1);
    assert_eq!(world.agents[1].asked_stores, asked + 1);
    assert_eq!(world.status(1).backing, pinned);
    // The next process of the task may do better.
    world.detach(1);
    world.release(1);
    world.at(9_000);
    world.fill(1, Agent::default(), 60);
    world.warm(1);
    assert_eq!(world.status(1).backing, Bytes(0));
}

#[test]
fn a_newcomers_want_waits_for_its_plan() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 60, 40), 60);
    world.agent(1).pins_late = true;
    world.start(2, realtime(1_000, 10, 60, 40));
    // Without a plan it must be able to leave whole, which it cannot.
    world.agent(2).pinnable = Some(Bytes(40));
    world.want(2, 60);
    assert_eq!(world.status(2).volume, None);
    assert_eq!(world.budget(2), (0, 0), "it waits");
    world.pin_now(1);
    world.finish_swaps();
    assert!(world.status(2).volume.is_some());
    assert_eq!(world.budget(2), (60, 0));
}

#[test]
fn a_newcomer_gets_no_memory_that_could_not_leave_before_its_plan_is_in_effect() {
    let mut world = two();
    world.agent(1).pins_late = true;
    world.start(3, realtime(1_000, 1, 10, 0));
    world.want(3, 10);
    world.finish_swaps();
    // The old plan needs all of the GPU, whatever backing store the newcomer has.
    assert_eq!(world.budget(3).0, 0);
    world.pin_now(1);
    world.finish_swaps();
    assert_eq!(world.status(3).volume, Some(Bytes(0)));
    assert_eq!(world.budget(3).0, 10);
    assert_eq!(world.violations, []);
}

#[test]
fn a_newcomer_that_can_pin_nothing_is_told() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 60, 40), 60);
    world.admit(2, realtime(1_000, 10, 60, 40));
    assert_eq!(world.refusals, [""; 0]);
    world.attach(2, Agent::pinning(0), None);
    assert_eq!(world.violations, [(2, ViolationKind::Backing)]);
    assert_eq!(world.status(2).phase, Phase::BestEffort);
}

#[test]
fn the_task_after_the_last_is_refused() {
    let mut world = World::new(config(100));
    for id in 0..MAX_TASKS as u32 {
        world.admit(id, best_effort());
    }
    assert!(world.refusals.is_empty());
    world.admit(4_096, best_effort());
    assert_eq!(
        world.refusals,
        ["4096 tasks are known on this GPU, and it can have no more: unregister one first"]
    );
    assert!(world.scheduler.state().task(TaskId(4_096)).is_none());
    world.unregister(7);
    world.admit(4_097, best_effort());
    assert_eq!(world.refusals.len(), 1);
}
