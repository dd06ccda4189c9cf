//! Scenes of best-effort beside realtime and beside itself.

use super::super::*;
use super::shell::*;
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

#[test]
fn a_realtime_job_takes_the_gpu_from_best_effort() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(100, 10, 40, 40), 40);
    shell.load(2, best_effort(), 30);
    shell.request(2);
    assert!(shell.runs(2));
    shell.request(1);
    assert!(shell.agents[&2].revoked && !shell.runs(1));
    shell.complete(2);
    assert_eq!(shell.accounts[0].end, JobEnd::Revoked);
    assert!(shell.runs(1));
    shell.request(2);
    assert!(!shell.runs(2));
    shell.complete(1);
    assert!(shell.runs(2));
}

#[test]
fn best_effort_gives_way_after_its_quantum() {
    let mut shell = Shell::new(config(100));
    for id in [1, 2] {
        shell.load(id, best_effort(), 70);
    }
    assert_eq!(shell.status(1).usage.swapped, Bytes(40));
    shell.request(2);
    shell.at(60);
    shell.request(1);
    shell.at(99);
    assert!(!shell.agents[&2].revoked);
    shell.at(100);
    assert!(shell.agents[&2].revoked);
    shell.complete(2);
    shell.request(2);
    shell.finish_swaps();
    assert!(shell.runs(1) && !shell.runs(2));
}

fn shared() -> Shell {
    Shell::new(Config {
        sharing: Sharing::Shared,
        ..config(100)
    })
}

#[test]
fn only_a_job_whose_own_quantum_has_expired_is_revoked() {
    let mut shell = shared();
    for id in [1, 2, 3] {
        shell.load(id, best_effort(), 40);
    }
    assert_eq!(shell.status(1).usage.swapped, Bytes(20));
    shell.request(2);
    shell.at(60);
    shell.request(3);
    shell.request(1);
    assert!(shell.runs(2) && shell.runs(3) && !shell.runs(1));
    shell.at(100);
    assert!(shell.agents[&2].revoked && !shell.agents[&3].revoked);
    shell.complete(2);
    shell.finish_swaps();
    assert!(shell.runs(1) && !shell.agents[&3].revoked);
    shell.request(2);
    shell.at(159);
    assert!(!shell.agents[&3].revoked);
    shell.at(160);
    assert!(shell.agents[&3].revoked && !shell.agents[&1].revoked);
}

#[test]
fn jobs_that_take_turns_do_not_keep_the_memory_from_one_that_waits() {
    let mut shell = shared();
    shell.load(1, best_effort(), 80);
    for id in [2, 3] {
        shell.load(id, best_effort(), 40);
    }
    assert_eq!(shell.status(1).usage.swapped, Bytes(60));
    shell.request(2);
    shell.at(60);
    shell.request(3);
    shell.request(1);
    shell.at(100);
    shell.complete(2);
    // 1 lacks what 2 and 3 hold together, so 2 may not go on before 1 has run.
    shell.request(2);
    assert!(!shell.runs(2));
    shell.at(160);
    shell.complete(3);
    shell.finish_swaps();
    assert!(shell.runs(1));
}

#[test]
fn a_job_for_which_nothing_can_be_done_holds_nobody_back() {
    let mut shell = shared();
    shell.load(1, best_effort(), 80);
    for id in [2, 3] {
        shell.load(id, best_effort(), 20);
    }
    let bytes = Bytes(70);
    shell.tell(Event::Capacity { bytes });
    shell.finish_swaps();
    shell.request(1);
    shell.at(10);
    shell.request(2);
    shell.request(3);
    shell.at(20);
    shell.complete(2);
    shell.request(2);
    assert!(shell.runs(2) && shell.runs(3), "80 of 70");
}

#[test]
fn a_best_effort_swap_is_aborted_and_its_reservation_released() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(1_000, 10, 40, 0), 40);
    shell.warm(1);
    shell.load(2, best_effort(), 50);
    shell.load(3, best_effort(), 50);
    shell.at(2_000);
    shell.request(2);
    assert_eq!(shell.op(3).unwrap().0, Direction::Out);
    // The abort is obeyed with a chunk moved.
    shell.agents.get_mut(&3).unwrap().usage.swapped = Bytes(10);
    shell.agents.get_mut(&3).unwrap().usage.resident = Bytes(40);
    shell.request(1);
    assert_eq!(shell.op(3), None);
    assert_eq!(shell.status(3).budget, Bytes(40));
    assert!(shell.runs(1));
    assert!(shell.op(2).is_none());
    shell.complete(1);
    shell.finish_swaps();
    assert!(shell.runs(2));
}

