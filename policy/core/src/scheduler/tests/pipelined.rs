//! Scenes of pipelined regions: chunks change hands one by one.

use super::super::*;
use super::shell::*;
use crate::admission::Test;
use crate::task::TaskId;
use crate::units::{Bytes, Time};

/// Ready realtime tasks of 60 each in 100, of each of which 40 may leave.
fn ready(tasks: u32) -> Shell {
    let mut shell = Shell::new(Config {
        test: Test::Pipelined,
        ..config(100)
    });
    for id in 1..=tasks {
        shell.load(id, realtime(1_000 * u64::from(id), 10, 60, 40), 60);
    }
    assert!(shell.refusals.is_empty(), "{:?}", shell.refusals);
    for id in 1..=tasks {
        shell.warm(id);
    }
    shell.at(90_000);
    shell
}

fn handed_out(shell: &Shell) -> u64 {
    shell.agents.values().map(|agent| agent.budget).sum()
}

#[test]
fn eviction_and_swap_in_start_together_and_hand_over_each_chunk() {
    let mut shell = ready(2);
    assert_eq!(shell.status(1).usage.swapped, Bytes(20));
    shell.request(1);
    assert_eq!(shell.op(1), Some((Direction::In, 0)));
    assert_eq!(shell.op(2), Some((Direction::Out, 20)));
    assert!(!shell.chunk(1), "nothing is free yet");
    for _ in 0..2 {
        assert!(shell.chunk(2));
        assert_eq!(handed_out(&shell), 100);
        assert!(shell.chunk(1));
    }
    assert!(shell.runs(1));
    assert_eq!(shell.violations, []);
    shell.complete(1);
    let account = shell.accounts.last().unwrap();
    assert_eq!(account.task, TaskId(1));
}

/// A task that became ready would keep the chunks that the region opened for. Another victim would
/// have to give them, and that one may still be draining.
#[test]
fn no_task_is_promoted_while_a_region_is_filled() {
    let mut shell = Shell::new(Config {
        test: Test::Pipelined,
        ..config(160)
    });
    for id in 1..=3 {
        let period = 1_000 * u64::from(4 - id);
        shell.load(id, realtime(period, 10, 60, 40), 60);
    }
    shell.at(90_000);
    assert_eq!(shell.status(1).usage.swapped, Bytes(20));
    shell.request(1);
    assert_eq!(shell.op(1), Some((Direction::In, 0)));
    assert_eq!(shell.op(3), None);
    shell.request(3);
    assert_eq!(shell.status(3).phase, Phase::Loading);
    shell.finish_swaps();
    assert!(shell.runs(1));
    shell.complete(1);
    shell.finish_swaps();
    assert!(shell.runs(3));
    shell.complete(3);
    assert_eq!(shell.status(3).phase, Phase::Ready);
}

#[test]
fn nothing_leaves_early_for_what_a_running_job_holds() {
    let mut shell = ready(2);
    shell.request(1);
    shell.finish_swaps();
    assert!(shell.runs(1));
    shell.request(2);
    assert_eq!(
        shell.op(2),
        None,
        "its chunks are those of the job that runs"
    );
    shell.complete(1);
    assert_eq!(shell.op(2), Some((Direction::In, 0)));
    assert_eq!(shell.op(1), Some((Direction::Out, 20)));
    shell.finish_swaps();
    assert!(shell.runs(2));
}

#[test]
fn a_region_opens_beside_a_running_job_if_others_can_give_all() {
    let mut shell = Shell::new(Config {
        test: Test::Pipelined,
        ..config(100)
    });
    shell.load(1, realtime(1_000, 10, 20, 0), 20);
    for id in [2, 3] {
        shell.load(id, realtime(1_000, 10, 60, 40), 60);
    }
    for id in [1, 2, 3] {
        shell.warm(id);
    }
    shell.at(9_000);
    shell.request(1);
    assert!(shell.runs(1));
    shell.request(2);
    assert_eq!(shell.op(2), Some((Direction::In, 0)));
    shell.finish_swaps();
    assert!(!shell.runs(2));
    shell.complete(1);
    assert!(shell.runs(2));
}

