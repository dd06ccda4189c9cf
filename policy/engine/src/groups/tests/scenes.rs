//! Single conversations of a group, played by hand.

use alloc::vec;

use rtswap_policy::scheduler::{Attachment, SwapOutcome, ViolationKind};
use rtswap_policy::units::Nanos;

use super::*;

fn budget(id: ProcessId, bytes: u64) -> Effect {
    let (bytes, answers) = (Bytes(bytes), None);
    Effect::Order(id, Order::SetBudget { bytes, answers })
}

fn budget_set(bytes: u64) -> Effect {
    let (task, bytes) = (TASK, Bytes(bytes));
    Effect::Tell(Event::BudgetSet { task, bytes })
}

fn swap(id: ProcessId, target: u64, credit: u64) -> Effect {
    let order = Order::Swap {
        op: SwapSeq(1),
        direction: Direction::In,
        target: Bytes(target),
        credit: Bytes(credit),
    };
    Effect::Order(id, order)
}

fn credit(id: ProcessId, credit: u64) -> Effect {
    let (op, credit) = (SwapSeq(1), Bytes(credit));
    Effect::Order(id, Order::SetCredit { op, credit })
}

fn wants(bytes: u64, want: u32) -> Effect {
    let (task, want, bytes) = (TASK, BudgetRequestSeq(want), Bytes(bytes));
    Effect::Tell(Event::BudgetRequested { task, want, bytes })
}

fn ended(op: u32, swapped: u64) -> Report {
    Report::SwapEnded {
        op: SwapSeq(op),
        swapped: Bytes(swapped),
        took: Nanos(1),
        outcome: SwapOutcome::Done,
    }
}

#[test]
fn credit_falls_with_each_budget_and_never_rises() {
    let mut scene = Scene::new(&[(A, 60)]);
    assert_eq!(scene.budget(20), [budget(A, 20), budget_set(20)]);
    assert_eq!(scene.swap_in(0), [swap(A, 0, 40)]);
    let lowered = [budget(A, 30), credit(A, 30), budget_set(30)];
    assert_eq!(scene.budget(30), lowered);
    assert_eq!(scene.budget(30), [budget_set(30)]);
    assert_eq!(scene.budget(20), [budget(A, 20), budget_set(20)]);
    assert_eq!(scene.budget(30), [budget(A, 30), budget_set(30)]);
    // With budget for all there is, it may go on to its target whatever it holds.
    let last = [budget(A, 70), credit(A, 0), budget_set(70)];
    assert_eq!(scene.budget(70), last);
}

#[test]
fn credit_comes_before_what_was_to_follow() {
    let mut scene = Scene::new(&[(A, 40), (B, 40)]);
    scene.budget(0);
    let begun = scene.swap_in(0);
    assert_eq!(begun, [swap(A, 0, 40), swap(B, 0, 40)]);
    let lowered = [
        budget(A, 40),
        credit(A, 0),
        budget(B, 20),
        credit(B, 20),
        budget_set(60),
    ];
    assert_eq!(scene.budget(60), lowered);
}

#[test]
fn swap_out_has_its_target_as_credit() {
    let mut scene = Scene::new(&[(A, 40)]);
    scene.budget(30);
    let usage = Usage {
        resident: Bytes(30),
        swapped: Bytes(10),
        arena: Bytes(40),
    };
    scene.report(A, Report::Usage(usage));
    let (op, direction, target) = (SwapSeq(1), Direction::Out, Bytes(30));
    let order = Order::Swap {
        op,
        direction,
        target,
        credit: target,
    };
    assert_eq!(scene.swap(direction, target), [Effect::Order(A, order)]);
    // What leaves needs no credit, whatever the budget.
    assert_eq!(scene.budget(50), [budget(A, 50), budget_set(50)]);
}

