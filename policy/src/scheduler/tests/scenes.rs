//! Scenes.

use super::super::*;
use super::shell::*;
use crate::units::{Bytes, Time};

/// Two realtime tasks of 60 in 100: 20 of each may leave.
fn two() -> Shell {
    let mut shell = Shell::new(config(100));
    for id in [1, 2] {
        shell.load(id, realtime(1_000, 10, 60, 40), 60);
        assert_eq!(shell.refusals, [""; 0]);
    }
    shell.warm(1);
    shell.warm(2);
    shell.at(5_000);
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
    assert_eq!(second.queue.0, 7 * MS);
    assert_eq!(second.execution.0, 2 * MS);
    assert_eq!(second.blocked_by, Some(crate::task::TaskId(1)));
    assert_eq!(second.deadline, Some(Time(100 * MS)));
    assert_eq!(shell.violations, []);
}

#[test]
fn exactly_what_is_lacking_leaves_and_the_account_says_so() {
    let mut shell = two();
    // Task 2 ran last, so 20 of task 1 are out.
    assert_eq!(shell.status(1).usage.swapped, Bytes(20));
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
