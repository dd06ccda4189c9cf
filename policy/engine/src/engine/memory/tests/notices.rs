//! What programs are told while they wait and when memory is refused to them.

use std::boxed::Box;
use std::collections::BTreeSet;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use rtswap_policy::units::Bytes;

use super::world::{GIB, GPU, World, config, shown};
use crate::ids::{CallId, ConnectionId};
use crate::input::{Call, Caller, DeviceState, Input};
use crate::output::Output;

const STOPPED: ConnectionId = ConnectionId(77);
const OTHER: ConnectionId = ConnectionId(78);

/// A process with 6 GiB of 8 that can swap out, and is stopped; and another process.
fn beside_stopped() -> World {
    let mut world = World::new(config(), vec![], vec![shown(GPU, &[])]);
    let device = DeviceState {
        backing: Bytes(6 * GIB),
        ..DeviceState::default()
    };
    world.hello_from(STOPPED, 77, None, device);
    world.ask_memory(STOPPED, 6 * GIB);
    world.see_stopped(STOPPED);
    world.hello_on(OTHER, 78, None);
    world
}

/// So much time passes, and all is looked at every half second. Returns what comes of it.
fn outputs(world: &mut World, ms: u64) -> Vec<Output> {
    world.take_outputs();
    for _ in 0..ms / 500 {
        world.wait(500);
        world.nvml(vec![shown(GPU, &[(77, 6 * GIB)])]);
        world.see_stopped(STOPPED);
    }
    world.take_outputs()
}

/// The same: what the other process is told.
fn told(world: &mut World, ms: u64) -> Vec<String> {
    let texts = outputs(world, ms).into_iter();
    let texts = texts.filter_map(|output| match output {
        Output::Notify { connection, text } if connection == OTHER => Some(text),
        _ => None,
    });
    texts.collect()
}

#[test]
fn the_reason_is_sent_before_the_refusal() {
    let mut world = beside_stopped();
    world.want_memory(OTHER, 6 * GIB);
    let outputs = outputs(&mut world, 8_000);
    let reason = outputs.iter().position(|output| {
        matches!(output, Output::Notify { connection, text }
            if *connection == OTHER && text.starts_with("refused "))
    });
    let (to, before) = world.refused.expect("it is refused");
    assert_eq!(to, OTHER);
    assert!(
        reason.is_some_and(|reason| reason < before),
        "{reason:?}, {before}"
    );
}

#[test]
fn a_refusal_is_told_also_to_one_that_was_told_why_it_waits() {
    let mut world = beside_stopped();
    world.want_memory(OTHER, 6 * GIB);
    let texts = told(&mut world, 8_000);
    let [waiting, refused] = &texts[..] else {
        panic!("{texts:?}");
    };
    let stopped = "process 77 is stopped since";
    assert!(waiting.starts_with("waiting for the GPU: ") && waiting.contains(stopped));
    assert!(refused.starts_with("refused 6.00 GiB of GPU memory: "));
    let status = world.engine.status();
    let mut tasks = status.tasks.iter();
    let waits = tasks.find_map(|task| {
        task.waits
            .as_ref()
            .filter(|text| text.starts_with("refused"))
    });
    assert!(waits.is_some(), "{:?}", status.tasks);
}

#[test]
fn one_that_fits_beside_a_stopped_process_is_told_nothing() {
    let mut world = beside_stopped();
    world.ask_memory(OTHER, GIB);
    assert_eq!(told(&mut world, 4_000), Vec::<String>::new());
    world.ask_job(OTHER);
    assert_eq!(told(&mut world, 2_000), Vec::<String>::new());
}

#[test]
fn of_many_stopped_processes_each_is_looked_at_in_turn() {
    let mut world = beside_stopped();
    for number in 0..200 {
        let connection = ConnectionId(1_000 + number);
        world.hello_on(connection, 1_000 + number as u32, None);
        world.ask_memory(connection, 1 << 20);
        world.see_stopped(connection);
    }
    world.take_outputs();
    for _ in 0..4 {
        world.wait(500);
        world.nvml(vec![shown(GPU, &[(77, 6 * GIB)])]);
    }
    let outputs = world.take_outputs().into_iter();
    let inspected = outputs.filter_map(|output| match output {
        Output::Inspect(connection) => Some(connection),
        _ => None,
    });
    let inspected: BTreeSet<_> = inspected.collect();
    assert_eq!(inspected.len(), 201);
}

#[test]
fn one_that_is_parked_is_told_what_brings_it_back() {
    let mut world = World::new(config(), vec![], vec![shown(GPU, &[])]);
    world.hello_on(OTHER, 78, None);
    let tasks = world.engine.status().tasks;
    let call = Call::Park {
        caller: Caller {
            uid: tasks[0].uid,
            privileged: false,
        },
        registration: tasks[0].registration,
    };
    world.put(Input::Call(CallId(1), Box::new(call)));
    world.ask_job(OTHER);
    let name = &tasks[0].name;
    let text = format!("waiting for the GPU: parked: rtswapctl resume {name} brings it back");
    assert_eq!(told(&mut world, 4_000), [text]);
}
