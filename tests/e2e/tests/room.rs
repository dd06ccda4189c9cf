//! A realtime task that fits alone gives a program what its deadlines allow it to do without.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};

const BOUND: Duration = Duration::from_mins(1);
const MIB: u64 = 1 << 20;
const JOBS: u64 = 20;

/// 40 MiB of layers, on a GPU of 64 of which 8 are the reserve of best-effort and 2 the driver's.
fn dnn(machine: &Machine, options: &[&str], jobs: u64) -> Result<Program> {
    let mut command = machine.run(options, machine.dnn());
    command.args(["--json", "--memory", "40MiB", "--layers", "4"]);
    command.args(["--period", "500ms", "--jobs", &jobs.to_string()]);
    Program::start(command)
}

#[test]
fn a_program_that_does_not_fit_beside_a_realtime_task_runs_and_no_deadline_is_missed() -> Result<()>
{
    let machine = Machine::new(MachineOptions::default())?;
    let mut daemon = machine.daemon()?;
    let options = [
        "--name=camera",
        "--period=500ms",
        "--wcet=100ms",
        "--footprint=44MiB",
        "--swappable=40MiB",
    ];
    let camera = dnn(&machine, &options, 2 * JOBS)?;
    let volume = || -> Option<u64> {
        let camera = machine.task("camera").ok()??;
        camera["swap_volume_bytes"].as_u64()
    };
    wait_until("the realtime task runs", BOUND, || {
        let camera = machine.task("camera").ok().flatten().unwrap_or_default();
        camera["jobs"].as_u64() >= Some(4)
    })?;
    ensure!(volume() == Some(0), "{:?}", volume());
    let program = dnn(&machine, &["--name=program"], JOBS)?;
    program
        .finish_dnn(BOUND, JOBS)
        .with_context(|| daemon.stderr())?;
    ensure!(volume() >= Some(32 * MIB), "{:?}", volume());
    let task = machine.task("camera")?.context("it is registered")?;
    ensure!(task["deadline_misses"] == 0, "{task}");
    camera.finish_dnn(BOUND, 2 * JOBS)?;
    ensure!(daemon.is_running(), "the daemon ended");
    Ok(())
}
