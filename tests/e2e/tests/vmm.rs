//! Memory that a program creates and maps itself swaps like any other.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Puppet, probe, tortures, wait_until};
use rtswap_wire::page::Direction;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
const BOUND: Duration = Duration::from_secs(30);

/// The largest that the simulated GPU's pieces fill unevenly, and its granularity.
const CHUNKS: [u64; 2] = [8 * MIB, 2 * MIB];

#[test]
fn memory_that_the_program_maps_itself_comes_back_as_it_was() -> Result<()> {
    CHUNKS.into_iter().try_for_each(|chunk| {
        run(chunk).with_context(|| format!("in chunks of {} MiB", chunk / MIB))
    })
}

/// The program, and what holds its strings.
fn start(chunk: u64, torture: &str) -> Result<(Machine, Program, Puppet)> {
    let machine = Machine::new(MachineOptions::default())?;
    let program = probe("vmm", &machine.path(""), &machine.driver_dir())?;
    let uuid = machine.wire_uuid()?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut command = machine.preloaded(program);
    command.env("RTSWAP_TORTURE", torture);
    command.env("RTSWAP_LOG", "debug");
    let mut program = Program::start(command)?;
    let puppet = Puppet::accept(&listener, uuid, chunk, machine.memory_bytes())?;
    program.wait_for_line("ready", BOUND)?;
    Ok((machine, program, puppet))
}

/// What the program answers, whether its memory is out or not.
fn answers() -> [Value; 6] {
    [
        json!({"wrong": 0}),
        json!({
            "type": 1, "ordinal": 1, "base": 1, "size": 1, "range": 1, "mapped": 1, "access": 1,
            "retained": 1, "prop": 1, "refused": 6, "mapped_out": 1, "unmapped": 1, "created": 1
        }),
        json!({"wrong": 0, "late": 0, "twice": 0}),
        json!({"alone": 1}),
        json!({"wrong": 0}),
        json!({"left": 0}),
    ]
}

fn run(chunk: u64) -> Result<()> {
    let (machine, mut program, mut puppet) = start(chunk, "")?;
    let context = puppet.block().agent.usage().resident_bytes;
    let bare = machine.used_bytes(0);
    let [filled, out, back, alone, again, left] = answers();

    expect(&mut program, &puppet, 1, &filled)?;
    let arena = all_out(&mut puppet)?;
    let loaded = 30 * MIB;
    ensure!(
        (loaded..loaded + 2 * chunk).contains(&arena),
        "{arena} bytes for {loaded}"
    );
    ensure!(
        machine.used_bytes(0) == bare,
        "some of it is still on the GPU"
    );

    expect(&mut program, &puppet, 2, &out)?;
    ensure!(puppet.block().agent.usage().swapped_bytes > loaded - 8 * MIB);
    puppet.swap(Direction::In, 0)?;
    expect(&mut program, &puppet, 3, &back)?;

    expect(&mut program, &puppet, 4, &alone)?;
    all_out(&mut puppet)?;
    puppet.swap(Direction::In, chunk)?;
    puppet.swap(Direction::In, 0)?;
    expect(&mut program, &puppet, 5, &again)?;
    expect(&mut program, &puppet, 6, &left)?;
    let usage = puppet.block().agent.usage();
    ensure!(
        usage.resident_bytes == context && usage.arena_bytes == 0,
        "{usage:?} is left of {context}"
    );
    program.kill()
}

#[test]
fn swaps_between_every_two_calls_change_nothing() -> Result<()> {
    let (_machine, mut program, puppet) = start(8 * MIB, "every-call")?;
    for (number, answer) in answers().iter().enumerate() {
        expect(&mut program, &puppet, number + 1, answer)?;
    }
    let moved = tortures(&program.stderr());
    ensure!(
        moved.iter().filter(|bytes| **bytes >= 30 * MIB).count() > 4,
        "that little was moved: {moved:?}"
    );
    program.kill()
}

/// Swaps everything out; how much that is.
fn all_out(puppet: &mut Puppet) -> Result<u64> {
    wait_until("the job ends", BOUND, || {
        let jobs = puppet.block().agent.jobs();
        jobs.is_none_or(|jobs| jobs.requested == jobs.completed)
    })?;
    let arena = puppet.block().agent.usage().arena_bytes;
    puppet.set_volume(arena)?;
    puppet.swap(Direction::Out, arena)?;
    Ok(arena)
}

/// Lets the program go on to its answer, granting what it asks for.
fn expect(program: &mut Program, puppet: &Puppet, number: usize, expected: &Value) -> Result<()> {
    program.say("\n")?;
    let mut answer = None;
    wait_until("the next answer", BOUND, || {
        let jobs = puppet.block().agent.jobs();
        if let Some(jobs) = jobs.filter(|jobs| jobs.requested != jobs.completed) {
            // A wake-up that fails is made up for by the next.
            let _ = puppet.grant(jobs.requested);
        }
        let text = program.stdout();
        let whole = text.ends_with('\n').then_some(&text[..]);
        answer = whole.and_then(|text| text.lines().nth(number).map(str::to_owned));
        answer.is_some() || !program.is_running()
    })
    .with_context(|| program.stderr())?;
    let answer = answer.with_context(|| program.stderr())?;
    let answer: Value = serde_json::from_str(&answer)?;
    ensure!(answer == *expected, "{answer} is not {expected}");
    Ok(())
}
