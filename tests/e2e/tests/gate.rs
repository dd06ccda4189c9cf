//! Launches that race the closing gate.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Puppet, probe};
use rtswap_wire::page::Direction;

const CLOSINGS: u32 = 10_000;
const CHUNK: u64 = 2 << 20;

#[test]
fn no_launch_slips_through_a_closing_gate() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        link_gib_per_s: 64.0,
        ..MachineOptions::default()
    })?;
    let program = probe("gate", &machine.path(""), &machine.driver_dir())?;
    let uuid = machine.wire_uuid()?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut command = machine.preloaded(program);
    command.arg("3");
    let mut program = Program::start(command)?;
    let mut puppet = Puppet::accept(&listener, uuid, CHUNK, machine.memory_bytes())?;

    // It loads and starts its threads in as many jobs as it likes.
    while !program.stdout().contains("ready") {
        if let Some(jobs) = puppet
            .block()
            .agent
            .jobs()
            .filter(|jobs| jobs.requested != jobs.completed)
        {
            puppet.grant(jobs.requested)?;
        }
        ensure!(program.is_running(), "{}", program.stderr());
        std::thread::sleep(Duration::from_millis(1));
    }
    let arena = puppet.block().agent.usage().arena_bytes;
    ensure!(
        arena >= 3 * CHUNK && arena % CHUNK == 0,
        "the arena has {arena} bytes"
    );
    puppet.set_volume(arena)?;

    for round in 0..CLOSINGS {
        let job = puppet.wait_for_job().with_context(|| program.stderr())?;
        puppet.grant(job)?;
        // From closing at once to letting some hundred launches through.
        std::thread::sleep(Duration::from_micros(u64::from(round * 7919 % 400)));
        puppet.revoke(job).with_context(|| program.stderr())?;
        puppet
            .swap(Direction::Out, arena)
            .with_context(|| program.stderr())?;
        puppet
            .swap(Direction::In, 0)
            .with_context(|| program.stderr())?;
    }
    program.say("x")?;
    // The rest of its launches and the copies that check them are further jobs.
    while program.is_running() {
        if let Some(jobs) = puppet
            .block()
            .agent
            .jobs()
            .filter(|jobs| jobs.requested != jobs.completed)
        {
            puppet.grant(jobs.requested)?;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = program.finish(Duration::from_secs(10))?.json()?;
    ensure!(report["wrong_words"] == 0, "{report}");
    ensure!(
        report["launches"].as_u64() > Some(u64::from(CLOSINGS)),
        "{report}"
    );
    Ok(())
}