#[test]
fn a_want_takes_best_effort_memory_and_realtime_chunks_within_x() {
    let mut shell = Shell::new(Config {
        best_effort_reserve: Bytes(20),
        ..config(120)
    });
    for id in [1, 2] {
        shell.load(id, realtime(1_000, 10, 60, 40), 60);
    }
    shell.warm(1);
    shell.warm(2);
    shell.at(5_000);
    // 20 of each realtime task and the reserve can be had.
    shell.load(3, best_effort(), 40);
    assert_eq!(shell.agents[&3].refused, 0);
    assert_eq!(shell.status(1).usage.swapped, Bytes(20));
    assert_eq!(shell.status(2).usage.swapped, Bytes(20));
    shell.want(3, 81);
    assert_eq!(shell.agents[&3].refused, 1);
    shell.request(1);
    shell.finish_swaps();
    assert!(shell.runs(1));
    assert_eq!(shell.status(3).usage.swapped, Bytes(20));
}

#[test]
fn a_want_waits_for_realtime_and_is_answered() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(20_000, 1_000, 60, 0), 60);
    shell.warm(1);
    shell.load(2, best_effort(), 40);
    shell.load(3, best_effort(), 10);
    shell.at(30_000);
    shell.request(1);
    shell.want(3, 40);
    assert_eq!(shell.op(2), None);
    shell.complete(1);
    assert_eq!(shell.op(2).unwrap().0, Direction::Out);
    shell.finish_swaps();
    assert_eq!(shell.agents[&3].budget, 40);
    shell.want(3, 60);
    shell.at(60_000);
    shell.request(1);
    shell.finish_swaps();
    assert!(shell.runs(1));
    assert_eq!(shell.agents[&3].refused, 1);
}

#[test]
fn in_shared_mode_best_effort_runs_beside_realtime() {
    let mut shell = Shell::new(Config {
        sharing: Sharing::Shared,
        ..config(100)
    });
    shell.load(1, realtime(100, 10, 40, 40), 40);
    shell.load(2, best_effort(), 20);
    shell.load(3, best_effort(), 20);
    for id in [2, 1, 3] {
        shell.request(id);
        assert!(shell.runs(id));
    }
    assert!(!shell.agents[&2].revoked);
}

#[test]
fn a_want_outlasts_the_death_of_who_is_in_the_way() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 90);
    shell.load(2, best_effort(), 10);
    // The connection's end is seen before the process's.
    shell.tell(Event::Lost { task: TaskId(1) });
    shell.want(2, 60);
    assert_eq!((shell.agents[&2].refused, shell.agents[&2].budget), (0, 10));
    shell.agents.remove(&1);
    shell.tell(Event::Detach { task: TaskId(1) });
    assert_eq!((shell.agents[&2].refused, shell.agents[&2].budget), (0, 10));
    shell.tell(Event::Released { task: TaskId(1) });
    assert_eq!((shell.agents[&2].refused, shell.agents[&2].budget), (0, 60));
}

#[test]
fn a_want_waits_for_what_is_on_its_way_in() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 60);
    shell.load(2, best_effort(), 60);
    shell.request(1);
    shell.finish_swaps();
    assert!(shell.runs(1));
    shell.complete(1);
    // 2 comes in for its job, and 1 allocates meanwhile.
    shell.request(2);
    while shell
        .op(2)
        .is_none_or(|(direction, _)| direction != Direction::In)
    {
        shell.end_first_swap();
    }
    shell.want(1, shell.agents[&1].usage.resident.0 + 30);
    assert_eq!(shell.agents[&1].refused, 0);
    shell.finish_swaps();
    shell.complete(2);
    shell.finish_swaps();
    assert_eq!(shell.agents[&1].refused, 0);
}

#[test]
fn a_want_shrinks_with_what_leaves_while_it_waits() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 50);
    shell.load(2, best_effort(), 40);
    // 2 wants all that there is, which takes all of 1, and 1 runs.
    shell.request(1);
    shell.want(2, 100);
    assert_eq!(shell.agents[&2].budget, 40);
    // 1 needs more itself and gets it from 2; then it ends.
    shell.want(1, 80);
    shell.finish_swaps();
    assert_eq!(shell.agents[&1].budget, 80);
    shell.allocate(1, 30);
    let swapped = shell.agents[&2].usage.swapped.0;
    assert!(swapped > 0);
    shell.complete(1);
    shell.finish_swaps();
    assert_eq!(
        (shell.agents[&2].refused, shell.agents[&2].budget),
        (0, 100 - swapped)
    );
}

