//! Processes without a connection, and realtime that lacks what they hold.

use std::vec;

use rtswap_policy::scheduler::Usage;
use rtswap_policy::units::Bytes;

use super::world::{GIB, GPU, World, config, realtime, shown};
use crate::ids::ConnectionId;
use crate::input::DeviceState;
use crate::output::Output;

const LOST: ConnectionId = ConnectionId(66);

/// A ready realtime task with 4 of 8 GiB, and a best-effort process with 3 GiB that has lost its connection.
fn beside_lost(kills: bool) -> World {
    let mut config = config();
    config.scheduler.kills_undrained = kills;
    let tasks = vec![realtime("victim", 4 * GIB, 2 * GIB)];
    let mut world = World::new(config, tasks, vec![shown(GPU, &[])]);
    // All of it can leave in an emergency.
    let device = DeviceState {
        backing: Bytes(4 * GIB),
        ..DeviceState::default()
    };
    let victim = world.hello_from(ConnectionId(7), 7, Some("victim"), device);
    world.ask_memory(victim, 4 * GIB);
    world.ask_job(victim);
    world.complete_job(victim);
    world.hello_on(LOST, 66, None);
    world.ask_memory(LOST, 3 * GIB);
    world.take_outputs();
    world.disconnect(LOST);
    world
}

/// Others take so much that the plan does not fit beside the lost process.
fn squeeze(world: &mut World) {
    world.nvml(vec![shown(GPU, &[(7, 4 * GIB), (66, 3 * GIB), (99, GIB)])]);
}

fn is_killed(world: &mut World) -> bool {
    let killed = |output: &Output| *output == Output::Kill(LOST);
    world.take_outputs().iter().any(killed)
}

#[test]
fn a_lost_process_that_takes_nothing_from_realtime_is_left_alone() {
    let mut world = beside_lost(true);
    world.wait(5_000);
    assert!(world.violations().is_empty());
    assert!(!is_killed(&mut world));
}

#[test]
fn a_lost_process_has_a_drain_bound_to_come_back() {
    let mut world = beside_lost(true);
    squeeze(&mut world);
    world.follow(ConnectionId(7));
    assert_eq!(world.violations(), ["emergency"]);
    world.wait(1_000);
    assert_eq!(world.violations(), ["emergency", "lost"], "once");
    let line =
        "keeps 3.00 GiB from realtime; process 66 is killed; user 0 gets nothing beside realtime";
    assert_eq!(world.lines(line).len(), 1);
    assert!(is_killed(&mut world));
}

#[test]
fn a_lost_process_lives_where_the_configuration_says_so() {
    let mut world = beside_lost(false);
    world.wait(1_000);
    squeeze(&mut world);
    assert_eq!(world.violations(), ["lost", "emergency"]);
    assert!(!is_killed(&mut world));
}

#[test]
fn a_process_that_begins_anew_and_leaves_memory_behind_gets_nothing_for_a_while() {
    let mut world = beside_lost(true);
    let again = world.hello_on(ConnectionId(70), 66, None);
    assert_eq!(world.violations(), ["lost"]);
    let line = "process 66 has begun anew, and left 3.00 GiB in its last session; user 0 gets nothing \
                beside realtime for 1 s";
    assert_eq!(world.lines(line).len(), 1);
    assert!(!world.ask_job(again));
    world.wait(1_000);
    assert!(world.runs(again));
}

#[test]
fn a_process_that_closes_its_session_at_the_order_to_swap_out_is_killed_the_second_time() {
    let mut config = config();
    config.scheduler.kills_undrained = true;
    let tasks = vec![realtime("victim", 4 * GIB, 2 * GIB)];
    let mut world = World::new(config, tasks, vec![shown(GPU, &[])]);
    let victim = world.hello(7, Some("victim"));
    world.ask_memory(victim, 4 * GIB);
    world.ask_job(victim);
    world.complete_job(victim);
    let store = DeviceState {
        backing: Bytes(3 * GIB),
        ..DeviceState::default()
    };
    let mut agent = world.hello_from(LOST, 66, None, store);
    world.ask_memory(agent, 3 * GIB);
    squeeze(&mut world);
    for (turn, killed) in [(1, false), (2, true)] {
        assert!(world.ordered_swap(agent).is_some(), "turn {turn}");
        world.take_outputs();
        world.disconnect(agent);
        let usage = Usage {
            resident: Bytes(3 * GIB),
            swapped: Bytes::ZERO,
            arena: Bytes(3 * GIB),
        };
        agent = world.come_back(
            agent,
            ConnectionId(66 + turn),
            DeviceState { usage, ..store },
        );
        assert_eq!(world.violations(), ["lost"]);
        let kill = |output: &Output| *output == Output::Kill(agent);
        assert_eq!(world.take_outputs().iter().any(kill), killed, "turn {turn}");
    }
}
