//! Groups between a real scheduler and processes that do what they are told, in any order.
//!
//! `world` checks after each step that the scheduler refuses nothing, that budgets never add up to
//! more than the task's, that a running process is wholly in, that a realtime process runs once in a
//! job of the task, that swap targets add up and credits only fall. `scenes` are single
//! conversations.

mod scenes;
mod world;

use alloc::vec::Vec;

use proptest::prelude::*;
use rtswap_policy::admission::Test;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::Bytes;

use world::{Agent, CHUNK, Clock, World};

#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    Release,
    Capacity(u64),
    Pass(u64),
    Do(usize, Act),
}

/// What one process does, or what happens to it.
#[derive(Clone, Copy, Debug)]
enum Act {
    Ask,
    Complete,
    Allocate(u64),
    Free(u64),
    Swap,
    Pin(u64),
    Lose,
    Return,
    Die,
}

fn step() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        16 => Just(Act::Ask),
        12 => Just(Act::Complete),
        8 => (1..6_u64).prop_map(Act::Allocate),
        4 => (1..4_u64).prop_map(Act::Free),
        24 => Just(Act::Swap),
        12 => prop_oneof![1 => 0..12_u64, 99 => Just(99)].prop_map(Act::Pin),
        1 => Just(Act::Lose),
        2 => Just(Act::Return),
        1 => Just(Act::Die),
    ];
    prop_oneof![
        2 => Just(Step::Join),
        2 => Just(Step::Release),
        1 => (18..26_u64).prop_map(Step::Capacity),
        8 => (0..30_u64).prop_map(Step::Pass),
        // Longer than an operation may take.
        1 => (200..400_u64).prop_map(Step::Pass),
        80 => (0..4_usize, act).prop_map(|(which, act)| Step::Do(which, act)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<(u32, Step)>> {
    prop::collection::vec((0..3_u32, step()), 1..400)
}

fn test() -> impl Strategy<Value = Test> {
    prop::sample::select(&[Test::Theorem1, Test::Pipelined][..])
}

fn take(world: &mut World, task: TaskId, step: Step) {
    let ids = world.ids_of(task);
    match step {
        Step::Join if ids.len() < 4 => world.join(task),
        Step::Do(which, act) if !ids.is_empty() => {
            let at = ids[which % ids.len()];
            let lost = world.agent(at).lost;
            match act {
                Act::Ask => world.ask(at),
                Act::Complete => world.complete(at),
                Act::Allocate(chunks) => world.allocate(at, chunks),
                Act::Free(chunks) => world.free(at, chunks),
                Act::Swap => world.swap_step(at),
                Act::Pin(most) => world.pin(at, most * CHUNK),
                Act::Lose if !lost => world.lose(at),
                Act::Return if lost => world.hello(at),
                Act::Die => world.die(at),
                Act::Lose | Act::Return => {}
            }
        }
        Step::Join | Step::Do(..) => {}
        Step::Release => world.release(task),
        Step::Pass(ms) => world.pass(ms),
        Step::Capacity(chunks) => world.set_capacity(chunks),
    }
}

/// A world in which each task has two processes with memory, after `steps`.
fn world_after(steps: &[(u32, Step)], test: Test, clock: Clock) -> World {
    let mut world = World::new(test, clock);
    for task in [0, 1, 2, 0, 1, 2].map(TaskId) {
        world.join(task);
        for which in 0..2 {
            take(&mut world, task, Step::Do(which, Act::Allocate(3)));
            take(&mut world, task, Step::Do(which, Act::Pin(99)));
        }
    }
    for &(task, step) in steps {
        take(&mut world, TaskId(task), step);
    }
    world
}

/// All processes do what they are told, and ask for nothing more.
fn come_to_rest(world: &mut World) {
    world.set_capacity(24);
    for round in 0..70 {
        for task in [0, 1, 2].map(TaskId) {
            world.release(task);
            for at in world.ids_of(task) {
                if world.agent(at).lost {
                    world.hello(at);
                }
                world.tell_usage(at);
                world.pin(at, u64::MAX);
                for _ in 0..50 {
                    world.swap_step(at);
                }
                world.complete(at);
            }
        }
        // In the end what a request waits for must have come or been given up, one by one.
        world.pass(if round < 30 { 10 } else { 600 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn several_are_one(steps in steps(), test in test()) {
        let mut world = world_after(&steps, test, Clock::Leaps);
        come_to_rest(&mut world);
        for (at, agent) in &world.agents {
            let stuck = agent.runs() || agent.want.is_some() || agent.op.is_some();
            prop_assert!(!stuck, "{at:?} runs, waits for an answer or moves forever: {agent:?}");
        }
        for &task in world.tasks.keys() {
            let status = world.status(task);
            // There may be no memory for it; then all know that it waits. The job of a process that
            // has died ends when it is granted.
            let waits = world.agents_of(task).any(|agent| agent.job.is_some());
            prop_assert!(status.job.is_some() || !waits, "nobody knows that {task:?} waits");
            let granted = status.job.is_some_and(|job| job.granted.is_some());
            prop_assert!(!granted, "{task:?} runs forever: {:?}", world.agents);
            prop_assert_eq!(status.dying, Bytes::ZERO);
            let resident = |agent: &Agent| agent.usage.resident;
            let held: Bytes = world.agents_of(task).map(resident).sum();
            prop_assert_eq!(status.usage.resident, held);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn ticks_when_due_are_as_good_as_one_each_millisecond(steps in steps(), test in test()) {
        let [on_time, eager] = [Clock::OnTime, Clock::Eager]
            .map(|clock| world_after(&steps, test, clock).log);
        prop_assert_eq!(on_time, eager);
    }
}
