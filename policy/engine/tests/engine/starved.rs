//! Tasks that wait because of what plans and best-effort memory leave of a GPU, where status and log say why, or
//! because their owner is barred.

use rtswap_engine::status::{Phase, TaskStatus, TreatedAs};
use rtswap_policy::scheduler::JobKind;
use rtswap_policy::units::{Bytes, Nanos};

use crate::harness::{Bell, CHUNK, MS, Op, Pair, Setting, TaskSetting};

const GPU: usize = 0;

/// An engine for realtime tasks of so many chunks that cannot be swapped, none of them registered.
fn pair(tasks: &[(&'static str, u64)]) -> Pair {
    pair_with(tasks, |chunks| chunks)
}

/// As [`pair`], with so many of a task's chunks that cannot be swapped.
fn pair_with(tasks: &[(&'static str, u64)], pinned: fn(u64) -> u64) -> Pair {
    let tasks = tasks.iter().map(|&(name, chunks)| TaskSetting {
        name,
        uid: 0,
        gpu: Some(GPU),
        chunks,
        pinned: pinned(chunks),
    });
    Pair::new(Setting {
        tasks: tasks.collect(),
        ..Setting::of(0)
    })
}

/// A process comes, of a task or on its own. Returns its place.
fn join(pair: &mut Pair, task: Option<usize>) -> usize {
    pair.join(task);
    pair.world.processes.len() - 1
}

/// A process comes that holds so many chunks.
fn join_with(pair: &mut Pair, task: Option<usize>, chunks: u64, is_arena: bool) -> usize {
    let at = join(pair, task);
    pair.world.processes[at].devices[GPU].allocate(chunks, is_arena);
    pair.world.processes[at].bell = true;
    pair.calm_down();
    at
}

/// A process asks to run.
fn request(pair: &mut Pair, at: usize, kind: JobKind) {
    pair.world.processes[at].devices[GPU].request(kind);
    pair.world.processes[at].bell = true;
    pair.read_pages(true);
}

/// A process allocates so many chunks in its first job.
fn load(pair: &mut Pair, at: usize, chunks: u64) {
    request(pair, at, JobKind::Declared);
    pair.world.processes[at].devices[GPU].allocate(chunks, true);
    pair.calm_down();
}

fn runs(pair: &Pair, at: usize) -> bool {
    let job = pair.world.processes[at].devices[GPU].job;
    job.is_some_and(|job| job.granted.is_some())
}

/// The status of the task of the process at `at`.
fn task(pair: &mut Pair, at: usize) -> TaskStatus {
    let pid = pair.world.processes[at].pid;
    let tasks = pair.engine.status().tasks.into_iter();
    let mut of = tasks.filter(|task| task.processes.contains(&pid));
    of.next().expect("it has a session")
}

fn swapped(pair: &Pair, at: usize) -> Bytes {
    pair.world.processes[at].devices[GPU].usage.swapped
}

/// The lines of the log that say why a task waits.
fn said(pair: &Pair) -> Vec<&str> {
    let lines = pair.log.iter().map(|line| &*line.text);
    lines.filter(|text| text.starts_with("waits: ")).collect()
}

/// A best-effort program with 12 chunks, and a realtime task that leaves it 6 of 24, at its places.
fn squeezed() -> (Pair, usize, usize) {
    let mut pair = pair(&[("a", 18)]);
    let program = join_with(&mut pair, None, 12, true);
    pair.register(0, false);
    let a = join(&mut pair, Some(0));
    (pair, program, a)
}

#[test]
fn a_task_that_the_plan_leaves_too_little_is_told_of_once() {
    let (mut pair, program, a) = squeezed();
    load(&mut pair, a, 18);
    assert!(swapped(&pair, program) > Bytes::ZERO, "it made room");
    assert_eq!(task(&mut pair, program).waits, None, "it asks for nothing");
    request(&mut pair, program, JobKind::Implicit);
    let why = "the plan of a@0 leaves 96.0 MiB, and it needs 192.0 MiB";
    for _ in 0..3 {
        assert!(!runs(&pair, program));
        assert_eq!(task(&mut pair, program).waits.as_deref(), Some(why));
        pair.pass(Nanos(600 * MS), false);
    }
    assert_eq!(said(&pair), [format!("waits: {why}")]);
    // The plan ends, and with it the wait.
    pair.die(a);
    pair.pass(Nanos(600 * MS), false);
    pair.step(Op::Unregister { task: 0 }, Bell::Prompt);
    pair.calm_down();
    assert_eq!(pair.world.processes[program].devices[GPU].completed, 1);
    assert_eq!(task(&mut pair, program).waits, None);
    pair.pass(Nanos(600 * MS), false);
    // And so again.
    pair.register(0, false);
    let a = join(&mut pair, Some(0));
    load(&mut pair, a, 18);
    request(&mut pair, program, JobKind::Implicit);
    pair.pass(Nanos(600 * MS), false);
    assert_eq!(said(&pair).len(), 2);
}

#[test]
fn best_effort_memory_that_cannot_be_swapped_starves_as_a_plan_does() {
    let mut pair = pair(&[("a", 18)]);
    let program = join_with(&mut pair, None, 5, true);
    let small = join_with(&mut pair, None, 2, false);
    pair.register(0, false);
    join_with(&mut pair, Some(0), 18, true);
    assert!(swapped(&pair, program) > Bytes::ZERO, "it made room");
    request(&mut pair, program, JobKind::Implicit);
    pair.pass(Nanos(1_500 * MS), false);
    assert!(!runs(&pair, program));
    let why = "the plan of a@0 and 32.0 MiB of best-effort memory that cannot be swapped leave 64.0 \
               MiB, and it needs 80.0 MiB";
    assert_eq!(task(&mut pair, program).waits.as_deref(), Some(why));
    assert_eq!(said(&pair), [format!("waits: {why}")]);
    pair.die(small);
    pair.calm_down();
    let completed = pair.world.processes[program].devices[GPU].completed;
    assert_eq!(completed, 1, "it fits without that");
    assert_eq!(task(&mut pair, program).waits, None);
}

#[test]
fn best_effort_memory_that_cannot_be_swapped_starves_without_a_plan_too() {
    let mut pair = pair(&[]);
    let program = join_with(&mut pair, None, 12, true);
    join_with(&mut pair, None, 18, false);
    assert!(swapped(&pair, program) > Bytes::ZERO, "it made room");
    request(&mut pair, program, JobKind::Implicit);
    assert!(!runs(&pair, program));
    let why = "288.0 MiB of best-effort memory that cannot be swapped leave 96.0 MiB, and it needs \
               192.0 MiB";
    assert_eq!(task(&mut pair, program).waits.as_deref(), Some(why));
}

#[test]
fn a_loading_task_is_not_starved_by_its_own_plan() {
    let (mut pair, _, a) = squeezed();
    pair.world.processes[a].devices[GPU].allocate(18, true);
    pair.calm_down();
    let small = join_with(&mut pair, None, 3, true);
    request(&mut pair, small, JobKind::Implicit);
    assert!(runs(&pair, small));
    request(&mut pair, a, JobKind::Declared);
    assert!(!runs(&pair, a), "it waits for the other's job");
    let TaskStatus {
        class,
        memory,
        waits,
        ..
    } = task(&mut pair, a);
    assert_eq!((class, waits), (TreatedAs::Realtime, None));
    assert_eq!(
        (memory.swap_volume, memory.resident),
        (Bytes::ZERO, Bytes(18 * CHUNK))
    );
    let fits = join(&mut pair, None);
    request(&mut pair, fits, JobKind::Implicit);
    assert!(!runs(&pair, fits));
    assert_eq!(task(&mut pair, fits).waits, None, "the plan leaves enough");
}

#[test]
fn a_ready_task_has_its_promise_and_is_not_starved() {
    let mut pair = pair_with(&[("a", 14), ("b", 14)], |_| 1);
    let [a, b] = [0, 1].map(|number| {
        pair.register(number, false);
        let at = join(&mut pair, Some(number));
        load(&mut pair, at, 14);
        pair.pass(Nanos(1_000 * MS), false);
        at
    });
    for at in [a, b] {
        request(&mut pair, at, JobKind::Declared);
        pair.calm_down();
    }
    for at in [a, b] {
        assert_eq!(task(&mut pair, at).phase, Phase::Idle, "it is ready");
    }
    // A program without an agent takes what was promised: an emergency, told of as such.
    pair.world.nvml.strangers[GPU] = 12;
    pair.pass(Nanos(600 * MS), false);
    for at in [a, b] {
        request(&mut pair, at, JobKind::Declared);
    }
}

#[test]
fn one_that_leaves_late_keeps_its_owners_other_tasks_from_running_but_not_from_loading() {
    let task = |name, gpu| TaskSetting {
        name,
        uid: 1000,
        gpu,
        chunks: 4,
        pinned: 4,
    };
    let mut pair = Pair::new(Setting {
        tasks: vec![
            task("a", Some(GPU)),
            task("b", Some(GPU)),
            task("late", None),
        ],
        ..Setting::of(0)
    });
    for task in 0..3 {
        pair.register(task, false);
    }
    let a = join(&mut pair, Some(0));
    load(&mut pair, a, 4);
    let [b, late] = [1, 2].map(|task| join(&mut pair, Some(task)));
    request(&mut pair, late, JobKind::Implicit);
    assert!(runs(&pair, late));
    request(&mut pair, a, JobKind::Declared);
    pair.pass(Nanos(400 * MS), false);
    let is_late = |line: &str| line.contains("gets nothing beside realtime for 1 s");
    let says_so = pair.log.iter().any(|line| is_late(&line.text));
    assert!(says_so, "{:#?}", pair.log);
    for at in [a, late] {
        pair.world.processes[at].devices[GPU].complete();
        pair.world.processes[at].bell = true;
    }
    pair.read_pages(true);
    request(&mut pair, late, JobKind::Implicit);
    assert!(!runs(&pair, late));
    request(&mut pair, b, JobKind::Implicit);
    assert!(runs(&pair, b));
}
