//! Programs in cgroups with a memory limit.

use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use rtswap_policy::scheduler::Usage;
use rtswap_policy::units::{Bytes, Ppm, Time};

use super::sizes::{CONTEXT, WHOLE, reason, with, world};
use super::world::{GIB, GPU, World, config, shown};
use crate::ids::ConnectionId;
use crate::input::{DeviceState, Input, TaskFile};
use crate::registry::TaskOptions;
use crate::sample::{CgroupSample, HostSample};

/// The cgroup of the scene has a limit of so much, of which so much is kept for what is not swapped.
const LIMIT: u64 = 16 * GIB;
const RESERVE: u64 = GIB;
const PATH: &str = "/sys/fs/cgroup/ollama.service";

/// The root of all, without a limit, and the cgroup of the scene.
fn cgroups(limit: u64, available: u64) -> Vec<CgroupSample> {
    let sample = |path: &str, limit, available| CgroupSample {
        path: Arc::from(path),
        limit: Bytes(limit),
        available: Bytes(available),
    };
    vec![
        sample("/sys/fs/cgroup", u64::MAX, u64::MAX),
        sample(PATH, limit, available),
    ]
}

/// Takes in a look that began at `looked`: the machine has 60 of 64 GiB available.
fn look(world: &mut World, looked: Time, limit: u64, available: u64) {
    world.put(Input::Host(HostSample {
        looked,
        total: Bytes(64 * GIB),
        available: Bytes(60 * GIB),
        stalled: Ppm(0),
        cgroups: cgroups(limit, available),
    }));
}

/// So many processes in the cgroup of the scene, of which `available` is left, with contexts. The first has pid 50.
fn enter(world: &mut World, count: u32, available: u64) -> Vec<ConnectionId> {
    world.pins = true;
    world.cgroups = cgroups(LIMIT, available);
    let come = |pid| {
        assert!(world.come(pid, CONTEXT));
        ConnectionId(pid.into())
    };
    let agents = (50..50 + count).map(come).collect();
    world.cgroups.clear();
    agents
}

/// As [`enter`], beside another process that has nearly all of the card, is in no cgroup and leaves.
fn beside_another(count: u32, available: u64) -> (World, Vec<ConnectionId>) {
    let (mut world, others) = with(world(), 1);
    let agents = enter(&mut world, count, available);
    world.see_host(60 * GIB);
    assert!(world.take(others[0], WHOLE - GIB));
    world.fill(others[0], CONTEXT, WHOLE - GIB - CONTEXT);
    (world, agents)
}

/// A process of the scene that has the whole card, and pins what its limit leaves: 2 GiB.
fn alone() -> (World, ConnectionId) {
    let mut world = world();
    let agent = enter(&mut world, 1, RESERVE + 2 * GIB)[0];
    assert!(world.take(agent, WHOLE));
    world.fill(agent, CONTEXT, WHOLE - CONTEXT);
    assert_eq!(world.store(agent), 2 * GIB);
    (world, agent)
}

