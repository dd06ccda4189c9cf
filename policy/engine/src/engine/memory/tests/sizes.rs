//! What programs are told that they may have, and what is refused.

use std::string::String;
use std::vec;
use std::vec::Vec;

use rtswap_policy::units::Bytes;

use super::world::{GIB, GPU, World, config, realtime, shown};
use crate::config::Config;
use crate::ids::ConnectionId;
use crate::output::Output;
use crate::rules::{Rules, Scope};

const MIB: u64 = 1 << 20;
/// What a process takes for a context.
pub(super) const CONTEXT: u64 = 256 * MIB;
/// What the GPU has for tasks: 8 GiB, less 1/64.
const CAPACITY: u64 = 8 * GIB - 128 * MIB;
/// That, less 1/16 of the GPU for the contexts of others.
pub(super) const WHOLE: u64 = CAPACITY - 512 * MIB;
/// Of the host's 64 GiB so much is kept for others.
const RESERVE: u64 = 4 * GIB;

pub(super) fn world() -> World {
    World::new(config(), vec![], vec![shown(GPU, &[])])
}

/// So many processes with contexts; the first has pid 10.
pub(super) fn with(mut world: World, count: u32) -> (World, Vec<ConnectionId>) {
    world.pins = true;
    let come = |pid| {
        assert!(world.come(pid, CONTEXT));
        ConnectionId(pid.into())
    };
    let agents = (10..10 + count).map(come).collect();
    (world, agents)
}

/// What a process was told last when it was refused memory.
pub(super) fn reason(world: &mut World) -> String {
    let told = world.take_outputs().into_iter().rev();
    let mut texts = told.filter_map(|output| match output {
        Output::Notify { text, .. } => Some(text),
        _ => None,
    });
    texts.next().unwrap_or_default()
}

#[test]
fn each_is_told_the_gpu_less_what_newcomers_need() {
    let (mut world, agents) = with(world(), 3);
    for agent in &agents {
        assert_eq!(
            world.ask_size(*agent),
            WHOLE,
            "the contexts of others are newcomers'"
        );
    }
    assert!(world.take(agents[0], WHOLE));
    world.fill(agents[0], CONTEXT, WHOLE - CONTEXT);
    // What is on the GPU can leave it.
    assert_eq!(world.ask_size(agents[1]), WHOLE);
    assert_eq!(world.ask_size(agents[0]), WHOLE);
}

#[test]
fn what_realtime_keeps_is_told_to_nobody() {
    let tasks = vec![realtime("camera", 2 * GIB, GIB)];
    let world = World::new(config(), tasks, vec![shown(GPU, &[])]);
    let (mut world, agents) = with(world, 1);
    let kept = CAPACITY - world.ask_size(agents[0]) - 512 * MIB;
    // All but its swap volume, which is at most what may be swapped.
    assert!((GIB..=2 * GIB).contains(&kept), "{kept}");
}

#[test]
fn what_one_is_told_is_reserved_for_it_for_a_while() {
    let (mut world, agents) = with(world(), 1);
    // The host can back 8 GiB: its stores are a quarter larger.
    world.see_host(RESERVE + 10 * GIB);
    assert_eq!(world.ask_size(agents[0]), WHOLE);
    assert!(world.come(50, CONTEXT));
    let late = ConnectionId(50);
    let left = world.ask_size(late);
    assert!(left < 2 * GIB, "{left} of what is reserved");
    assert!(world.take(agents[0], WHOLE), "it gets what it was told");
    assert!(!world.take(late, 6 * GIB), "another does not");
    let text = reason(&mut world);
    assert!(text.contains("the host has"), "{text}");
}

#[test]
fn what_is_not_taken_in_time_is_reserved_no_more() {
    let (mut world, agents) = with(world(), 2);
    world.see_host(RESERVE + 10 * GIB);
    world.wait(11_000);
    assert_eq!(world.ask_size(agents[0]), WHOLE);
    world.wait(9_000);
    // It takes some of it.
    assert!(world.take(agents[0], GIB));
    world.fill(agents[0], CONTEXT, GIB - CONTEXT);
    world.wait(9_000);
    assert!(world.ask_size(agents[1]) < 2 * GIB);
    world.wait(1_001);
    let told = world.ask_size(agents[1]);
    assert!(told > 5 * GIB, "{told}");
    assert!(world.take(agents[1], told));
}

#[test]
fn programs_that_begin_together_share_what_the_host_can_back() {
    let (mut world, agents) = with(world(), 4);
    world.see_host(RESERVE + 5 * GIB);
    let told: Vec<_> = agents.iter().map(|agent| world.ask_size(*agent)).collect();
    let (least, most) = (told.iter().min().unwrap(), told.iter().max().unwrap());
    assert!(*least > GIB && most - least < 512 * MIB, "{told:?}");
    for (agent, told) in agents.iter().zip(&told) {
        assert!(world.take(*agent, *told));
        world.fill(*agent, CONTEXT, told - CONTEXT);
    }
    // One that asks again is told the same, while that is reserved.
    assert_eq!(world.ask_size(agents[0]), told[0]);
}

