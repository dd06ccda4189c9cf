//! Scenes of one plan following another.

use super::super::*;
use super::shell::*;
use crate::admission::Test;
use crate::cost::{DirectionCost, SwapCost};
use crate::task::{Class, TaskId, TaskSpec, Timing};
use crate::units::{Bytes, Nanos};

/// A uses 4 of its 10, and 6 are taken back under x = 6 without a swap. The next plan has x = 0 for
/// it, but its next job still lacks 6: N, which the test admits only beside an A that lacks nothing,
/// has to wait until A has them again.
#[test]
fn budget_that_was_taken_back_unused_is_charged_until_it_is_back() {
    let chunk = |millis| DirectionCost {
        base: Nanos::ZERO,
        per_chunk: Nanos(millis * MS - 1),
        bytes_per_second: 1_000_000_000,
    };
    let mut shell = Shell::new(Config {
        chunk: Bytes(1),
        swap_cost: SwapCost {
            out: chunk(100),
            in_: chunk(1),
        },
        drain: Nanos::ZERO,
        test: Test::Demand,
        ..config(14)
    });
    let task = |deadline, wcet, footprint, swappable| TaskSpec {
        class: Class::Realtime(Timing {
            period: Nanos(1_000_000 * MS),
            deadline: Nanos(deadline * MS),
            wcet: Nanos(wcet * MS),
        }),
        ..realtime(1, 1, footprint, swappable)
    };
    let set = [
        (1, task(1_210, 1, 10, 10), 4, 24),
        (2, task(2_423, 1, 10, 10), 10, 24),
        (3, task(2_423, 1, 10, 10), 10, 25),
        (4, task(2_423, 1_208, 1, 0), 1, 25),
    ];
    let mut lacked = Bytes::ZERO;
    for (id, spec, uses, capacity) in set {
        shell.load(id, spec, uses);
        shell.warm(id);
        shell.at(shell.now / MS + 2_000_000);
        shell.finish_swaps();
        let first = shell.status(1);
        lacked = lacked.max(Bytes(10).saturating_sub(first.budget));
        if id > 1 {
            let bytes = Bytes(capacity);
            shell.tell(Event::Capacity { bytes });
        }
    }
    assert_eq!(lacked, Bytes(6));
    let (first, last) = (shell.status(1), shell.status(4));
    assert_eq!(
        (first.volume, last.volume),
        (Some(Bytes::ZERO), Some(Bytes::ZERO))
    );
    assert_eq!(first.budget, Bytes(10));
}

#[test]
fn the_revision_of_the_plan_changes_with_the_plan_alone() {
    let mut shell = Shell::new(config(100));
    let mut last = shell.scheduler.state().plan_revision();
    let mut changed = |shell: &Shell| {
        let now = shell.scheduler.state().plan_revision();
        core::mem::replace(&mut last, now) != now
    };
    shell.register(1, realtime(1_000, 10, 60, 40));
    assert!(changed(&shell), "registered with a volume of zero");
    shell.attach(1);
    shell.want(1, 60);
    shell.allocate(1, 60);
    changed(&shell);
    shell.load(2, realtime(1_000, 10, 60, 40), 60);
    assert!(changed(&shell), "20 of each may be out now");
    shell.register(3, realtime(1_000, 10, 101, 0));
    assert_eq!(shell.refusals.len(), 1);
    shell.register(4, best_effort());
    shell.attach(4);
    for round in 1..4 {
        shell.warm(1);
        shell.warm(2);
        shell.at(2_000 * round);
    }
    assert!(shell.status(1).counts.jobs > 2 && shell.status(1).usage.swapped > Bytes::ZERO);
    shell.want(4, 10);
    shell.finish_swaps();
    shell.allocate(4, 10);
    shell.request(4);
    shell.complete(4);
    shell.tell(Event::Unregister { task: TaskId(4) });
    assert!(!changed(&shell), "jobs, swaps, usage and best-effort");
    shell.tell(Event::Demote { task: TaskId(2) });
    assert!(changed(&shell), "demoted");
    shell.tell(Event::Unregister { task: TaskId(2) });
    assert!(!changed(&shell), "it was best-effort already");
    shell.tell(Event::Unregister { task: TaskId(1) });
    assert!(changed(&shell), "unregistered");
}

#[test]
fn the_revision_of_the_plan_changes_as_a_plan_takes_effect() {
    let mut shell = Shell::new(config(100));
    shell.load(1, realtime(1_000, 10, 60, 40), 60);
    shell.warm(1);
    shell.agents.get_mut(&1).unwrap().pins_late = true;
    shell.register(2, realtime(1_000, 10, 60, 40));
    assert_eq!(shell.status(2).volume, None);
    let before = shell.scheduler.state().plan_revision();
    shell.pin_late(1);
    assert_eq!(shell.status(2).volume, Some(Bytes(20)));
    assert_ne!(shell.scheduler.state().plan_revision(), before);
}
