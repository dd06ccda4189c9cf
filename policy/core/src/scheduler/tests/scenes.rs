//! Scenes of realtime tasks, and of what goes wrong with them.

use alloc::string::ToString;

use super::super::*;
use super::shell::*;
use crate::task::TaskId;
use crate::units::{Bytes, Nanos, Time};

/// Two ready realtime tasks of 60 in 100: 20 of each may leave, and 20 of task 1 are out.
fn two() -> Shell {
    let mut shell = Shell::new(config(100));
    for id in [1, 2] {
        shell.load(id, realtime(1_000, 10, 60, 40), 60);
    }
    assert!(shell.refusals.is_empty(), "{:?}", shell.refusals);
    shell.warm(1);
    shell.warm(2);
    shell.at(5_000);
    assert_eq!(shell.status(1).usage.swapped, Bytes(20));
    shell
}

#[test]
fn what_fits_runs_without_a_swap() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(100, 10, 40, 40), 40);
    shell.load(2, realtime(100, 10, 40, 40), 40);
    shell.request(1);
    assert!(shell.runs(1));
    shell.request(2);
    assert!(!shell.runs(2));
    shell.at(7);
    shell.complete(1);
    assert!(shell.runs(2));
    shell.at(9);
    shell.complete(2);
    let second = shell.accounts[1];
    assert_eq!(second.queue, Nanos(7 * MS));
    assert_eq!(second.execution, Nanos(2 * MS));
    assert_eq!(second.blocked_by, Some(TaskId(1)));
    assert_eq!(second.deadline, Some(Time(100 * MS)));
    assert_eq!(shell.violations, []);
}

#[test]
fn exactly_what_is_lacking_leaves_and_the_account_says_so() {
    let mut shell = two();
    shell.request(1);
    assert_eq!(shell.op(2), Some((Direction::Out, 20)));
    shell.at(5_003);
    shell.end_swap(2, Bytes(20), SwapOutcome::Done);
    assert_eq!(shell.op(1), Some((Direction::In, 0)));
    shell.at(5_008);
    shell.end_swap(1, Bytes(0), SwapOutcome::Done);
    assert!(shell.runs(1));
    shell.at(5_010);
    shell.complete(1);
    let account = shell.accounts.last().unwrap();
    let spans = [
        account.queue,
        account.swap_out,
        account.swap_in,
        account.execution,
    ];
    assert_eq!(spans.map(|span| span.0 / MS), [0, 3, 5, 2]);
}

#[test]
fn the_earliest_deadline_goes_first_but_no_region_is_preempted() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(150, 10, 60, 40), 60);
    shell.load(2, realtime(2_000, 10, 60, 40), 60);
    shell.load(3, realtime(300, 10, 10, 0), 10);
    for id in [1, 2, 3] {
        shell.warm(id);
    }
    shell.at(9_000);
    shell.request(1);
    shell.finish_swaps();
    assert!(shell.runs(1));
    // Task 2 heads the queue, but task 1, which must make room for it, runs.
    shell.request(2);
    assert_eq!(shell.op(1), None);
    // Task 3 is due before it, and goes first when the GPU is free.
    shell.request(3);
    shell.complete(1);
    shell.request(1);
    assert!(shell.runs(3));
    assert_eq!(shell.op(1).unwrap().0, Direction::Out);
    shell.at(9_090);
    shell.complete(3);
    shell.end_swap(1, Bytes(30), SwapOutcome::Done);
    // The region of task 2 is open: task 1, due before it, must wait for its end.
    assert_eq!(shell.op(2), Some((Direction::In, 0)));
    shell.at(9_150);
    assert_eq!(shell.scheduler.state().gpu().queue, [TaskId(1)]);
    shell.end_swap(2, Bytes(0), SwapOutcome::Done);
    assert!(shell.runs(2) && !shell.runs(1));
}