#[test]
fn where_all_fits_the_host_does_not_matter() {
    let (mut world, agents) = with(world(), 1);
    world.see_host(RESERVE);
    let told = world.ask_size(agents[0]);
    assert_eq!(told, WHOLE);
    assert!(world.take(agents[0], told));
    world.fill(agents[0], CONTEXT, told - CONTEXT);
    assert!(world.come(50, CONTEXT));
    assert!(!world.take(ConnectionId(50), 2 * GIB), "it cannot leave");
}

#[test]
fn a_context_takes_nothing_that_another_was_told() {
    let (mut world, agents) = with(world(), 1);
    assert_eq!(world.ask_size(agents[0]), WHOLE);
    assert!(world.take(agents[0], WHOLE));
    world.fill(agents[0], CONTEXT, WHOLE - CONTEXT);
    // 512 MiB are left for newcomers.
    assert!(world.come(50, CONTEXT) && world.come(51, CONTEXT));
    world.take_outputs();
    assert!(!world.come(52, CONTEXT));
    let text = reason(&mut world);
    assert!(text.contains("newcomers_reserve"), "{text}");
    world.die(agents[0]);
    world.wait(1_000);
    world.nvml(vec![shown(GPU, &[(50, CONTEXT), (51, CONTEXT)])]);
    assert!(world.come(53, CONTEXT), "{}", reason(&mut world));
}

#[test]
fn who_takes_more_than_it_was_told_keeps_nobody_away() {
    let (mut world, agents) = with(world(), 1);
    assert_eq!(world.ask_size(agents[0]), WHOLE);
    let all = CAPACITY - CONTEXT;
    assert!(world.take(agents[0], all));
    world.fill(agents[0], CONTEXT, all - CONTEXT);
    assert!(world.come(50, CONTEXT), "{}", reason(&mut world));
    assert!(world.come(51, CONTEXT), "{}", reason(&mut world));
}

#[test]
fn caps_and_what_others_of_the_user_were_told_count() {
    let mut rules = config().rules;
    let cap = Rules {
        gpu_memory: Some(Bytes(6 * GIB)),
        ..Rules::default()
    };
    rules.insert(Scope::Everybody, cap);
    let config = Config { rules, ..config() };
    let world = World::new(config, vec![], vec![shown(GPU, &[])]);
    let (mut world, agents) = with(world, 2);
    let first = world.ask_size(agents[0]);
    assert_eq!(first, 6 * GIB - CONTEXT, "the other has a context");
    assert!(
        world.ask_size(agents[1]) <= CONTEXT,
        "the user's cap is reserved"
    );
}

#[test]
fn while_the_host_is_short_nobody_is_told_more_than_it_has() {
    let (mut world, agents) = with(world(), 2);
    assert!(world.take(agents[0], 4 * GIB));
    world.fill(agents[0], CONTEXT, 4 * GIB - CONTEXT);
    world.see_host(RESERVE - 1);
    assert_eq!(world.lines("host memory is short").len(), 1);
    let told = world.ask_size(agents[0]);
    assert!(told < CAPACITY - CONTEXT, "{told}");
    // It fits beside the other without swapping.
    assert!(world.take(agents[1], 2 * GIB), "{}", reason(&mut world));
    world.fill(agents[1], CONTEXT, 2 * GIB - CONTEXT);
    assert!(!world.take(agents[1], 5 * GIB));
    world.see_host(RESERVE + 32 * GIB);
    assert_eq!(world.lines("no longer short").len(), 1);
    assert!(world.take(agents[1], 5 * GIB));
}

#[test]
fn waits_for_memory_count_where_little_is_available() {
    let mut world = world();
    for (available, percent, is_short) in [
        (32 * GIB, 90, false),
        (RESERVE + GIB, 19, false),
        (RESERVE + GIB, 20, true),
        (2 * RESERVE, 90, false),
        (RESERVE - 1, 0, true),
    ] {
        world.see_waits(available, percent);
        assert_eq!(
            world.engine.host.is_short(),
            is_short,
            "{available} {percent}"
        );
    }
}

#[test]
fn it_is_short_until_what_was_given_back_could_be_pinned_again() {
    let (mut world, agents) = with(world(), 1);
    assert!(world.take(agents[0], 4 * GIB));
    world.fill(agents[0], CONTEXT, 4 * GIB - CONTEXT);
    world.see_host(32 * GIB);
    let pinned = world.task("program").backing.0;
    assert!(pinned >= 4 * GIB - CONTEXT);
    world.wait(2_000);
    world.see_host(RESERVE - 1);
    assert_eq!(world.task("program").backing, Bytes::ZERO);
    // It was given back, and would be taken again.
    world.see_host(RESERVE - 1 + pinned);
    assert!(world.engine.host.is_short());
    assert_eq!(world.task("program").backing, Bytes::ZERO);
    world.see_host(RESERVE + pinned);
    assert!(!world.engine.host.is_short());
    assert_eq!(world.task("program").backing.0, pinned);
}

#[test]
fn what_somebody_asks_for_takes_nothing_from_others() {
    let (mut world, agents) = with(world(), 1);
    world.see_host(RESERVE + 10 * GIB);
    let greedy = world.hello(60, None);
    assert!(!world.take(greedy, 1 << 63));
    world.wait(11_000);
    assert_eq!(world.ask_size(agents[0]), WHOLE);
    assert!(world.take(agents[0], WHOLE));
}
