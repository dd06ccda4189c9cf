//! Agents that say they hold memory of which nobody else knows.

use std::vec;

use rtswap_policy::units::Bytes;

use super::world::{GIB, GPU, World, config, realtime, shown};
use crate::config::OnViolation;
use crate::ids::ConnectionId;
use crate::output::Output;

const LIAR: ConnectionId = ConnectionId(66);

/// A realtime task of 4 GiB that can swap half of it, on a GPU of 8 GiB; NVML shows `others`.
fn with_realtime(others: &[(u32, u64)]) -> World {
    let tasks = vec![realtime("victim", 4 * GIB, 2 * GIB)];
    World::new(config(), tasks, vec![shown(GPU, others)])
}

/// Whether the realtime task gets its memory and its job.
fn is_served(world: &mut World) -> bool {
    let victim = world.hello(7, Some("victim"));
    world.ask_memory(victim, 4 * GIB);
    world.ask_job(victim)
}

#[test]
fn a_lie_in_the_first_hello_takes_nothing_from_realtime() {
    let mut world = with_realtime(&[]);
    world.hello_with(LIAR, 66, None, 7 * GIB);
    assert_eq!(world.task("program-66").budget, Bytes::ZERO);
    assert_eq!(
        world.lines("it holds 7.00 GiB with a budget of 0 B").len(),
        1
    );
    assert!(is_served(&mut world));
    assert!(!world.ask_job(LIAR), "nobody has made room for its memory");
    // However long it insists.
    for _ in 0..20 {
        world.wait(500);
        world.nvml(vec![shown(GPU, &[(7, 4 * GIB)])]);
    }
    assert!(!world.runs(LIAR));
    assert_eq!(world.task("program-66").budget, Bytes::ZERO);
    assert_eq!(world.task("victim").budget, Bytes(4 * GIB));
}

#[test]
fn what_nvml_shows_counts_at_once() {
    let mut world = with_realtime(&[(66, 3 * GIB)]);
    world.hello_with(LIAR, 66, None, 7 * GIB);
    assert_eq!(world.task("program-66").budget, Bytes(3 * GIB), "no more");
    world.nvml(vec![shown(GPU, &[(66, 7 * GIB)])]);
    assert_eq!(world.task("program-66").budget, Bytes(7 * GIB));
    assert!(world.ask_job(LIAR), "it was no lie");
}

#[test]
fn two_sessions_of_one_process_share_what_nvml_shows() {
    let mut world = with_realtime(&[(66, 3 * GIB)]);
    world.hello_with(LIAR, 66, None, 3 * GIB);
    world.hello_with(ConnectionId(67), 66, None, 3 * GIB);
    assert_eq!(world.task("program-66").budget, Bytes(3 * GIB));
    assert_eq!(world.task("program-66-").budget, Bytes::ZERO);
}

#[test]
fn memory_that_nobody_knows_of_gets_a_budget_where_there_is_room() {
    let mut world = with_realtime(&[]);
    let agent = world.hello_with(LIAR, 66, None, 2 * GIB);
    assert_eq!(world.task("program-66").budget, Bytes(2 * GIB));
    assert_eq!(world.task("program-66").usage.resident, Bytes(2 * GIB));
    assert!(world.ask_job(agent));
}

#[test]
fn a_lie_about_growth_is_said_and_not_counted() {
    let mut world = with_realtime(&[]);
    world.hello_on(LIAR, 66, None);
    world.ask_memory(LIAR, GIB);
    world.wait(500);
    world.nvml(vec![shown(GPU, &[(66, GIB)])]);
    world.take_outputs();
    world.say_resident(LIAR, 8 * GIB);
    world.wait(1_000);
    assert_eq!(world.task("program-66").budget, Bytes(GIB));
    assert_eq!(world.violations(), ["over-budget"]);
    assert!(is_served(&mut world));
    // True again, it may go on.
    world.say_resident(LIAR, GIB);
    assert_eq!(world.violations(), ["over-budget"], "said once");
}

#[test]
fn a_lie_about_growth_is_punished_as_the_configuration_says() {
    let mut config = config();
    config.settings.on_violation = OnViolation::Kill;
    let mut world = World::new(config, vec![], vec![shown(GPU, &[])]);
    world.hello_on(LIAR, 66, None);
    world.say_resident(LIAR, 8 * GIB);
    world.wait(1_000);
    let killed = |output: &Output| *output == Output::Kill(LIAR);
    assert!(world.take_outputs().iter().any(killed));
}
