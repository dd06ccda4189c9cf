//! What realtime pays for best-effort that ignores a revoke or an abort, or that is stopped: the drain
//! bound S, as the admission tests charge it, and no more.

use rtswap_policy::scheduler::{
    Config, Direction, Event, JobKind, Sharing, SwapOutcome, Undrained, Usage, ViolationKind,
};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Nanos, Time};

use crate::world::setting::{MS, best_effort, config, realtime};
use crate::world::{Answers, World};

/// A realtime task of 40 and two best-effort tasks of 30, on a GPU of `config`.
fn three(config: Config) -> World {
    let mut world = World::new(config);
    world.load_ready(1, realtime(1_000, 10, 40, 40), 40);
    world.load(2, best_effort(), 30);
    world.load(3, best_effort(), 30);
    world.at(2_000);
    world
}

fn due(world: &mut World) -> u64 {
    world.scheduler.poll_timeout().unwrap().0
}

#[test]
fn an_abort_that_is_ignored_holds_the_engine_no_longer_than_the_drain_bound() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 40, 40), 40);
    world.load(2, best_effort(), 60);
    world.load(3, best_effort(), 60);
    world.at(2_000);
    world.request(2);
    assert_eq!(world.op(3), Some((Direction::Out, 60)));
    // By the cost model it may take four times 6 ms and 100 ms.
    assert!(due(&mut world) > 2_100 * MS);
    world.answers = Answers::Budgets;
    world.request(1);
    assert_eq!(due(&mut world), 2_001 * MS + 1);
    world.at(2_002);
    // What leaves and what comes in for it.
    let overdue = [3, 2].map(|id| (id, ViolationKind::SwapOverdue));
    assert_eq!(world.violations, overdue);
}

/// Many processes of one user would each cost realtime the whole bound otherwise.
#[test]
fn a_barred_task_swaps_out_for_realtime_within_the_model() {
    for (barred, overdue) in [(false, 2_005), (true, 2_002)] {
        let mut world = World::new(config(100));
        world.load_ready(1, realtime(1_000, 10, 40, 40), 40);
        world.load(2, best_effort(), 80);
        world.at(2_000);
        if barred {
            let until = Time(5_000 * MS);
            let task = TaskId(2);
            world.tell(Event::Bar {
                task,
                until,
                while_loading: false,
            });
        }
        world.request(1);
        assert_eq!(world.op(2), Some((Direction::Out, 20)));
        world.at(overdue);
        assert!(world.violations.is_empty(), "2 ms by the model");
        world.at(overdue + 1);
        assert_eq!(world.violations[0], (2, ViolationKind::SwapOverdue));
    }
}

#[test]
fn a_second_swap_out_that_moves_nothing_is_a_violation() {
    let outcomes = [
        SwapOutcome::Done,
        SwapOutcome::Failed,
        SwapOutcome::OutOfMemory,
    ];
    for outcome in outcomes {
        let mut world = World::new(config(100));
        world.load_ready(1, realtime(1_000, 10, 40, 40), 40);
        world.load(2, best_effort(), 80);
        world.at(2_000);
        world.request(1);
        assert_eq!(world.op(2), Some((Direction::Out, 20)));
        let lie = |world: &mut World, at| {
            world.end_swap(2, 10, outcome);
            world.at(at);
            assert_eq!(world.op(2), Some((Direction::Out, 20)), "asked again soon");
        };
        lie(&mut world, 2_005);
        lie(&mut world, 2_010);
        let failed = (2, ViolationKind::SwapFailed);
        assert!(
            !world.violations.contains(&failed),
            "it may have freed some"
        );
        world.end_swap(2, 10, outcome);
        assert!(world.violations.contains(&failed));
    }
}

#[test]
fn a_task_may_free_what_it_should_swap_out() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 40, 40), 40);
    world.load(2, best_effort(), 80);
    world.at(2_000);
    world.request(1);
    world.agent(2).usage = Usage::default();
    world.report_usage(2);
    world.end_swap(2, 0, SwapOutcome::Done);
    assert!(!world.violations.contains(&(2, ViolationKind::SwapFailed)));
    assert!(world.runs_after_swaps(1));
}

#[test]
fn a_process_that_is_killed_has_the_bound_of_the_kill_beside() {
    let mut world = three(Config {
        undrained: Undrained::Kill(Nanos(50 * MS)),
        ..config(100)
    });
    world.request(2);
    world.request(1);
    world.at(2_002);
    assert_eq!(
        world.violations,
        [(2, ViolationKind::Undrainable)],
        "now it is killed"
    );
    assert!(!world.runs(1), "and waited for");
    world.detach(2);
    assert!(world.runs(1));
    // Another one does not die.
    world.complete(1);
    world.request(3);
    assert!(world.runs(3));
    world.at(3_000);
    world.request(1);
    world.at(3_002);
    assert!(!world.runs(1));
    assert_eq!(due(&mut world), 3_051 * MS + 1);
    world.at(3_052);
    assert!(world.runs(1), "no longer than is charged");
    let bound = world.scheduler.state().gpu();
    assert_eq!(bound.running, [TaskId(1)]);
}