#[test]
fn who_comes_too_often_delays_only_itself() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(100, 10, 40, 40), 40);
    shell.warm(1);
    shell.at(30);
    shell.request(1);
    assert!(!shell.runs(1));
    assert_eq!(shell.scheduler.poll_timeout(), Some(Time(100 * MS)));
    shell.at(100);
    assert!(shell.runs(1));
    shell.complete(1);
    assert_eq!(shell.accounts.last().unwrap().eligible, Time(100 * MS));
}

#[test]
fn registering_again_keeps_the_next_release() {
    let mut shell = Shell::new(config(100));
    let mut spec = realtime(1_000, 10, 40, 40);
    spec.name = "again".into();
    shell.register_as(1, spec.clone());
    shell.attach(1);
    shell.request(1);
    shell.complete(1);
    shell.tell(Event::Unregister { task: TaskId(1) });
    shell.tell(Event::Detach { task: TaskId(1) });
    assert!(shell.scheduler.state().task(TaskId(1)).is_some(), "dying");
    shell.tell(Event::Released { task: TaskId(1) });
    assert!(shell.scheduler.state().task(TaskId(1)).is_none());
    shell.at(10);
    shell.register_as(2, spec);
    shell.attach(2);
    shell.request(2);
    assert_eq!(shell.status(2).job.unwrap().eligible, Time(1_000 * MS));
}

#[test]
fn what_a_dead_task_held_is_dying_until_released() {
    let mut shell = two();
    shell.request(1);
    assert_eq!(shell.op(2), Some((Direction::Out, 20)));
    shell.agents.remove(&2);
    shell.tell(Event::Detach { task: TaskId(2) });
    assert_eq!(shell.status(2).dying, Bytes(60));
    assert_eq!(shell.op(1), None);
    shell.tell(Event::Released { task: TaskId(2) });
    shell.at(5_005);
    shell.finish_swaps();
    assert!(shell.runs(1));
}

#[test]
fn a_want_waits_for_what_one_of_several_processes_held() {
    let mut shell = Shell::new(config(100));
    shell.register(1, best_effort());
    let unpinnable = Agent {
        pinnable: Some(0),
        ..Agent::default()
    };
    shell.attach_as(1, unpinnable);
    shell.want(1, 80);
    shell.allocate(1, 80);
    shell.register(2, best_effort());
    shell.attach(2);
    let others = Usage {
        resident: Bytes(30),
        swapped: Bytes::ZERO,
        arena: Bytes(30),
    };
    let agent = shell.agents.get_mut(&1).unwrap();
    (agent.usage, agent.budget) = (others, 30);
    shell.tell(Event::Regrouped {
        task: TaskId(1),
        dying: Bytes(50),
        usage: others,
        backing: Bytes::ZERO,
    });
    let status = shell.status(1);
    assert_eq!((status.dying, status.budget), (Bytes(50), Bytes(30)));
    shell.want(2, 60);
    assert_eq!((shell.agents[&2].budget, shell.agents[&2].refused), (0, 0));
    shell.tell(Event::Released { task: TaskId(1) });
    assert_eq!(shell.agents[&2].budget, 60);
    assert_eq!(shell.status(1).budget, Bytes(30));
}

#[test]
fn a_region_whose_task_dies_gives_way() {
    let mut shell = two();
    shell.request(1);
    shell.end_swap(2, Bytes(20), SwapOutcome::Done);
    shell.request(2);
    shell.agents.remove(&1);
    shell.tell(Event::Detach { task: TaskId(1) });
    assert_eq!(shell.accounts.last().unwrap().end, JobEnd::TaskGone);
    shell.tell(Event::Released { task: TaskId(1) });
    shell.at(5_005);
    shell.finish_swaps();
    assert!(shell.runs(2));
}

