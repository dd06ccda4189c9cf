//! What a plan leaves to those that are not under it.

use super::super::*;
use super::shell::*;
use crate::task::TaskId;
use crate::units::{Bytes, Time};

/// A ready realtime task of 70 of which 50 can leave, with no need to.
fn alone() -> Shell {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(1_000, 10, 70, 50), 70);
    shell.warm(1);
    shell.at(5_000);
    assert_eq!(shell.status(1).volume, Some(Bytes::ZERO));
    shell
}

#[test]
fn a_program_gets_what_realtime_can_do_without() {
    let mut shell = alone();
    shell.load(2, best_effort(), 60);
    assert_eq!(shell.agents[&2].refused, 0);
    assert_eq!(shell.status(1).volume, Some(Bytes(30)));
    assert_eq!(shell.status(1).usage.swapped, Bytes(30));
    shell.request(1);
    shell.finish_swaps();
    assert!(shell.runs(1), "and gives it back for its next job");
    shell.complete(1);
    // 80 is the most: 20 never leave.
    shell.want(2, 81);
    shell.finish_swaps();
    assert_eq!(shell.agents[&2].refused, 1);
    assert_eq!(shell.status(1).volume, Some(Bytes(30)));
}

#[test]
fn a_program_is_there_before_realtime() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 60);
    shell.load(2, best_effort(), 50);
    shell.register(3, realtime(1_000, 10, 70, 50));
    assert_eq!(shell.status(3).volume, Some(Bytes(30)));
}

#[test]
fn who_is_demoted_has_its_memory_again() {
    let mut shell = Shell::new(config(100));
    for id in [1, 2] {
        shell.load(id, realtime(1_000, 10, 80, 70), 80);
        shell.warm(id);
        shell.at(5_000 * u64::from(id));
    }
    assert_eq!(shell.status(1).volume, Some(Bytes(60)));
    shell.tell(Event::Demote { task: TaskId(1) });
    shell.finish_swaps();
    assert_eq!(shell.status(2).volume, Some(Bytes(60)), "not 0");
    for round in 0..3 {
        for id in [1, 2] {
            shell.request(id);
            shell.finish_swaps();
            assert!(shell.runs(id), "{id} in round {round}");
            shell.complete(id);
        }
        shell.at(20_000 + 5_000 * round);
    }
}

/// Nobody has to pin anything, and so no event tells that the plan has changed.
#[test]
fn a_plan_that_nobody_has_to_confirm_is_looked_at_again() {
    let mut shell = alone();
    let agent = shell.agents.get_mut(&1).unwrap();
    (agent.backing, agent.keeps) = (30, true);
    let (task, bytes) = (TaskId(1), Bytes(30));
    shell.tell(Event::Backing { task, bytes });
    shell.register(2, best_effort());
    shell.attach(2);
    shell.want(2, 60);
    assert_eq!(shell.scheduler.poll_timeout(), Some(Time(shell.now)));
    shell.tell(Event::Timer);
    shell.finish_swaps();
    assert_eq!((shell.agents[&2].refused, shell.agents[&2].budget), (0, 60));
}

/// It took its memory before the realtime task took it away, so it asks for none.
#[test]
fn a_job_that_waits_gets_room() {
    let mut shell = Shell::new(config(100));
    shell.register(1, realtime(1_000, 10, 70, 50));
    shell.load(2, best_effort(), 60);
    assert_eq!(shell.agents[&2].refused, 0);
    shell.attach(1);
    shell.want(1, 70);
    shell.finish_swaps();
    shell.allocate(1, 70);
    shell.warm(1);
    shell.at(5_000);
    assert_eq!(shell.status(1).volume, Some(Bytes::ZERO));
    shell.request(2);
    shell.at(5_001);
    shell.finish_swaps();
    assert!(shell.runs(2), "{:?}", shell.status(2));
    assert_eq!(shell.status(1).volume, Some(Bytes(30)));
}

/// The deadlines leave time for 20 to be swapped: more is not to be had.
#[test]
fn the_promise_comes_first() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(28, 10, 70, 50), 70);
    shell.warm(1);
    shell.at(5_000);
    shell.load(2, best_effort(), 50);
    assert_eq!(shell.agents[&2].refused, 0);
    assert_eq!(shell.status(1).volume, Some(Bytes(20)));
    shell.want(2, 60);
    assert_eq!(shell.agents[&2].refused, 1);
    assert_eq!(shell.status(1).volume, Some(Bytes(20)));
}

#[test]
fn what_cannot_be_pinned_is_not_promised() {
    let mut shell = alone();
    shell.agents.get_mut(&1).unwrap().pinnable = Some(20);
    shell.register(2, best_effort());
    shell.attach(2);
    shell.want(2, 60);
    assert_eq!(shell.agents[&2].refused, 1);
    assert_eq!(shell.status(1).volume, Some(Bytes::ZERO));
    assert_eq!(shell.status(1).phase, Phase::Ready);
    shell.want(2, 50);
    shell.finish_swaps();
    assert_eq!(shell.agents[&2].refused, 1, "20 can be pinned");
    assert_eq!(shell.status(1).volume, Some(Bytes(20)));
}

/// Each search in vain costs time that others need.
#[test]
fn a_search_in_vain_is_not_repeated_at_once() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(28, 10, 70, 50), 70);
    shell.warm(1);
    shell.at(5_000);
    shell.register(2, best_effort());
    shell.attach(2);
    shell.want(2, 100);
    assert_eq!(shell.agents[&2].refused, 1);
    shell.want(2, 60);
    shell.at(5_050);
    assert_eq!(shell.agents[&2].refused, 1, "not looked at yet");
    shell.at(5_100);
    assert_eq!(shell.agents[&2].refused, 2);
    shell.want(2, 70);
    assert_eq!(shell.agents[&2].refused, 3, "needs no search");
}
