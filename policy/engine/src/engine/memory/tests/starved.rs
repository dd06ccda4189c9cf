use std::vec;

use rtswap_policy::scheduler::{JobKind, Phase};
use rtswap_policy::units::Bytes;

use super::world::{GIB, GPU, World, config, realtime, shown};
use crate::ids::{CallId, ConnectionId};
use crate::input::{Call, Caller, Input};

/// Best-effort has 4 GiB, and then a realtime task begins that leaves less: what the plan of 6 GiB
/// with a swap volume of zero leaves of 8.
fn squeezed() -> (World, ConnectionId, ConnectionId) {
    let mut world = World::new(config(), vec![], vec![shown(GPU, &[])]);
    let program = world.hello(7, None);
    world.ask_job(program, JobKind::Implicit);
    world.ask_memory(program, 4 * GIB);
    world.end_job(program);
    let caller = Caller {
        uid: 0,
        privileged: true,
    };
    let call = Call::Register {
        caller,
        options: realtime("a", 6 * GIB, 2 * GIB).options,
        claimant: None,
        lease: false,
    };
    world.put(Input::Call(CallId(1), std::boxed::Box::new(call)));
    let a = world.hello(8, Some("a"));
    (world, program, a)
}

/// Root ends a registration.
fn unregister(world: &mut World, name: &str) {
    let registration = world.registration(name);
    let caller = Caller {
        uid: 0,
        privileged: true,
    };
    let call = Call::Unregister {
        caller,
        registration,
    };
    world.put(Input::Call(CallId(2), std::boxed::Box::new(call)));
}

#[test]
fn a_task_that_the_plan_leaves_too_little_is_told_of_once() {
    let (mut world, program, a) = squeezed();
    let id = world.task("program").task;
    world.ask_job(a, JobKind::Declared);
    world.ask_memory(a, 6 * GIB);
    world.end_job(a);
    let (resident, swapped) = world.memory_of(program);
    assert_eq!(resident + swapped, 4 * GIB);
    assert!(swapped > 0, "it made room");
    world.wait(500);
    world.nvml(vec![shown(GPU, &[(7, resident), (8, 6 * GIB)])]);
    assert_eq!(
        world.engine.gpus[0].planned().starved(id),
        None,
        "it asks for nothing"
    );
    world.ask_job(program, JobKind::Implicit);
    assert!(!world.runs(program));
    let why = "the plan of a leaves 1.88 GiB, and it needs 4.00 GiB";
    assert_eq!(
        world.engine.gpus[0].planned().starved(id).as_deref(),
        Some(why)
    );
    for _ in 0..3 {
        world.wait(500);
        world.nvml(vec![shown(GPU, &[(7, resident), (8, 6 * GIB)])]);
    }
    let lines = world.lines("waits: the plan of");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].text.ends_with(why));
    assert!(lines[0].task.as_deref().unwrap().starts_with("program"));
    assert!(!world.runs(program), "and so it is: 1.5 s later it waits");
    // The plan ends, and with it the wait.
    world.die(a);
    world.wait(500);
    world.nvml(vec![shown(GPU, &[(7, resident)])]);
    world.wait(500);
    unregister(&mut world, "a");
    world.wait(500);
    assert!(world.runs(program));
    assert_eq!(world.engine.gpus[0].planned().starved(id), None);
    world.nvml(vec![shown(GPU, &[(7, 4 * GIB)])]);
    assert!(world.engine.gpus[0].starving.is_empty());
}

#[test]
fn best_effort_memory_that_cannot_be_swapped_starves_as_a_plan_does() {
    const SMALL: u64 = GIB / 2;
    const PROGRAM: u64 = 3 * GIB / 2;
    let tasks = vec![realtime("a", 6 * GIB, 0)];
    let mut world = World::new(config(), tasks, vec![shown(GPU, &[])]);
    let program = world.hello(7, None);
    world.ask_memory(program, PROGRAM);
    let small = world.hello(9, None);
    world.ask_memory(small, SMALL);
    world.say_unswappable(small);
    let a = world.hello(8, Some("a"));
    world.ask_job(a, JobKind::Declared);
    world.ask_memory(a, 6 * GIB);
    world.end_job(a);
    let (resident, swapped) = world.memory_of(program);
    assert!(swapped > 0, "it made room");
    world.ask_job(program, JobKind::Implicit);
    let all = [(7, resident), (8, 6 * GIB), (9, SMALL)];
    for _ in 0..3 {
        world.wait(500);
        world.nvml(vec![shown(GPU, &all)]);
    }
    assert!(!world.runs(program), "1.5 s later it waits");
    let why = "the plan of a and 512.0 MiB of best-effort memory that cannot be swapped leave 1.38 \
               GiB, and it needs 1.50 GiB";
    let id = world.task("program-7").task;
    assert_eq!(
        world.engine.gpus[0].planned().starved(id).as_deref(),
        Some(why)
    );
    assert_eq!(world.lines("waits: the plan of").len(), 1);
    world.die(small);
    world.wait(500);
    world.nvml(vec![shown(GPU, &all[..2])]);
    world.wait(500);
    assert!(world.runs(program), "it fits without that");
    assert_eq!(world.engine.gpus[0].planned().starved(id), None);
}