#[test]
fn a_swap_in_without_memory_is_tried_again_and_then_put_aside() {
    let mut shell = two();
    shell.request(1);
    shell.end_swap(2, Bytes(20), SwapOutcome::Done);
    shell.end_swap(1, Bytes(20), SwapOutcome::OutOfMemory);
    // A chunk more than it needs is to be free, and the plan lets nobody else give one.
    assert_eq!(shell.violations, [(1, ViolationKind::Emergency)]);
    shell.at(5_005);
    assert_eq!(shell.op(1), Some((Direction::In, 0)));
    shell.finish_swaps();
    assert!(shell.runs(1));
}

#[test]
fn who_cannot_be_drained_loses_its_class() {
    let mut shell = two();
    shell.request(1);
    shell.end_swap(2, Bytes(0), SwapOutcome::Undrainable);
    assert_eq!(shell.violations[0], (2, ViolationKind::Undrainable));
    assert_eq!(shell.status(2).phase, Phase::BestEffort);
    // It is spared for a while, then its memory can be asked for again.
    shell.at(5_200);
    assert_eq!(shell.op(2), Some((Direction::Out, 20)));
}

#[test]
fn an_agent_that_hangs_is_left_alone() {
    let mut shell = two();
    shell.request(1);
    shell.at(5_900);
    assert_eq!(shell.violations[0], (2, ViolationKind::SwapOverdue));
    assert!(!shell.runs(1));
    shell.end_swap(2, Bytes(20), SwapOutcome::Done);
    shell.at(5_910);
    shell.finish_swaps();
    assert!(shell.runs(1));
    let overdue = |violation: &&(u32, ViolationKind)| violation.1 == ViolationKind::SwapOverdue;
    assert_eq!(shell.violations.iter().filter(overdue).count(), 1);
}

#[test]
fn unmanaged_growth_takes_what_may_leave_and_then_more() {
    let mut shell = two();
    shell.tell(Event::Capacity { bytes: Bytes(80) });
    shell.finish_swaps();
    assert_eq!(shell.status(2).usage.swapped, Bytes(20));
    assert_eq!(shell.violations, []);
    shell.tell(Event::Capacity { bytes: Bytes(70) });
    shell.finish_swaps();
    let gpu = shell.scheduler.state().gpu();
    assert!(gpu.used <= Bytes(70), "{gpu:?}");
    assert_eq!(shell.violations[0].1, ViolationKind::Emergency);
}

#[test]
fn a_job_past_its_wcet_is_said_once() {
    let mut shell = two();
    shell.request(2);
    assert_eq!(shell.scheduler.poll_timeout(), Some(Time(5_010 * MS + 1)));
    shell.at(5_011);
    shell.at(5_012);
    shell.complete(2);
    assert_eq!(shell.violations, [(2, ViolationKind::Overrun)]);
    assert_eq!(shell.status(2).phase, Phase::Ready);
}

#[test]
fn demotion_takes_the_gpu_from_who_overran() {
    let mut shell = Shell::new(Config {
        overrun: Overrun::Demote,
        ..config(100)
    });
    shell.load(1, realtime(1_000, 10, 40, 40), 40);
    shell.load(2, realtime(1_000, 10, 40, 40), 40);
    shell.request(1);
    shell.request(2);
    shell.at(11);
    assert!(shell.agents[&1].revoked);
    shell.complete(1);
    assert!(shell.runs(2));
    assert_eq!(shell.status(1).phase, Phase::BestEffort);
}

#[test]
fn who_is_demoted_from_outside_is_best_effort_from_then_on() {
    let mut shell = two();
    let demote = |id| Event::Demote { task: TaskId(id) };
    shell.request(2);
    assert!(shell.runs(2));
    shell.request(1);
    assert!(shell.status(1).job.unwrap().deadline.is_some());
    shell.tell(demote(1));
    assert_eq!(shell.status(1).phase, Phase::BestEffort);
    assert_eq!(shell.status(1).job.unwrap().deadline, None, "it waited");
    shell.tell(demote(2));
    assert!(shell.runs(2), "what runs goes on as it began");
    shell.complete(2);
    shell.request(2);
    assert_eq!(shell.status(2).job.unwrap().deadline, None);
    // A second demotion changes nothing, and that of an unknown task is an error.
    shell.tell(demote(2));
    assert_eq!(shell.status(2).phase, Phase::BestEffort);
    let now = shell.scheduler.state().now;
    let unknown = shell.scheduler.handle(now, demote(9));
    assert_eq!(unknown, Err(EventError::UnknownTask(TaskId(9))));
}