#[test]
fn memory_freed_in_the_middle_of_an_operation_confuses_nobody() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 60);
    shell.load(2, best_effort(), 60);
    shell.request(1);
    let (op, direction, target) = shell.agents[&2].op.unwrap();
    assert_eq!((direction, target), (Direction::Out, Bytes(20)));
    let task = TaskId(2);
    let progress = |swapped| Event::SwapProgress {
        task,
        op,
        swapped: Bytes(swapped),
    };
    shell.tell(progress(10));
    // The program frees what has left, and something that has not.
    shell.tell(progress(0));
    let agent = shell.agents.get_mut(&2).unwrap();
    agent.usage.resident = Bytes(20);
    agent.usage.arena = Bytes(30);
    agent.usage.swapped = Bytes(10);
    agent.op = None;
    let usage = agent.usage;
    let (took, outcome) = (Nanos::ZERO, SwapOutcome::Done);
    shell.tell(Event::SwapEnded {
        task,
        op,
        swapped: Bytes(10),
        took,
        outcome,
    });
    shell.tell(Event::Usage { task, usage });
    shell.finish_swaps();
    shell.at(200);
    shell.finish_swaps();
    assert!(shell.runs(1), "{:?}", shell.status(1));
    assert!(shell.violations.is_empty(), "{:?}", shell.violations);
}

#[test]
fn two_that_wait_for_a_third_do_not_take_their_memory_from_each_other() {
    let mut shell = Shell::new(config(480));
    for id in [2, 3] {
        shell.register(id, realtime(2_000, 10, 220, 210));
    }
    shell.register(4, realtime(2_000, 10, 240, 230));
    for id in [2, 3, 4] {
        // Pinning takes its time, so nothing can be swapped out yet.
        let slow = Agent {
            pins_late: true,
            ..Agent::default()
        };
        shell.attach_as(id, slow);
        shell.want(id, 30);
        shell.allocate(id, 30);
    }
    shell.request_kind(3, JobKind::Implicit);
    assert!(shell.runs(3));
    // Task 4 lacks more than is free, task 2 does not.
    shell.request_kind(4, JobKind::Implicit);
    shell.request_kind(2, JobKind::Implicit);
    assert!(!shell.runs(4) && !shell.runs(2));
    shell.complete(3);
    assert!(shell.runs(4) || shell.runs(2));
}

#[test]
fn who_could_never_run_with_it_gets_no_more() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 60);
    shell.load(2, best_effort(), 60);
    let swapped = shell.status(1).usage.swapped.0;
    assert!(swapped > 0);
    shell.want(1, 60 - swapped + 50);
    assert_eq!(shell.agents[&1].refused, 1, "110 in all, of 100");
}

#[test]
fn memory_taken_during_a_swap_may_leave_with_it() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 30);
    shell.load(2, best_effort(), 40);
    // Its fresh budget is left to it.
    shell.want(1, 60);
    shell.want(2, 70);
    let Some((Direction::Out, target)) = shell.op(1) else {
        panic!("{:?}", shell.status(1));
    };
    // Within its budget it allocated after its last report, and all that is known leaves.
    assert_eq!((target, shell.status(1).usage.resident), (30, Bytes(30)));
    let agent = shell.agents.get_mut(&1).unwrap();
    agent.usage.resident += Bytes(10);
    agent.usage.arena += Bytes(10);
    shell.end_swap(1, Bytes(30), SwapOutcome::Done);
    let usage = shell.agents[&1].usage;
    let task = TaskId(1);
    shell.tell(Event::Usage { task, usage });
    assert_eq!(shell.violations, []);
}

#[test]
fn who_cannot_run_for_now_lets_others_pass() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 40);
    shell.load(2, best_effort(), 60);
    shell.tell(Event::Capacity { bytes: Bytes(50) });
    shell.finish_swaps();
    assert_eq!(shell.status(1).usage.resident, Bytes(0));
    shell.request(2);
    shell.finish_swaps();
    assert!(!shell.runs(2), "60 of 50");
    shell.request(1);
    shell.finish_swaps();
    assert!(shell.runs(1), "{:#?}", shell.scheduler.state());
    shell.complete(1);
    shell.tell(Event::Capacity { bytes: Bytes(100) });
    shell.finish_swaps();
    assert!(shell.runs(2));
}

#[test]
fn chunks_that_have_left_are_movable_while_the_others_leave() {
    // Realtime needs all of the GPU in turn: what best-effort holds must be able to leave.
    let mut shell = Shell::new(config(100));
    for id in [1, 2] {
        shell.load(id, realtime(1_000, 10, 60, 40), 60);
    }
    shell.warm(1);
    shell.warm(2);
    shell.at(5_000);
    shell.register(3, best_effort());
    let pinnable = Some(20);
    shell.attach_as(
        3,
        Agent {
            pinnable,
            ..Agent::default()
        },
    );
    shell.want(3, 20);
    shell.finish_swaps();
    shell.allocate(3, 20);
    shell.register(4, best_effort());
    shell.attach(4);
    shell.want(4, 20);
    assert_eq!(shell.op(3), Some((Direction::Out, 20)));
    shell.chunk(3);
    assert_eq!(shell.agents[&4].refused, 0);
    shell.chunk(3);
    assert_eq!(shell.agents[&4].budget, 20);
}
