//! Stream-ordered memory keeps its order and its bytes, wherever it is.
#![allow(missing_docs)]

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Puppet, probe, wait_until};
use rtswap_wire::page::Direction;
use serde_json::{Value, json};

const CHUNK: u64 = 2 << 20;
const BOUND: Duration = Duration::from_secs(30);

#[test]
fn what_a_stream_freed_is_its_own_until_the_work_is_done() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let program = probe("ordered", &machine.path(""), &machine.driver_dir())?;
    let uuid = machine.wire_uuid()?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut program = Program::start(machine.preloaded(program))?;
    let mut puppet = Puppet::accept(&listener, uuid, CHUNK, machine.memory_bytes())?;
    program.wait_for_line("ready", BOUND)?;

    let before = next(&mut program, &puppet, 1)?;
    let expected = json!({
        "fresh": 1, "reused": 1, "waited": 1, "apart": 1, "twice": 1, "middle": 1,
        // Two of 3 MiB and one of 1.5.
        "used": 15 << 19, "most": 1
    });
    ensure!(before == expected, "{before} is not {expected}");

    wait_until("the job ends", BOUND, || {
        let jobs = puppet.block().agent.jobs();
        jobs.is_none_or(|jobs| jobs.requested == jobs.completed)
    })?;
    let arena = puppet.block().agent.usage().arena_bytes;
    ensure!(arena >= 9 << 20, "the arena has {arena} bytes");
    puppet.set_volume(arena)?;
    puppet.swap(Direction::Out, arena)?;
    let resident = puppet.block().agent.usage().resident_bytes;
    let out = next(&mut program, &puppet, 2)?;
    let expected = json!({
        "pool": 1, "context": 1, "start": 1, "size": 3 << 19, "gone": 1, "plain_context": 1,
        "ids": 1, "out_reuse": 1
    });
    ensure!(out == expected, "{out} is not {expected}");
    let usage = puppet.block().agent.usage();
    ensure!(
        usage.resident_bytes == resident && usage.swapped_bytes == arena,
        "nothing came back for that: {usage:?}"
    );

    puppet.swap(Direction::In, 0)?;
    let back = next(&mut program, &puppet, 3)?;
    let expected = json!({"wrong": 0, "plain_freed": 1, "left": 0, "reserved": 0});
    ensure!(back == expected, "{back} is not {expected}");
    wait_until("all of it is given back", BOUND, || {
        puppet.block().agent.usage().arena_bytes == 0
    })?;
    program.kill()
}

/// Lets the program go on, grants its jobs, and returns its answer.
fn next(program: &mut Program, puppet: &Puppet, number: usize) -> Result<Value> {
    program.say("\n")?;
    let start = Instant::now();
    loop {
        let text = program.stdout();
        if let Some(line) = text
            .lines()
            .filter(|line| line.starts_with('{'))
            .nth(number - 1)
            && text.ends_with('\n')
        {
            return Ok(serde_json::from_str(line)?);
        }
        let agent = &puppet.block().agent;
        if let Some(jobs) = agent.jobs().filter(|jobs| jobs.requested != jobs.completed) {
            puppet.grant(jobs.requested)?;
        }
        ensure!(
            program.is_running() && start.elapsed() < BOUND,
            "no answer {number}: {text}{}",
            program.stderr()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}
