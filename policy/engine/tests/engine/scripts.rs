//! Short runs in which the engine once went wrong.

use rtswap_policy::units::{Bytes, Nanos};

use crate::harness::{Bell, CHUNK, MS, OVERCLAIM, Op, Pair, Setting};

/// Takes steps after the beginning of a run, then lets all come to rest.
fn run(setting: u64, steps: &[Op]) -> Pair {
    let mut pair = Pair::new(Setting::of(setting));
    pair.begin();
    for &op in steps {
        pair.step(op, Bell::Prompt);
    }
    pair.calm_down();
    pair.check_at_rest();
    pair
}

#[test]
fn a_claim_in_the_first_block_brings_no_budget() {
    let mut pair = Pair::new(Setting::of(0));
    pair.begin();
    let (process, gpu, lie) = (11, 1, 5);
    pair.step(Op::Lie { process, gpu, lie }, Bell::Prompt);
    let budget = pair.world.processes[process].devices[gpu].page.budget;
    assert_eq!(
        budget.0, 0,
        "given to a process that was never asked for it"
    );
    pair.pass(Nanos(100 * MS), false);
}

#[test]
fn a_task_without_a_registration_goes_on_with_its_other_processes() {
    let gpu = 1;
    // Both are processes of `batch`; the first one's memory goes, and with it the task on that GPU.
    let steps = [
        Op::Request { process: 10, gpu },
        Op::Allocate {
            process: 10,
            gpu,
            chunks: 2,
            is_arena: true,
        },
        Op::Unregister { task: 5 },
        Op::Execute { process: 10 },
        Op::Request { process: 11, gpu },
    ];
    let mut pair = run(0, &steps);
    // Their user gets nothing beside realtime for 1 s, because one left memory behind.
    pair.pass(Nanos(1_000 * MS), false);
    pair.calm_down();
    let processes = &pair.world.processes;
    assert_eq!(processes.len(), 12, "one was turned away");
    assert_eq!(processes[11].devices[gpu].completed, 1);
}

/// A process of its own takes memory, loses its socket and says a Hello that cannot be true.
fn lies_in_its_hello() -> Pair {
    let gpu = 0;
    let mut pair = Pair::new(Setting::of(0));
    pair.begin();
    let process = 11;
    let steps = [
        Op::Die { process: 0 },
        Op::Join { task: None },
        Op::Allocate {
            process,
            gpu,
            chunks: 1,
            is_arena: true,
        },
        Op::Swap { process, gpu },
        Op::Disconnect { process },
    ];
    for op in steps {
        pair.step(op, Bell::Prompt);
    }
    let held = pair.world.processes[process].devices[gpu].usage.resident;
    assert!(held.0 > 0, "nothing is at stake");
    pair.step(Op::ReturnLying { process, gpu }, Bell::Prompt);
    let connection = pair.world.processes[process].connection;
    assert_eq!(connection, None, "such a Hello is believed");
    pair
}

#[test]
fn the_memory_of_a_process_that_lied_in_its_hello_is_freed_with_it() {
    let mut pair = lies_in_its_hello();
    pair.step(Op::Die { process: 11 }, Bell::Prompt);
    pair.check_all_is_freed();
}

#[test]
fn a_process_that_lied_in_its_hello_comes_back() {
    let mut pair = lies_in_its_hello();
    pair.calm_down();
    pair.check_at_rest();
    assert_eq!(pair.world.processes.len(), 12, "one was turned away");
    pair.check_all_is_freed();
}

#[test]
fn a_loading_task_says_that_its_plan_leaves_it_too_little() {
    let gpu = 0;
    let allocate = |process, chunks, is_arena| Op::Allocate {
        process,
        gpu,
        chunks,
        is_arena,
    };
    let pin = |process, gpu| Op::Pin {
        process,
        gpu,
        most: 99,
    };
    run(
        3,
        &[
            allocate(3, 2, true),
            pin(2, 0),
            Op::Die { process: 13 },
            Op::Join { task: None },
            Op::Die { process: 14 },
            pin(10, 1),
            allocate(10, 1, false),
            Op::Request { process: 1, gpu },
            Op::Request { process: 0, gpu },
            Op::Complete { process: 7, gpu },
            allocate(4, 2, false),
        ],
    );
}

#[test]
fn a_claim_that_adds_up_to_more_than_a_gpu_has_ends_no_connection() {
    let (gpu, lie) = (0, OVERCLAIM);
    let mut pair = Pair::new(Setting::of(0));
    pair.begin();
    // Both are processes of `batch`.
    let steps = [
        Op::Allocate {
            process: 10,
            gpu,
            chunks: 1,
            is_arena: true,
        },
        Op::Swap { process: 10, gpu },
        Op::Request { process: 11, gpu },
        Op::Lie {
            process: 11,
            gpu,
            lie,
        },
    ];
    for op in steps {
        pair.step(op, Bell::Prompt);
    }
    let usage = pair.world.processes[10].devices[gpu].usage;
    assert_eq!(usage.resident, Bytes(CHUNK), "nothing to add to");
    pair.pass(Nanos(1_100 * MS), false);
    let tasks = pair.engine.status().tasks;
    let task = tasks.iter().find(|task| task.name == "batch");
    let violations = task.map(|task| task.statistics.violations);
    assert_eq!(violations, Some(1), "a senseless report");
    let mut processes = pair.world.processes[10..].iter();
    assert!(processes.all(|process| process.connection.is_some()));
}