#[test]
fn a_stuck_job_is_due_at_its_timeout() {
    let mut scene = Scene::new(&[(A, 0), (B, 0)]);
    let (task, job) = (TASK, JobSeq(1));
    let grant = |id, job| Effect::Order(id, Order::Grant { job: JobSeq(job) });
    let revoke = |id, job| Effect::Order(id, Order::Revoke { job: JobSeq(job) });
    scene.job(A, 1);
    scene.job(B, 1);
    let both = scene.obey(&Command::Grant { task, job });
    assert_eq!(both, [grant(A, 1), grant(B, 1)]);
    scene.report(A, Report::JobCompleted { job });
    scene.now = 10;
    assert_eq!(scene.job(A, 2), [], "a realtime process runs once");
    assert_eq!(scene.due(), None);
    scene.obey(&Command::Violation {
        task,
        kind: ViolationKind::Overrun,
        detail: "past its WCET".into(),
    });
    assert_eq!(scene.due(), Some(110));
    assert_eq!(scene.tick(109), []);
    assert_eq!(scene.tick(110), [grant(A, 2)]);
    assert_eq!(scene.due(), None);
    scene.report(A, Report::JobCompleted { job: JobSeq(2) });
    scene.job(A, 3);
    let command = Command::Revoke { task, job };
    assert_eq!(scene.obey(&command), [revoke(B, 1)]);
    assert_eq!(scene.due(), Some(210));
    assert_eq!(scene.tick(210), [grant(A, 3)]);
    assert_eq!(scene.due(), Some(310), "runs as long as it has waited");
    assert_eq!(scene.tick(310), [revoke(A, 3)]);
    assert_eq!(scene.due(), None);
}

#[test]
fn a_request_is_due_when_fresh_budget_is_not() {
    let mut scene = Scene::new(&[(A, 0), (B, 0)]);
    assert_eq!(scene.request(A, 20), [wants(20, 1)]);
    scene.now = 5;
    let granted = BudgetAnswer {
        want: BudgetRequestSeq(1),
        granted: true,
    };
    scene.answer(20, Some(granted));
    assert_eq!(scene.due(), None, "nobody waits");
    assert_eq!(scene.request(B, 10), []);
    assert_eq!(scene.due(), Some(25));
    assert_eq!(scene.tick(24), []);
    assert_eq!(scene.tick(25), [wants(10, 2)]);
    assert_eq!(scene.due(), None);
}

#[test]
fn a_process_that_brings_only_a_request_is_admitted_at_once() {
    let mut scene = Scene::new(&[(A, 0)]);
    let (task, job) = (TASK, JobSeq(1));
    scene.job(A, 1);
    scene.obey(&Command::Grant { task, job });
    let open = rtswap_policy::scheduler::OpenJob {
        job,
        running: false,
        kind: JobKind::Declared,
    };
    let none = Usage::default();
    let attached = scene
        .group
        .attach(scene.time(), B, none, Bytes::ZERO, Some(open), Bytes::ZERO);
    assert_eq!(attached, Ok(()));
    let admitted = vec![Effect::Order(B, Order::Grant { job })];
    assert_eq!(scene.effects(), admitted);
}

#[test]
fn a_process_that_the_scheduler_refuses_is_counted_on_until_it_leaves() {
    let mut scene = Scene::new(&[(A, 0)]);
    let budget = Bytes(2 * CHUNK);
    let given = Command::SetBudget {
        task: TASK,
        bytes: budget,
        answers: None,
    };
    scene.group.obey(scene.time(), &given);
    scene.effects();
    scene.group.lose(scene.time(), A);
    assert_eq!(scene.effects(), [Effect::Tell(Event::Lost { task: TASK })]);
    let usage = Usage {
        resident: Bytes(9 * CHUNK),
        ..Usage::default()
    };
    let attached = scene
        .group
        .attach(scene.time(), A, usage, Bytes::ZERO, None, usage.resident);
    assert_eq!(attached, Ok(()));
    assert!(matches!(
        scene.effects()[..],
        [Effect::Tell(Event::Attach { .. })]
    ));
    assert!(scene.group.refuse(scene.time(), A, Attachment::Lost));
    assert_eq!(scene.effects(), [], "the scheduler waits for nothing");
    assert_eq!(scene.group.budget_of(A), budget, "not what it claims");
    scene.group.leave(scene.time(), A);
    let left = Effect::Tell(Event::Detach { task: TASK });
    assert_eq!(scene.effects(), [left]);
}

#[test]
fn a_process_that_is_refused_without_a_session_has_never_been() {
    let mut scene = Scene::new(&[]);
    let usage = Usage {
        arena: Bytes(1),
        ..Usage::default()
    };
    let attached = scene
        .group
        .attach(scene.time(), A, usage, Bytes::ZERO, None, Bytes::ZERO);
    assert!(attached.is_err());
    assert!(!scene.group.refuse(scene.time(), A, Attachment::Absent));
    assert!(scene.group.is_empty());
    assert_eq!(scene.effects(), []);
}

