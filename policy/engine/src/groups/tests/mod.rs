//! Members between a real scheduler and agents that do what they are told, in any order.
//!
//! What must hold is checked by `world` after each step: the scheduler refuses nothing, budgets never
//! add up to more than the task's, who runs is wholly in, realtime runs once in a job of the task,
//! and swap targets add up.

mod world;

use proptest::prelude::*;
use rtswap_policy::admission::Test;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::Bytes;

use super::MemberId;
use world::{CHUNK, World};

#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    Ask(usize),
    Complete(usize),
    Allocate(usize, u64),
    Free(usize, u64),
    Swap(usize),
    Pin(usize, u64),
    Lose(usize),
    Back(usize),
    Die(usize),
    Release,
    Capacity(u64),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..4_usize;
    prop_oneof![
        2 => Just(Step::Join),
        16 => who.clone().prop_map(Step::Ask),
        12 => who.clone().prop_map(Step::Complete),
        8 => (who.clone(), 1..6_u64).prop_map(|(who, chunks)| Step::Allocate(who, chunks)),
        4 => (who.clone(), 1..4_u64).prop_map(|(who, chunks)| Step::Free(who, chunks)),
        24 => who.clone().prop_map(Step::Swap),
        12 => (who.clone(), prop_oneof![1 => 0..12_u64, 99 => Just(99)])
            .prop_map(|(who, most)| Step::Pin(who, most)),
        1 => who.clone().prop_map(Step::Lose),
        2 => who.clone().prop_map(Step::Back),
        1 => who.prop_map(Step::Die),
        2 => Just(Step::Release),
        1 => (18..26_u64).prop_map(Step::Capacity),
        8 => (0..30_u64).prop_map(Step::Pass),
        // Longer than an operation may take.
        1 => (200..400_u64).prop_map(Step::Pass),
    ]
}

/// The living member of that place.
fn member(world: &World, task: TaskId, who: usize) -> Option<MemberId> {
    let ids: Vec<_> = world.teams[&task].agents.keys().copied().collect();
    (!ids.is_empty()).then(|| ids[who % ids.len()])
}

fn take(world: &mut World, task: TaskId, step: Step) {
    let of = |world: &World, who| member(world, task, who);
    match step {
        Step::Join if world.teams[&task].agents.len() < 4 => world.join(task),
        Step::Join => {}
        Step::Release => world.release(task),
        Step::Pass(ms) => world.pass(ms),
        Step::Capacity(chunks) => world.capacity(chunks),
        Step::Ask(who)
        | Step::Complete(who)
        | Step::Allocate(who, _)
        | Step::Free(who, _)
        | Step::Swap(who)
        | Step::Pin(who, _)
        | Step::Lose(who)
        | Step::Back(who)
        | Step::Die(who) => {
            let Some(id) = of(world, who) else { return };
            let lost = world.agent(task, id).lost;
            match step {
                Step::Ask(_) => world.ask(task, id),
                Step::Complete(_) => world.complete(task, id),
                Step::Allocate(_, chunks) => world.allocate(task, id, chunks),
                Step::Free(_, chunks) => world.free(task, id, chunks),
                Step::Swap(_) => world.swap_step(task, id),
                Step::Pin(_, most) => world.pin(task, id, most * CHUNK),
                Step::Lose(_) if !lost => world.lose(task, id),
                Step::Back(_) if lost => world.hello(task, id),
                Step::Die(_) => world.die(task, id),
                _ => {}
            }
        }
    }
}

/// Everybody does what is asked of them, and asks for nothing more.
fn come_to_rest(world: &mut World) {
    let tasks: Vec<_> = world.teams.keys().copied().collect();
    world.capacity(24);
    for round in 0..70 {
        for &task in &tasks {
            world.release(task);
            for id in world.teams[&task]
                .agents
                .keys()
                .copied()
                .collect::<Vec<_>>()
            {
                if world.agent(task, id).lost {
                    world.hello(task, id);
                }
                world.report(task, id);
                world.pin(task, id, u64::MAX);
                for _ in 0..50 {
                    world.swap_step(task, id);
                }
                world.complete(task, id);
            }
        }
        // In the end what a want waits for must have come or been given up, one after the other.
        world.pass(if round < 30 { 10 } else { 600 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn several_are_one(
        steps in prop::collection::vec((0..3_u32, step()), 1..400),
        test in prop::sample::select(vec![Test::Theorem1, Test::Pipelined]),
    ) {
        let mut world = World::new(test);
        for task in [0, 1, 2, 0, 1, 2].map(TaskId) {
            world.join(task);
            for who in 0..2 {
                take(&mut world, task, Step::Allocate(who, 3));
                take(&mut world, task, Step::Pin(who, 99));
            }
        }
        for (task, step) in steps {
            take(&mut world, TaskId(task), step);
        }
        come_to_rest(&mut world);
        for (task, team) in &world.teams {
            for (id, agent) in &team.agents {
                let at = format!("{id:?} of {task:?}: {agent:?}");
                let runs = agent.job.is_some_and(|(_, granted)| granted);
                prop_assert!(!runs, "runs for ever: {at}");
                prop_assert!(agent.want.is_none(), "is never answered: {at}");
                prop_assert!(agent.op.is_none(), "moves for ever: {at}");
            }
            let status = world.scheduler.state().task(*task).expect("registered");
            // There may be no memory for it; then all know that it waits.
            let waits = team.agents.values().any(|agent| agent.job.is_some());
            // One whose asker has died ends when it is granted.
            let waiting = status.job.is_some();
            prop_assert!(waiting || !waits, "nobody knows that {task:?} waits: {:?}", team.agents);
            let granted = status.job.is_some_and(|job| job.granted.is_some());
            prop_assert!(!granted, "{task:?} runs for ever: {:?}", team.agents);
            prop_assert_eq!(status.dying, Bytes::ZERO);
            let held: Bytes = team.agents.values().map(|agent| agent.usage.resident).sum();
            prop_assert_eq!(status.usage.resident, held);
        }
    }
}