#[test]
fn best_effort_memory_that_cannot_be_swapped_starves_without_a_plan_too() {
    let mut world = World::new(config(), vec![], vec![shown(GPU, &[])]);
    let program = world.hello(7, None);
    world.ask_memory(program, 4 * GIB);
    let other = world.hello(9, None);
    world.ask_memory(other, 6 * GIB);
    assert!(world.memory_of(program).1 > 0, "it made room");
    world.say_unswappable(other);
    let id = world.task("program-7").task;
    world.ask_job(program, JobKind::Implicit);
    assert!(!world.runs(program));
    let why = "6.00 GiB of best-effort memory that cannot be swapped leave 1.88 GiB, and it needs \
               4.00 GiB";
    assert_eq!(
        world.engine.gpus[0].planned().starved(id).as_deref(),
        Some(why)
    );
}

#[test]
fn a_loading_task_is_not_starved_by_its_own_plan() {
    let (mut world, _, a) = squeezed();
    world.ask_memory(a, 6 * GIB);
    let small = world.hello(9, None);
    world.ask_memory(small, GIB);
    world.ask_job(small, JobKind::Implicit);
    assert!(world.runs(small));
    world.ask_job(a, JobKind::Implicit);
    assert!(!world.runs(a), "it waits for the other's job");
    let task = world.task("a");
    assert_eq!(
        (task.phase, task.volume),
        (Phase::Loading, Some(Bytes::ZERO))
    );
    assert_eq!(world.engine.gpus[0].planned().starved(task.task), None);
    let fits = world.hello(10, None);
    world.ask_job(fits, JobKind::Implicit);
    assert!(!world.runs(fits));
    let task = world.task("program-10").task;
    assert_eq!(
        world.engine.gpus[0].planned().starved(task),
        None,
        "the plan leaves enough"
    );
}

#[test]
fn a_ready_task_has_its_promise_and_is_not_starved() {
    let tasks = vec![realtime("a", 3 * GIB, GIB), realtime("b", 3 * GIB, GIB)];
    let mut world = World::new(config(), tasks, vec![shown(GPU, &[])]);
    let [a, b] = [(7, "a"), (8, "b")].map(|(pid, name)| {
        let agent = world.hello(pid, Some(name));
        world.ask_memory(agent, 3 * GIB);
        world.ask_job(agent, JobKind::Declared);
        world.end_job(agent);
        world.wait(1000);
        agent
    });
    // A program without an agent takes what was promised: an emergency, told of as such.
    let all = [(7, 3 * GIB), (8, 3 * GIB), (99, 6 * GIB)];
    world.nvml(vec![shown(GPU, &all)]);
    world.ask_job(a, JobKind::Declared);
    world.ask_job(b, JobKind::Declared);
    assert!(!world.runs(a) && !world.runs(b));
    let task = world.task("a");
    assert_eq!(task.phase, Phase::Ready);
    assert_eq!(world.engine.gpus[0].planned().starved(task.task), None);
}

#[test]
fn the_verdict_on_a_plan_is_kept_until_the_plan_changes() {
    let (mut world, ..) = squeezed();
    let gpu = &mut world.engine.gpus[0];
    let (tasks, intended) = gpu.intended();
    assert_eq!((tasks.len(), intended.tasks.len()), (1, 1));
    assert_eq!(tasks[0].volume.or(tasks[0].next_volume), Some(Bytes::ZERO));
    let before = gpu.analysis().clone();
    assert!(before.schedulable);
    // Computed anew, it would be that of another test.
    let test = gpu.config.test;
    gpu.config.test = rtswap_policy::admission::Test::Theorem1;
    assert_eq!(gpu.analysis().test, test);
    assert_eq!(*gpu.analysis(), before);
    unregister(&mut world, "a");
    let gpu = &mut world.engine.gpus[0];
    assert_eq!(gpu.intended().0, []);
    assert!(gpu.intended().1.tasks.is_empty());
    assert!(gpu.analysis().tasks.is_empty());
}