#[test]
fn a_program_is_told_what_its_limit_can_back() {
    let (mut world, agents) = beside_another(1, RESERVE + 5 * GIB);
    world.wait(11_000);
    assert!(world.come(90, CONTEXT));
    assert_eq!(
        world.ask_size(ConnectionId(90)),
        WHOLE,
        "it is in no cgroup"
    );
    world.wait(11_000);
    let told = world.ask_size(agents[0]);
    assert!((4 * GIB..5 * GIB).contains(&told), "{told}");
    assert!(world.take(agents[0], told));
    world.fill(agents[0], CONTEXT, told - CONTEXT);
    assert!(!world.take(agents[0], told + GIB));
    let text = reason(&mut world);
    let expected = "the memory limit of /sys/fs/cgroup/ollama.service leaves";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn those_in_one_cgroup_are_told_together_what_its_limit_can_back() {
    let (mut world, agents) = beside_another(3, RESERVE + 10 * GIB);
    let told: Vec<_> = agents.iter().map(|agent| world.ask_size(*agent)).collect();
    let sum: u64 = told.iter().sum();
    assert!(sum <= 8 * GIB + 3 * CONTEXT, "{told:?}");
    for (agent, told) in agents.iter().zip(&told) {
        assert!(*told > 2 * GIB, "{told}");
        assert!(world.take(*agent, *told));
        world.fill(*agent, CONTEXT, told - CONTEXT);
    }
}

#[test]
fn what_ends_in_a_cgroup_counts_there_no_more() {
    let (mut world, agents) = beside_another(2, RESERVE + 5 * GIB);
    world.wait(11_000);
    assert!(world.ask_size(agents[0]) > 4 * GIB);
    let told = world.ask_size(agents[1]);
    assert!(told < 2 * GIB, "{told} beside what the first may take");
    world.die(agents[0]);
    world.wait(11_000);
    assert!(world.ask_size(agents[1]) > 4 * GIB);
}

#[test]
fn a_limit_that_ends_bounds_no_more() {
    let (mut world, agents) = beside_another(1, RESERVE);
    world.wait(11_000);
    assert!(world.ask_size(agents[0]) < 2 * GIB);
    world.wait(11_000);
    let now = world.now;
    look(&mut world, now, u64::MAX, u64::MAX);
    assert_eq!(world.ask_size(agents[0]), WHOLE);
    assert!(world.take(agents[0], WHOLE));
}

#[test]
fn no_agent_is_told_to_pin_more_than_its_limit_leaves() {
    let (mut world, agent) = alone();
    // Nothing has changed, but for what it has pinned.
    let now = world.now;
    look(&mut world, now, LIMIT, RESERVE);
    assert_eq!(world.store(agent), 2 * GIB);
    // The administrator raises the limit, and then takes it away.
    look(&mut world, now, LIMIT, RESERVE + 4 * GIB);
    assert_eq!(world.store(agent), 6 * GIB);
    look(&mut world, now, u64::MAX, u64::MAX);
    assert!(world.store(agent) > WHOLE);
}

#[test]
fn a_look_from_before_what_was_pinned_shows_no_room() {
    let mut world = world();
    let agent = enter(&mut world, 1, RESERVE + 2 * GIB)[0];
    let before = world.now;
    world.wait(1);
    assert!(world.take(agent, WHOLE));
    world.fill(agent, CONTEXT, WHOLE - CONTEXT);
    look(&mut world, before, LIMIT, RESERVE + 2 * GIB);
    assert_eq!(world.store(agent), 2 * GIB);
}

#[test]
fn while_the_host_is_short_a_raised_limit_lets_nobody_pin() {
    let (mut world, agent) = alone();
    world.put(Input::Host(HostSample {
        looked: world.now,
        total: Bytes(64 * GIB),
        available: Bytes(GIB),
        stalled: Ppm(0),
        cgroups: cgroups(u64::MAX, u64::MAX),
    }));
    assert_eq!(world.store(agent), 2 * GIB);
    let now = world.now;
    look(&mut world, now, u64::MAX, u64::MAX);
    assert!(world.store(agent) > WHOLE);
}

#[test]
fn the_processes_of_one_task_pin_together_what_the_limit_leaves() {
    let tasks = vec![TaskFile {
        uid: 0,
        options: TaskOptions::best_effort("workers".into()),
    }];
    let mut world = World::new(config(), tasks, vec![shown(GPU, &[])]);
    world.pins = true;
    world.cgroups = cgroups(LIMIT, RESERVE + 2 * GIB);
    let agents = [50, 51].map(|pid| world.hello(pid, Some("workers")));
    for agent in agents {
        assert!(world.take(agent, 3 * GIB));
        world.fill(agent, CONTEXT, 3 * GIB - CONTEXT);
    }
    let stores = agents.map(|agent| world.store(agent));
    assert_eq!(stores.iter().sum::<u64>(), 2 * GIB, "{stores:?}");
    let now = world.now;
    look(&mut world, now, LIMIT, RESERVE + 9 * GIB);
    let stores = agents.map(|agent| world.store(agent));
    assert!(
        stores.iter().all(|store| *store >= 3 * GIB - CONTEXT),
        "{stores:?}"
    );
}

#[test]
fn one_that_comes_back_keeps_its_store_and_gets_no_more_than_its_limit_leaves() {
    let (mut world, agent) = alone();
    world.disconnect(agent);
    world.cgroups = cgroups(LIMIT, RESERVE);
    let device = DeviceState {
        usage: Usage {
            resident: Bytes(WHOLE),
            swapped: Bytes::ZERO,
            arena: Bytes(WHOLE - CONTEXT),
        },
        backing: Bytes(2 * GIB),
        ..DeviceState::default()
    };
    let back = world.come_back(agent, ConnectionId(90), device);
    world.ring(back);
    assert_eq!(world.store(back), 2 * GIB);
    let now = world.now;
    look(&mut world, now, LIMIT, RESERVE + GIB);
    assert_eq!(world.store(back), 3 * GIB);
}
