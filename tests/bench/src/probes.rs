//! What the daemon's eBPF probes cost programs: a call, and jobs that swap.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, compile, wait_until};

use crate::grant::median;
use crate::report::{Bound, Report};
use crate::stage::{BOUND, source};

/// Runs with and without probes, in turn.
const ROUNDS: usize = 5;
/// Jobs of each of two tasks that do not fit together: each job swaps.
const JOBS: &str = "120";

/// Without a daemon, beside one, and beside one with probes.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let (bare, probed) = (machine(false)?, machine(true)?);
    let state = state(&probed)?;
    if state != "on" {
        eprintln!("the probes are not measured: {state}");
        return Ok(());
    }
    let beside = |whom: &str| format!("a call {whom}");
    let program = Program::start(bare.command(allocator(&bare)?))?;
    report.measured(&beside("without a daemon"), call(program)?, "µs");
    for (machine, whom) in [(&bare, "beside a daemon"), (&probed, "under its probes")] {
        let _daemon = machine.daemon()?;
        let program = Program::start(machine.command(allocator(machine)?))?;
        if whom == "under its probes" {
            has_probes(machine)?;
        }
        report.measured(&beside(whom), call(program)?, "µs");
    }
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(jobs(&bare)?);
        with.push(jobs(&probed)?);
    }
    let (without, with) = (median(without), median(with));
    report.modelled("jobs that swap, without probes", without / 1e6, "s");
    report.modelled("jobs that swap, with probes", with / 1e6, "s");
    let share = 100.0 * (with / without - 1.0);
    report
        .modelled("what the probes take of jobs that swap", share, "%")
        .bound(Bound::most(1.0, 0.0));
    Ok(())
}

/// The link of the demonstration, for which the chunks are as many.
fn machine(probes: bool) -> Result<Machine> {
    Machine::new(MachineOptions {
        memory_mib: 96,
        link_gib_per_s: 0.35,
        probes,
        ..MachineOptions::default()
    })
}

/// What the daemon says of its probes, once they are on or cannot be.
fn state(machine: &Machine) -> Result<String> {
    let _daemon = machine.daemon()?;
    let mut state = String::new();
    wait_until("the probes begin", BOUND, || {
        let status = machine.status().unwrap_or_default();
        let said = status["probes"]["state"].as_str();
        said.unwrap_or("off").clone_into(&mut state);
        state != "off"
    })?;
    Ok(state)
}

fn has_probes(machine: &Machine) -> Result<()> {
    wait_until("the library has probes", BOUND, || {
        let status = machine.status().unwrap_or_default();
        status["probes"]["libraries"].as_u64() > Some(0)
    })
}

fn allocator(machine: &Machine) -> Result<PathBuf> {
    compile(&source("probed"), &machine.path(""), &machine.driver_dir())
}

/// CPU time of a call, µs.
fn call(mut program: Program) -> Result<f64> {
    program.wait_for_line("ready", BOUND)?;
    program.say("go\n")?;
    let finished = program.finish(BOUND)?;
    let line = finished.stdout.lines().last().context("no answer")?;
    let answer: serde_json::Value = serde_json::from_str(line)?;
    Ok(answer["call_ns"].as_f64().context("no time")? / 1e3)
}

/// How long two tasks take that take turns, µs.
fn jobs(machine: &Machine) -> Result<u64> {
    let _daemon = machine.daemon()?;
    let start = Instant::now();
    let tasks = [task(machine, "first"), task(machine, "second")].map(Program::start);
    for task in tasks {
        let report = task?.finish(BOUND)?.json()?;
        ensure!(report["checksum_errors"] == 0, "{report}");
    }
    Ok(start.elapsed().as_micros() as u64)
}

fn task(machine: &Machine, name: &str) -> Command {
    let mut command = machine.run(&["--name", name], machine.dnn());
    command.args(["--json", "--name", name, "--memory", "72MiB"]);
    command.args(["--period", "1ms", "--jobs", JOBS]);
    command
}
