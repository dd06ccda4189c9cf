//! Programs in cgroups with a memory limit.

use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use rtswap_policy::units::{Bytes, Ppm, Time};

use super::sizes::{CONTEXT, WHOLE, reason, with, world};
use super::world::{GIB, World};
use crate::ids::ConnectionId;
use crate::input::Input;
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

fn enter(world: &mut World, agents: &[ConnectionId], available: u64) {
    for &connection in agents {
        world.put(Input::Cgroups {
            connection,
            cgroups: cgroups(LIMIT, available),
        });
    }
}

/// A look at the machine, which began at `looked`, of whose 64 GiB 60 are available.
fn look(world: &mut World, looked: Time, limit: u64, available: u64) {
    world.put(Input::Host(HostSample {
        looked,
        total: Bytes(64 * GIB),
        available: Bytes(60 * GIB),
        stalled: Ppm(0),
        cgroups: cgroups(limit, available),
    }));
}

/// The card is full of what another process has, which is in no cgroup and leaves.
fn beside_another(count: u32) -> (World, Vec<ConnectionId>) {
    let (mut world, agents) = with(world(), count + 1);
    let (other, agents) = agents.split_first().unwrap();
    world.see_host(60 * GIB);
    assert!(world.take(*other, WHOLE - GIB));
    world.fill(*other, CONTEXT, WHOLE - GIB - CONTEXT);
    (world, agents.to_vec())
}

#[test]
fn a_program_is_told_what_its_limit_can_back() {
    let (mut world, agents) = beside_another(2);
    enter(&mut world, &agents[..1], RESERVE + 5 * GIB);
    world.wait(11_000);
    let told = world.ask_size(agents[0]);
    assert!((4 * GIB..5 * GIB).contains(&told), "{told}");
    assert_eq!(world.ask_size(agents[1]), WHOLE, "it is in another cgroup");
    assert!(world.take(agents[0], told));
    world.fill(agents[0], CONTEXT, told - CONTEXT);
    assert!(!world.take(agents[0], told + GIB));
    let text = reason(&mut world);
    let expected = "the memory limit of /sys/fs/cgroup/ollama.service leaves";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn those_in_one_cgroup_are_told_together_what_its_limit_can_back() {
    let (mut world, agents) = beside_another(3);
    enter(&mut world, &agents, RESERVE + 10 * GIB);
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
fn a_limit_that_ends_bounds_no_more() {
    let (mut world, agents) = beside_another(1);
    enter(&mut world, &agents, RESERVE);
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
    let (mut world, agents) = with(world(), 1);
    enter(&mut world, &agents, RESERVE + 2 * GIB);
    assert!(world.take(agents[0], WHOLE), "it is alone");
    world.fill(agents[0], CONTEXT, WHOLE - CONTEXT);
    assert_eq!(world.store(agents[0]), 2 * GIB);
    // Nothing has changed, but for what it has pinned.
    let now = world.now;
    look(&mut world, now, LIMIT, RESERVE);
    assert_eq!(world.store(agents[0]), 2 * GIB);
    // The administrator raises the limit, and then takes it away.
    look(&mut world, now, LIMIT, RESERVE + 4 * GIB);
    assert_eq!(world.store(agents[0]), 6 * GIB);
    look(&mut world, now, u64::MAX, u64::MAX);
    assert!(world.store(agents[0]) > WHOLE);
}

#[test]
fn a_look_from_before_what_was_pinned_is_not_believed() {
    let (mut world, agents) = with(world(), 1);
    enter(&mut world, &agents, RESERVE + 2 * GIB);
    let before = world.now;
    world.wait(1);
    assert!(world.take(agents[0], WHOLE));
    world.fill(agents[0], CONTEXT, WHOLE - CONTEXT);
    assert_eq!(world.store(agents[0]), 2 * GIB);
    look(&mut world, before, LIMIT, RESERVE + 2 * GIB);
    assert_eq!(world.store(agents[0]), 2 * GIB);
}

#[test]
fn what_ends_in_a_cgroup_counts_there_no_more() {
    let (mut world, agents) = beside_another(2);
    enter(&mut world, &agents, RESERVE + 5 * GIB);
    world.wait(11_000);
    assert!(world.ask_size(agents[0]) > 4 * GIB);
    assert!(world.ask_size(agents[1]) < GIB, "what the first may take");
    world.die(agents[0]);
    world.wait(11_000);
    assert!(world.ask_size(agents[1]) > 4 * GIB);
}