#[test]
fn a_newcomer_waits_for_every_backing_store() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(1_000, 10, 60, 40), 60);
    shell.warm(1);
    assert_eq!(shell.status(1).volume, Some(Bytes(0)));
    shell.agents.get_mut(&1).unwrap().pinnable = Some(0);
    shell.register(2, realtime(1_000, 10, 60, 40));
    // 20 each cannot be pinned for task 1, and task 2 alone cannot make room for itself.
    assert_eq!(shell.violations, [(2, ViolationKind::Backing)]);
    assert_eq!(shell.status(2).phase, Phase::BestEffort);
    assert_eq!(shell.status(1).volume, Some(Bytes(0)));
    assert_eq!(shell.status(1).phase, Phase::Ready);
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
    let mut shell = two();
    shell.register(3, realtime(1_000, 10, 101, 40));
    assert!(
        shell.refusals[0].contains("realtime3 needs 101 B"),
        "{:?}",
        shell.refusals
    );
    shell.register(3, realtime(10, 20, 1, 0));
    assert!(shell.refusals[1].contains("WCET"), "{:?}", shell.refusals);
    shell.register(3, realtime(30, 10, 20, 20));
    assert!(
        shell.refusals[2].contains("the test fails"),
        "{:?}",
        shell.refusals
    );
    assert!(shell.scheduler.state().task(TaskId(3)).is_none());
}

#[test]
fn an_implicit_job_that_behaves_ends_the_loading() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(100, 10, 40, 40), 20);
    shell.request_kind(1, JobKind::Implicit);
    shell.allocate(1, 20);
    shell.complete(1);
    assert_eq!(shell.status(1).phase, Phase::Loading, "the arena grew");
    shell.request_kind(1, JobKind::Implicit);
    shell.at(50);
    shell.complete(1);
    assert_eq!(shell.status(1).phase, Phase::Loading, "it took too long");
    shell.request_kind(1, JobKind::Implicit);
    shell.complete(1);
    assert_eq!(shell.status(1).phase, Phase::Ready);
    shell.request_kind(1, JobKind::Implicit);
    assert!(shell.status(1).job.unwrap().deadline.is_some());
}

#[test]
fn after_a_restart_nobody_joins_two_that_run() {
    let mut shell = Shell::new(config(100));
    for id in [1, 2, 3] {
        shell.register(id, realtime(1_000, 10, 20, 0));
        let open = OpenJob {
            job: JobSeq(7),
            running: id < 3,
            kind: JobKind::Declared,
        };
        let usage = Usage {
            resident: Bytes(20),
            ..Usage::default()
        };
        let agent = Agent {
            usage,
            granted: open.running.then_some(open.job),
            ..Agent::default()
        };
        shell.agents.insert(id, agent);
        shell.tell(Event::Attach {
            task: TaskId(id),
            usage,
            backing: Bytes::ZERO,
            open: Some(open),
        });
    }
    assert!(!shell.runs(3));
    shell.complete(1);
    assert!(!shell.runs(3));
    shell.complete(2);
    assert!(shell.runs(3));
}

