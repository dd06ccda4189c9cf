//! What several processes of a task have together, and wants that only have to wait.

use super::super::*;
use super::shell::{Agent, Shell, best_effort, config};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

/// Task 1, of several processes, holds 60 and comes in, so that some of the `others` of task 2 is out.
fn on_its_way_in(pinnable: u64, others: u64) -> Shell {
    let mut shell = Shell::new(config(100));
    shell.register(1, best_effort());
    let pinnable = Some(pinnable);
    shell.attach_as(
        1,
        Agent {
            pinnable,
            ..Agent::default()
        },
    );
    shell.want(1, 60);
    shell.allocate(1, 60);
    shell.load(2, best_effort(), others);
    shell.request(2);
    shell.finish_swaps();
    assert!(shell.runs(2));
    shell.request(1);
    shell.complete(2);
    while shell.op(1) != Some((Direction::In, 0)) {
        assert!(shell.end_first_swap(), "{:?}", shell.status(1));
    }
    shell
}

#[test]
fn a_swap_in_whose_budget_turns_out_too_small_is_begun_anew() {
    let mut shell = on_its_way_in(100, 50);
    let agent = shell.agents.get_mut(&1).unwrap();
    let (budget, swapped) = (agent.budget, agent.usage.swapped);
    // A process that held 30 is gone, and had not freed what it was thought to have.
    let resident = Bytes(budget - 30);
    let arena = resident + swapped;
    agent.usage = Usage {
        resident,
        swapped,
        arena,
    };
    agent.budget -= 30;
    let usage = agent.usage;
    shell.tell(Event::Regrouped {
        task: TaskId(1),
        dying: Bytes(30),
        usage,
        backing: Bytes(60),
    });
    shell.tell(Event::Released { task: TaskId(1) });
    shell.finish_swaps();
    assert!(shell.runs(1), "{:?}", shell.status(1));
    assert_eq!(shell.status(1).budget, arena);
}

#[test]
fn what_comes_in_can_leave_again_for_a_want() {
    // Its backing store holds what is out now and no more.
    let mut shell = on_its_way_in(50, 90);
    assert_eq!(shell.status(1).usage.swapped, Bytes(50));
    assert_eq!(shell.agents[&2].budget, 40);
    shell.want(2, 50);
    assert_eq!(shell.agents[&2].refused, 0, "{:?}", shell.status(1));
    shell.finish_swaps();
    shell.complete(1);
    shell.finish_swaps();
    assert_eq!(shell.agents[&2].refused, 0);
    let status = shell.status(2);
    assert_eq!(status.budget + status.usage.swapped, Bytes(100));
}

#[test]
fn what_was_taken_and_not_reported_yet_refuses_no_want() {
    let mut shell = Shell::new(config(100));
    shell.register(1, best_effort());
    shell.attach(1);
    shell.want(1, 40);
    // Taken, and its report is under way when the budget that it seems not to use is asked for.
    shell.agents.get_mut(&1).unwrap().usage.resident = Bytes(40);
    shell.load(2, best_effort(), 50);
    shell.at(1_000);
    shell.want(2, 80);
    assert_eq!(shell.status(1).usage.resident, Bytes(40));
    assert_eq!(shell.agents[&2].refused, 0);
    shell.agents.get_mut(&1).unwrap().usage.resident = Bytes::ZERO;
    shell.allocate(1, 40);
    shell.finish_swaps();
    assert_eq!(shell.agents[&2].budget, 80);
}

#[test]
fn a_swap_out_cannot_end_beyond_a_backing_store_that_fell() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 60);
    shell.register(2, best_effort());
    shell.attach(2);
    shell.want(2, 60);
    assert_eq!(shell.op(1), Some((Direction::Out, 20)));
    let op = shell.agents[&1].op.unwrap().0;
    let now = shell.scheduler.state().now;
    // A process of task 1 is gone, and its backing store with it: nobody has grown the rest yet.
    let regrouped = Event::Regrouped {
        task: TaskId(1),
        dying: Bytes(30),
        usage: Usage {
            resident: Bytes(30),
            swapped: Bytes::ZERO,
            arena: Bytes(30),
        },
        backing: Bytes(10),
    };
    shell.scheduler.handle(now, regrouped).unwrap();
    let ended = |swapped| Event::SwapEnded {
        task: TaskId(1),
        op,
        swapped: Bytes(swapped),
        took: Nanos::ZERO,
        outcome: SwapOutcome::Done,
    };
    let refused = shell.scheduler.handle(now, ended(20));
    assert!(
        matches!(refused, Err(EventError::Impossible { .. })),
        "{refused:?}"
    );
    shell.scheduler.handle(now, ended(10)).unwrap();
    assert_eq!(shell.status(1).usage.swapped, Bytes(10));
}