#[test]
fn what_a_process_brings_leaves_while_its_sibling_runs_on() {
    let mut scene = Scene::new(&[(A, 0)]);
    let (task, job) = (TASK, JobSeq(1));
    scene.job(A, 1);
    scene.obey(&Command::Grant { task, job });
    let brought = Usage {
        resident: Bytes(50),
        swapped: Bytes::ZERO,
        arena: Bytes(40),
    };
    let now = scene.time();
    let attached = scene
        .group
        .attach(now, B, brought, Bytes(60), None, Bytes::ZERO);
    assert_eq!(attached, Ok(()));
    assert!(scene.effects().contains(&wants(50, 1)));
    let refused = |want| BudgetAnswer {
        want: BudgetRequestSeq(want),
        granted: false,
    };
    scene.answer(0, Some(refused(1)));
    assert_eq!(scene.due(), Some(1_000));
    assert_eq!(scene.tick(1_000), [wants(50, 2)]);
    let target = Bytes(40);
    let leave = Order::Swap {
        op: SwapSeq(u32::MAX),
        direction: Direction::Out,
        target,
        credit: target,
    };
    let told = scene.answer(0, Some(refused(2)));
    assert!(told.contains(&Effect::Order(B, leave)), "{told:?}");
    assert!(!told.contains(&Effect::Tell(Event::Lost { task })));
    // Back at the next quiet instant, with what its context takes still to be covered.
    assert_eq!(scene.report(B, ended(u32::MAX, 40)), []);
    let quiet = scene.report(A, Report::JobCompleted { job });
    let usage = Usage {
        resident: Bytes::ZERO,
        swapped: target,
        arena: target,
    };
    let attach = Event::Attach {
        task,
        usage,
        backing: Bytes(60),
        open: None,
    };
    assert!(quiet.contains(&Effect::Tell(attach)), "{quiet:?}");
    assert_eq!(quiet.last(), Some(&wants(10, 3)));
}

#[test]
fn of_what_was_brought_the_rest_counts_once_the_part_that_counts_has_left() {
    let mut scene = Scene::new(&[]);
    let brought = Usage {
        resident: Bytes(50),
        swapped: Bytes::ZERO,
        arena: Bytes(50),
    };
    let now = scene.time();
    let attached = scene
        .group
        .attach(now, A, brought, Bytes(50), None, Bytes(30));
    assert_eq!(attached, Ok(()));
    scene.effects();
    assert_eq!(scene.group.held_by(A), Bytes(30));
    scene.swap(Direction::Out, Bytes(30));
    scene.report(A, ended(1, 30));
    let nothing = Command::SetBudget {
        task: TASK,
        bytes: Bytes::ZERO,
        answers: None,
    };
    scene.group.obey(scene.time(), &nothing);
    assert_eq!(scene.group.poll(), Some(budget(A, 0)));
    // The page says that 20 bytes of the budget are in use.
    assert_eq!(scene.group.confirm_budget(A, Bytes(20)), Bytes(20));
    assert_eq!(scene.group.held_by(A), Bytes(20));
    assert_eq!(scene.group.unproven(A), None);
}

#[test]
fn a_witness_that_speaks_while_it_leaves_makes_what_is_left_count() {
    let mut scene = Scene::new(&[]);
    let brought = Usage {
        resident: Bytes(50),
        swapped: Bytes::ZERO,
        arena: Bytes(40),
    };
    let now = scene.time();
    let attached = scene
        .group
        .attach(now, A, brought, Bytes(60), None, Bytes::ZERO);
    assert_eq!(attached, Ok(()));
    scene.effects();
    for want in 1..=2 {
        let want = BudgetRequestSeq(want);
        let granted = false;
        scene.answer(0, Some(BudgetAnswer { want, granted }));
        scene.tick(1_000);
    }
    assert!(scene.group.moving().is_empty(), "it is set aside");
    assert!(scene.group.record_shown(scene.time(), A, Bytes(50)));
    let back = scene.report(A, ended(u32::MAX, 40));
    let usage = Usage {
        resident: Bytes(10),
        swapped: Bytes(40),
        arena: Bytes(40),
    };
    let attach = Event::Attach {
        task: TASK,
        usage,
        backing: Bytes(60),
        open: None,
    };
    assert_eq!(back, [Effect::Tell(attach)]);
    assert_eq!(scene.group.held_by(A), Bytes(10), "no more, and no less");
}
