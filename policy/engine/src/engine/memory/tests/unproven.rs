//! Agents that say they hold memory of which nobody else knows.

use std::vec;

use rtswap_policy::scheduler::Usage;
use rtswap_policy::units::Bytes;

use super::world::{GIB, GPU, World, config, realtime, shown};
use crate::config::OnViolation;
use crate::ids::ConnectionId;
use crate::input::DeviceState;
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
    config.everybody.on_violation = Some(OnViolation::Kill);
    let mut world = World::new(config, vec![], vec![shown(GPU, &[])]);
    world.hello_on(LIAR, 66, None);
    world.say_resident(LIAR, 8 * GIB);
    world.wait(1_000);
    let killed = |output: &Output| *output == Output::Kill(LIAR);
    assert!(world.take_outputs().iter().any(killed));
}

/// What no agent can swap out: its context.
const CONTEXT: u64 = 64 << 20;

/// An agent that the daemon before has left 6 GiB, all but its context in the arena and `pinned` for it
/// in host memory; the job of that number is on the GPU.
fn bring(world: &mut World, pinned: u64, job: u32) -> ConnectionId {
    let device = DeviceState {
        usage: Usage {
            resident: Bytes(6 * GIB),
            swapped: Bytes::ZERO,
            arena: Bytes(6 * GIB - CONTEXT),
        },
        backing: Bytes(pinned),
        requested: job,
        granted: job,
        ..DeviceState::default()
    };
    world.hello_from(LIAR, 66, None, device)
}

#[test]
fn what_was_brought_and_has_no_room_leaves_and_comes_back_with_the_room() {
    let mut world = with_realtime(&[]);
    let victim = ConnectionId(7);
    assert!(is_served(&mut world));
    world.complete_job(victim);
    let agent = bring(&mut world, 6 * GIB, 0);
    assert!(!world.ask_job(agent));
    world.wait(900);
    assert_eq!(
        world.ordered_swap(agent),
        None,
        "a witness may still show it"
    );
    world.wait(200);
    let (_, target) = world.ordered_swap(agent).unwrap();
    assert_eq!(target, Bytes(6 * GIB - CONTEXT), "as far as it can");
    world.follow(agent);
    let task = world.task("program-66");
    assert_eq!(task.usage.swapped, target);
    assert_eq!(task.budget, Bytes(CONTEXT), "that much there is room for");
    assert!(!world.runs(agent));
    // Room for all of it.
    world.die(victim);
    world.remove_tasks(config());
    world.wait(500);
    world.nvml(vec![shown(GPU, &[])]);
    let (_, target) = world.ordered_swap(agent).unwrap();
    assert_eq!(target, Bytes::ZERO);
    world.follow(agent);
    assert!(world.runs(agent));
    assert_eq!(world.task("program-66").budget, Bytes(6 * GIB));
    assert!(world.violations().is_empty());
}

#[test]
fn a_job_that_runs_on_what_has_no_room_is_revoked_first() {
    let mut world = with_realtime(&[]);
    let agent = bring(&mut world, GIB, 1);
    world.wait(10_000);
    assert_eq!(world.ordered_swap(agent), None, "its kernels read it");
    assert!(world.is_revoked(agent));
    world.complete_job(agent);
    assert!(world.ordered_swap(agent).is_some());
}

#[test]
fn only_what_is_pinned_for_leaves() {
    let mut world = with_realtime(&[]);
    let agent = bring(&mut world, GIB, 0);
    world.wait(1_100);
    assert_eq!(world.ordered_swap(agent).unwrap().1, Bytes(GIB));
    world.follow(agent);
    assert_eq!(world.task("program-66").usage.swapped, Bytes(GIB));
    assert_eq!(world.task("program-66").budget, Bytes::ZERO);
    assert!(!world.ask_job(agent), "5 GiB are on the GPU");
    world.wait(10_000);
    assert_eq!(world.ordered_swap(agent), None, "nothing more can");
    assert!(is_served(&mut world));
}

#[test]
fn who_does_not_leave_is_asked_again_and_takes_nothing() {
    let mut world = with_realtime(&[]);
    let agent = bring(&mut world, GIB, 0);
    world.wait(1_100);
    let (first, _) = world.ordered_swap(agent).unwrap();
    world.end_swap(agent, Bytes::ZERO);
    world.wait(900);
    assert_eq!(world.ordered_swap(agent), None, "not at its own pace");
    world.wait(200);
    let (second, _) = world.ordered_swap(agent).unwrap();
    assert_ne!(first, second, "an agent takes an operation by its number");
    // Nor one that never ends it.
    world.wait(20_000);
    assert_eq!(world.task("program-66").budget, Bytes::ZERO);
    assert!(is_served(&mut world));
}

#[test]
fn what_nvml_shows_within_a_second_stays() {
    let mut world = with_realtime(&[]);
    let agent = bring(&mut world, 6 * GIB, 0);
    world.wait(500);
    world.nvml(vec![shown(GPU, &[(66, 6 * GIB)])]);
    world.wait(5_000);
    assert_eq!(world.ordered_swap(agent), None);
    assert_eq!(world.task("program-66").budget, Bytes(6 * GIB));
}