#[test]
fn what_a_kill_takes_is_charged() {
    let kills = Config {
        undrained: Undrained::Kill(Nanos(50 * MS)),
        ..config(100)
    };
    assert_eq!(config(100).platform().drain, Nanos(MS));
    assert_eq!(kills.platform().drain, Nanos(51 * MS));
}

#[test]
fn a_realtime_job_that_stands_still_is_passed_by_in_the_end() {
    let mut world = three(config(100));
    world.request(1);
    assert!(world.runs(1));
    world.request(2);
    world.at(3_009);
    assert!(!world.runs(2), "its 10 ms and a second are not over");
    world.at(3_011);
    assert!(world.runs(2));
    assert!(world.violations.contains(&(1, ViolationKind::Undrainable)));
    assert_eq!(world.status(1).volume, None, "it is best-effort now");
}

#[test]
fn a_barred_task_gets_nothing_beside_realtime() {
    let mut world = three(config(100));
    world.request(2);
    assert!(world.runs(2));
    let bar = Event::Bar {
        task: TaskId(2),
        until: Time(5_000 * MS),
        while_loading: false,
    };
    world.tell(bar);
    assert!(world.agents[2].revoked);
    world.complete(2);
    world.request(2);
    world.want(2, 40);
    world.at(4_500);
    assert!(!world.runs(2));
    assert_eq!(world.budget(2).0, 30);
    world.request(3);
    assert!(world.runs(3), "others are not concerned");
    world.complete(3);
    world.at(5_000);
    assert!(world.runs_after_swaps(2));
}

#[test]
fn what_loads_is_barred_only_where_the_bar_says_so() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 40, 0), 40);
    world.load(2, realtime(1_000, 10, 40, 0), 40);
    let bar = |while_loading| Event::Bar {
        task: TaskId(2),
        until: Time(500_000 * MS),
        while_loading,
    };
    world.tell(bar(false));
    world.request_kind(2, JobKind::Implicit);
    assert!(world.runs(2));
    world.tell(bar(true));
    assert!(world.agents[2].revoked);
    world.complete(2);
    world.request_kind(2, JobKind::Implicit);
    assert!(!world.runs(2));
}

#[test]
fn nobody_is_barred_from_a_gpu_without_realtime() {
    let mut world = three(config(100));
    world.tell(Event::Bar {
        task: TaskId(2),
        until: Time(500_000 * MS),
        while_loading: true,
    });
    world.request(2);
    assert!(!world.runs(2));
    world.tell(Event::Unregister { task: TaskId(1) });
    world.detach(1);
    world.at(3_001);
    assert!(world.runs(2));
}

/// Two admitted tasks load; the second is barred, and has asked for a job.
fn barred_while_both_load(config: Config) -> World {
    let mut world = World::new(config);
    for id in [1, 2] {
        world.load(id, realtime(1_000, 10, 40, 0), 40);
    }
    world.tell(Event::Bar {
        task: TaskId(2),
        until: Time(500_000 * MS),
        while_loading: true,
    });
    world.request_kind(2, JobKind::Implicit);
    world
}

#[test]
fn nobody_is_barred_before_a_task_is_ready() {
    let mut world = barred_while_both_load(config(100));
    assert!(world.runs(2), "it loads, and so does the other");
    world.pass(100);
    world.complete(2);
    world.warm(1);
    world.request_kind(2, JobKind::Implicit);
    world.at(3_001);
    assert!(!world.runs(2), "the other is ready");
}

#[test]
fn a_barred_task_leaves_when_another_becomes_ready() {
    let mut world = barred_while_both_load(Config {
        sharing: Sharing::Shared,
        ..config(100)
    });
    world.request(1);
    assert!(world.runs(2) && world.agents[2].revoked);
}

#[test]
fn others_go_on_beside_a_process_that_is_stopped() {
    let mut world = three(config(100));
    world.request(2);
    world.request(3);
    assert!(world.runs(2) && !world.runs(3));
    world.tell(Event::Stopped { task: TaskId(2) });
    assert!(world.runs(3));
    world.complete(3);
    world.complete(2);
    world.request(2);
    assert!(world.runs(2), "once it goes on it is one of many again");
}

#[test]
fn a_stopped_swap_in_frees_its_engine() {
    let mut world = World::new(config(100));
    for (id, bytes) in [(2, 60), (3, 60), (4, 20)] {
        world.load(id, best_effort(), bytes);
    }
    assert_eq!((world.out(2), world.out(3)), (40, 0));
    world.request(2);
    world.swap_until_in(2);
    world.answers = Answers::Budgets;
    world.tell(Event::Stopped { task: TaskId(2) });
    assert_eq!(world.violations, [(2, ViolationKind::Stopped)]);
    world.request(4);
    assert!(
        world.runs_after_swaps(4),
        "it needs nothing of the stopped one"
    );
}
