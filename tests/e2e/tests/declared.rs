//! `rtswap.h`: jobs that a program declares are the jobs that the daemon counts.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe, wait_until};

const BOUND: Duration = Duration::from_mins(1);
const JOBS: u64 = 20;

#[test]
fn declared_jobs_are_counted_one_by_one() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let program = probe("declared", &machine.path(""), &machine.driver_dir())?;
    let mut command = machine.run(&["--name", "declared"], program);
    command.arg(JOBS.to_string());
    let mut program = Program::start(command)?;
    program.wait_for_line("ready", BOUND)?;
    let jobs = || {
        let task = machine.task("declared").ok().flatten()?;
        (task["phase"] == "idle").then(|| task["jobs"].as_u64())?
    };
    // Status follows within moments.
    wait_until("all jobs are counted", BOUND, || jobs() >= Some(JOBS))?;
    ensure!(jobs() == Some(JOBS), "{:?} jobs", jobs());
    program.say("\n")?;
    ensure!(program.finish(BOUND)?.json()?["wrong_words"] == 0);
    Ok(())
}

#[test]
fn without_the_agent_declarations_do_nothing() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let program = probe("declared", &machine.path(""), &machine.driver_dir())?;
    let mut command = machine.command(program);
    command.arg("5");
    let mut program = Program::start(command)?;
    program.say("\n")?;
    ensure!(program.finish(BOUND)?.json()?["wrong_words"] == 0);
    Ok(())
}
