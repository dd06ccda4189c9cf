//! Scenes of one plan following another.

use rtswap_policy::admission::Test;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::Config;
use rtswap_policy::task::{Class, TaskSpec, Timing};
use rtswap_policy::units::{Bytes, Nanos};

use crate::world::setting::{MS, best_effort, config, realtime};
use crate::world::{Agent, World};

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
    let mut world = World::new(Config {
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
        world.load(id, spec, uses);
        world.warm(id);
        world.pass(2_000_000);
        world.finish_swaps();
        let first = world.status(1);
        lacked = lacked.max(Bytes(10).saturating_sub(first.budget));
        if id > 1 {
            world.capacity(capacity);
        }
    }
    assert_eq!(lacked, Bytes(6));
    let (first, last) = (world.status(1), world.status(4));
    assert_eq!(
        (first.volume, last.volume),
        (Some(Bytes::ZERO), Some(Bytes::ZERO))
    );
    assert_eq!(first.budget, Bytes(10));
}

#[test]
fn the_revision_of_the_plan_changes_with_the_plan_alone() {
    let mut world = World::new(config(100));
    let mut last = world.scheduler.plan_revision();
    let mut changed = |world: &mut World| {
        let now = world.scheduler.plan_revision();
        std::mem::replace(&mut last, now) != now
    };
    world.admit(1, realtime(1_000, 10, 60, 40));
    assert!(changed(&mut world), "registered with a volume of zero");
    world.fill(1, Agent::default(), 60);
    changed(&mut world);
    world.load(2, realtime(1_000, 10, 60, 40), 60);
    assert!(changed(&mut world), "20 of each may be out now");
    world.admit(3, realtime(1_000, 10, 101, 0));
    assert_eq!(world.refusals.len(), 1);
    world.start(4, best_effort());
    for round in 1..4 {
        world.warm(1);
        world.warm(2);
        world.at(2_000 * round);
    }
    assert!(world.account(1).job.0 > 2 && world.out(1) > 0);
    world.want(4, 10);
    world.finish_swaps();
    world.allocate(4, 10);
    world.request(4);
    world.complete(4);
    world.unregister(4);
    assert!(!changed(&mut world), "jobs, swaps, usage and best-effort");
    world.demote(2);
    assert!(changed(&mut world), "demoted");
    world.unregister(2);
    assert!(!changed(&mut world), "it was best-effort already");
    world.unregister(1);
    assert!(changed(&mut world), "unregistered");
}

#[test]
fn the_revision_of_the_plan_changes_as_a_plan_takes_effect() {
    let mut world = World::new(config(100));
    world.load_ready(1, realtime(1_000, 10, 60, 40), 60);
    world.agent(1).pins_late = true;
    world.admit(2, realtime(1_000, 10, 60, 40));
    assert_eq!(world.status(2).volume, None);
    let before = world.scheduler.plan_revision();
    world.pin_now(1);
    assert_eq!(world.status(2).volume, Some(Bytes(20)));
    assert_ne!(world.scheduler.plan_revision(), before);
}