#[test]
fn a_victim_that_ends_short_is_asked_again_later() {
    let mut shell = ready(2);
    shell.request(1);
    shell.chunk(2);
    shell.end_swap(2, Bytes(10), SwapOutcome::Failed);
    // Nobody else has any: the swap-in is stopped, and others may pass.
    assert_eq!(shell.op(1), None);
    assert_eq!(shell.violations, [(1, ViolationKind::Emergency)]);
    shell.at(90_101);
    assert_eq!(shell.op(1), Some((Direction::In, 0)));
    assert_eq!(shell.op(2), Some((Direction::Out, 20)));
    shell.finish_swaps();
    assert!(shell.runs(1), "{:#?}", shell.scheduler.state());
}

#[test]
fn memory_of_a_victim_that_dies_is_waited_for() {
    let mut shell = ready(2);
    shell.request(1);
    shell.chunk(2);
    shell.tell(Event::Detach { task: TaskId(2) });
    shell.agents.remove(&2);
    assert_eq!(shell.op(1), Some((Direction::In, 0)));
    shell.now += 4 * MS;
    shell.tell(Event::Released { task: TaskId(2) });
    shell.finish_swaps();
    assert!(shell.runs(1));
    assert_eq!(shell.violations, []);
}

#[test]
fn a_victim_that_dies_and_is_not_released_leaves_its_region_to_try_again() {
    let mut shell = ready(2);
    shell.request(1);
    shell.chunk(2);
    shell.tell(Event::Detach { task: TaskId(2) });
    shell.agents.remove(&2);
    // Nobody else has any: the swap-in is stopped, and others may pass.
    assert_eq!(
        shell.scheduler.poll_timeout(),
        Some(Time(shell.now + 5 * MS))
    );
    shell.now += 5 * MS;
    shell.tell(Event::Timer);
    assert_eq!(shell.op(1), None);
    assert_eq!(shell.violations, [(1, ViolationKind::Emergency)]);
    shell.tell(Event::Released { task: TaskId(2) });
    shell.now += 5 * MS;
    shell.tell(Event::Timer);
    shell.finish_swaps();
    assert!(shell.runs(1));
}

#[test]
fn a_region_that_dies_leaves_its_evictions_to_end() {
    let mut shell = ready(2);
    shell.request(1);
    shell.chunk(2);
    shell.tell(Event::Detach { task: TaskId(1) });
    shell.agents.remove(&1);
    shell.request(2);
    shell.finish_swaps();
    assert!(!shell.runs(2), "the dead are counted until released");
    shell.tell(Event::Released { task: TaskId(1) });
    shell.now += 10 * MS;
    shell.tell(Event::Timer);
    shell.finish_swaps();
    assert!(shell.runs(2), "{:#?}", shell.scheduler.state());
}

#[test]
fn less_capacity_in_a_region_takes_more_from_others() {
    let mut shell = ready(2);
    shell.request(1);
    shell.tell(Event::Capacity { bytes: Bytes(90) });
    shell.finish_swaps();
    assert!(shell.runs(1), "{:#?}", shell.scheduler.state());
    assert!(handed_out(&shell) <= 90);
    assert_eq!(shell.violations, [(2, ViolationKind::Emergency)]);
}

#[test]
fn a_victim_that_hangs_costs_its_bound_and_no_more() {
    let mut shell = ready(2);
    shell.request(1);
    assert!(shell.op(2).is_some());
    let wake = shell.scheduler.poll_timeout().unwrap();
    assert!(wake > Time(shell.now));
    shell.now = wake.0;
    shell.tell(Event::Timer);
    assert!(shell.violations.contains(&(2, ViolationKind::SwapOverdue)));
    assert!(shell.violations.contains(&(1, ViolationKind::Emergency)));
    assert_eq!(shell.scheduler.state().gpu().region, None);
}