#[test]
fn an_agent_that_never_unpins_is_asked_to_once() {
    let mut shell = Shell::new(config(100));
    shell.register(1, realtime(1_000, 10, 60, 40));
    shell.attach(1);
    shell.agents.get_mut(&1).unwrap().keeps = true;
    shell.want(1, 60);
    shell.allocate(1, 60);
    let pinned = shell.agents[&1].backing;
    assert!(pinned >= 60, "a loading task can leave whole: {pinned}");
    let asked = shell.agents[&1].asked_volumes;
    // Ready and alone it needs no backing store.
    shell.warm(1);
    assert_eq!(shell.status(1).volume, Some(Bytes(0)));
    shell.at(5_000);
    shell.request(1);
    shell.complete(1);
    assert_eq!(shell.agents[&1].asked_volumes, asked + 1);
    assert_eq!(shell.status(1).backing, Bytes(pinned));
    // The next process of the task may do better.
    shell.tell(Event::Detach { task: TaskId(1) });
    shell.tell(Event::Released { task: TaskId(1) });
    shell.at(9_000);
    shell.attach(1);
    shell.want(1, 60);
    shell.allocate(1, 60);
    shell.warm(1);
    assert_eq!(shell.status(1).backing, Bytes(0));
}

#[test]
fn a_newcomers_want_waits_for_its_plan() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(1_000, 10, 60, 40), 60);
    shell.warm(1);
    shell.agents.get_mut(&1).unwrap().pins_late = true;
    shell.register(2, realtime(1_000, 10, 60, 40));
    shell.attach(2);
    // Without a plan it must be able to leave whole, which it cannot.
    shell.agents.get_mut(&2).unwrap().pinnable = Some(40);
    shell.want(2, 60);
    assert_eq!(shell.status(2).volume, None);
    assert_eq!(
        (shell.agents[&2].refused, shell.agents[&2].budget),
        (0, 0),
        "it waits"
    );
    shell.pin_late(1);
    shell.finish_swaps();
    assert!(shell.status(2).volume.is_some());
    assert_eq!((shell.agents[&2].refused, shell.agents[&2].budget), (0, 60));
}

#[test]
fn a_newcomer_gets_no_memory_that_could_not_leave_before_its_plan_is_in_effect() {
    let mut shell = two();
    shell.agents.get_mut(&1).unwrap().pins_late = true;
    shell.register(3, realtime(1_000, 1, 10, 0));
    assert!(shell.refusals.is_empty(), "{:?}", shell.refusals);
    shell.attach(3);
    shell.want(3, 10);
    shell.finish_swaps();
    // The old plan needs all of the GPU, whatever backing store the newcomer has.
    assert_eq!(shell.agents[&3].budget, 0);
    shell.pin_late(1);
    shell.finish_swaps();
    assert_eq!(shell.status(3).volume, Some(Bytes(0)));
    assert_eq!(shell.agents[&3].budget, 10);
    assert_eq!(shell.violations, []);
}

#[test]
fn a_newcomer_that_can_pin_nothing_is_told() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(1_000, 10, 60, 40), 60);
    shell.warm(1);
    shell.register(2, realtime(1_000, 10, 60, 40));
    assert_eq!(shell.refusals, [""; 0]);
    let poor = Agent {
        pinnable: Some(0),
        ..Agent::default()
    };
    shell.attach_as(2, poor);
    assert_eq!(shell.violations, [(2, ViolationKind::Backing)]);
    assert_eq!(shell.status(2).phase, Phase::BestEffort);
}

#[test]
fn the_task_after_the_last_is_refused() {
    let mut shell = Shell::new(config(100));
    for id in 0..MAX_TASKS as u32 {
        shell.register(id, best_effort());
    }
    assert!(shell.refusals.is_empty());
    shell.register(4_096, best_effort());
    assert_eq!(
        shell.refusals,
        ["4096 tasks are known on this GPU, and it can have no more: unregister one first"]
    );
    assert!(shell.scheduler.state().task(TaskId(4_096)).is_none());
    shell.tell(Event::Unregister { task: TaskId(7) });
    shell.register(4_097, best_effort());
    assert_eq!(shell.refusals.len(), 1);
}
