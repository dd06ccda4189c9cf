//! Best-effort agents that do not do as they are told, beside a realtime task that must run.

use super::super::*;
use super::shell::*;
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

#[test]
fn who_does_not_leave_the_gpu_is_waited_for_no_longer_than_its_bound() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(1_000, 10, 40, 40), 40);
    shell.warm(1);
    shell.load(2, best_effort(), 30);
    shell.load(3, best_effort(), 30);
    shell.at(2_000);
    shell.request(2);
    shell.request(1);
    assert!(shell.agents[&2].revoked && !shell.runs(1));
    // Four times the drain and 100 ms.
    let due = shell.scheduler.poll_timeout().unwrap();
    assert_eq!(due.0, 2_104 * MS);
    shell.at(2_104);
    assert_eq!(shell.violations, [(2, ViolationKind::Undrainable)]);
    assert!(shell.runs(1), "the realtime job goes on beside it");
    shell.complete(1);
    shell.request(3);
    assert!(shell.runs(3), "and so do others");
    assert_eq!(shell.op(2), None);
    shell.complete(2);
    let ended = shell.accounts.last().unwrap();
    assert_eq!((ended.task, ended.end), (TaskId(2), JobEnd::Revoked));
    shell.complete(3);
    shell.request(2);
    assert!(shell.runs(2), "once it has ended it is one of many again");
}

#[test]
fn memory_of_who_strays_is_never_moved() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(1_000, 10, 40, 40), 40);
    shell.warm(1);
    shell.load(2, best_effort(), 60);
    shell.at(2_000);
    shell.request(2);
    shell.request(1);
    shell.at(2_104);
    shell.complete(1);
    // Another wants memory that only the stray could give.
    shell.register(3, best_effort());
    shell.attach(3);
    shell.want(3, 30);
    assert_eq!(shell.op(2), None);
}

#[test]
fn an_agent_that_says_done_and_moves_nothing_is_not_asked_again_at_once() {
    let mut shell = Shell::new(Config {
        best_effort_reserve: Bytes(40),
        ..config(140)
    });
    for id in [4, 1] {
        shell.load(id, realtime(1_000, 10, 60, 60), 60);
    }
    shell.warm(4);
    shell.warm(1);
    shell.at(2_000);
    shell.load(2, best_effort(), 30);
    shell.load(3, best_effort(), 30);
    shell.at(4_000);
    shell.request(4);
    shell.finish_swaps();
    shell.complete(4);
    assert!(shell.status(1).usage.swapped > Bytes::ZERO);
    shell.request(1);
    let asked = |shell: &Shell| {
        let out = |id: &u32| shell.op(*id).is_some_and(|(way, _)| way == Direction::Out);
        [2, 3, 4].into_iter().find(out).expect("memory leaves")
    };
    let liar = asked(&shell);
    assert_ne!(liar, 4, "best-effort first");
    let swapped = shell.agents[&liar].usage.swapped;
    shell.end_swap(liar, swapped, SwapOutcome::Done);
    assert_ne!(asked(&shell), liar, "another's turn");
    shell.finish_swaps();
    assert!(shell.runs(1));
    assert_eq!(
        shell.accounts.last().map(JobAccount::lateness),
        Some(Nanos::ZERO)
    );
}

/// The task reports `resident` bytes, 30 of them in the arena.
fn report(shell: &mut Shell, id: u32, resident: u64) {
    let usage = &mut shell.agents.get_mut(&id).unwrap().usage;
    usage.resident = Bytes(resident);
    let (task, usage) = (TaskId(id), *usage);
    shell.tell(Event::Usage { task, usage });
}

#[test]
fn a_claim_beyond_the_budget_leaves_no_budget_behind() {
    let mut shell = Shell::new(config(100));
    shell.load(1, best_effort(), 30);
    shell.load(2, best_effort(), 30);
    shell.request(2);
    assert!(shell.runs(2));
    report(&mut shell, 2, 150);
    assert_eq!(shell.violations, [(2, ViolationKind::OverBudget)]);
    assert_eq!(shell.status(2).budget, Bytes(150), "it counts");
    // Another of its processes asks meanwhile, and needs no more than the task counts already.
    shell.want(2, 60);
    report(&mut shell, 2, 40);
    assert_eq!(shell.status(2).budget, Bytes(40), "and then what is true");
    report(&mut shell, 2, 30);
    assert_eq!(shell.status(2).budget, Bytes(30));
    shell.finish_swaps();
    shell.want(2, 60);
    shell.finish_swaps();
    let used = shell.scheduler.state().gpu().used;
    assert_eq!(
        (shell.agents[&2].budget, used),
        (60, Bytes(60)),
        "what it asked for"
    );
}

#[test]
fn a_claim_of_a_process_that_dies_takes_nothing_from_the_others() {
    let mut shell = Shell::new(config(100));
    shell.load(2, best_effort(), 30);
    shell.want(2, 50);
    report(&mut shell, 2, 90);
    let (usage, backing) = (shell.agents[&2].usage, shell.agents[&2].backing);
    let usage = Usage {
        resident: Bytes(30),
        ..usage
    };
    shell.agents.get_mut(&2).unwrap().usage = usage;
    // The one that claimed had no budget of the 50.
    shell.tell(Event::Regrouped {
        task: TaskId(2),
        dying: Bytes(40),
        usage,
        backing: Bytes(backing),
    });
    report(&mut shell, 2, 30);
    let status = shell.status(2);
    assert_eq!((status.budget, status.dying), (Bytes(50), Bytes(40)));
}
