//! What the daemon's eBPF probes cost programs: a call, and a job that swaps.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, compile, wait_until};

use crate::grant::median;
use crate::report::{Bound, Report};
use crate::stage::{BOUND, source};

/// Runs with and without probes, in turn.
const ROUNDS: usize = 3;
/// Jobs of each of two tasks that do not fit together.
const JOBS: &str = "12";
/// Of both, in ms. The second is released half a period after the first, so that each job finds the
/// other's memory on the GPU, and nothing to wait for.
const PERIOD_MS: u64 = 800;

/// Without a daemon, beside one, and beside one with probes.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let (bare, probed) = (machine(false)?, machine(true)?);
    let state = {
        let _daemon = probed.daemon()?;
        probed.probes_state(BOUND)?
    };
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
    report.modelled("job that swaps, without probes", without / 1e3, "ms");
    report.modelled("job that swaps, with probes", with / 1e3, "ms");
    let share = 100.0 * (with / without - 1.0);
    report
        .modelled("what the probes take of a job that swaps", share, "%")
        .bound(Bound::most(0.5, 0.0));
    Ok(())
}

/// The link of the demonstration, for which the chunks are as many.
fn machine(probes: bool) -> Result<Machine> {
    Machine::new(MachineOptions {
        memory_mib: 48,
        link_gib_per_s: 0.35,
        probes,
        ..MachineOptions::default()
    })
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

/// How long a job takes whose task has to come back first, µs.
fn jobs(machine: &Machine) -> Result<u64> {
    let _daemon = machine.daemon()?;
    let tasks = [
        task(machine, "first", 0),
        task(machine, "second", PERIOD_MS / 2),
    ];
    let mut sum = 0.0;
    for task in tasks.map(Program::start) {
        let report = task?.finish(BOUND)?.json()?;
        ensure!(report["checksum_errors"] == 0, "{report}");
        let response = report["response_ms"]["p50"].as_f64();
        sum += response.context("no response")?;
    }
    wait_until("the tasks are forgotten", BOUND, || {
        let status = machine.status().unwrap_or_default();
        status["tasks"].as_array().is_some_and(Vec::is_empty)
    })?;
    Ok((1e3 * sum / 2.0) as u64)
}

fn task(machine: &Machine, name: &str, phase_ms: u64) -> Command {
    let period = format!("{PERIOD_MS}ms");
    let declared = [
        "--wcet",
        "20ms",
        "--footprint",
        "32MiB",
        "--swappable",
        "28MiB",
    ];
    let mut command = machine.run(
        &[&["--name", name, "--period", &period], &declared[..]].concat(),
        machine.dnn(),
    );
    command.args(["--json", "--name", name, "--memory", "28MiB"]);
    command.args(["--period", &period, "--jobs", JOBS]);
    command.args(["--phase", &format!("{phase_ms}ms")]);
    command
}
