//! The agent beside other preloaded libraries.
#![allow(missing_docs)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe};

const BOUND: Duration = Duration::from_secs(20);

#[test]
fn an_interposer_before_the_agent_finds_what_comes_after_it() -> Result<()> {
    ensure!(neighbours(|agent, other| format!("{other}:{agent}"))? == 1);
    Ok(())
}

#[test]
fn an_interposer_after_the_agent_hangs_nobody() -> Result<()> {
    neighbours(|agent, other| format!("{agent}:{other}")).map(|_| ())
}

/// How many allocations the interposer saw.
fn neighbours(order: fn(&str, &str) -> String) -> Result<u64> {
    let machine = Machine::new(MachineOptions::default())?;
    let folder = machine.path("");
    let program = probe("neighbour", &folder, &machine.driver_dir())?;
    let other = folder.join("libinterposer.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes/interposer.c");
    let built = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .args([&other, &source])
        .status()?;
    ensure!(built.success(), "the interposer does not compile");
    let agent = machine.binary("librtswap_cuda.so");
    let mut command = machine.command(program);
    command.env(
        "LD_PRELOAD",
        order(&agent.to_string_lossy(), &other.to_string_lossy()),
    );
    let report = Program::start(command)?.finish(BOUND)?.json()?;
    Ok(report["interposed"].as_u64().unwrap_or_default())
}
