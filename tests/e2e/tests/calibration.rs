//! What was measured on a GPU, from the call to the programs that swap by it.
#![allow(missing_docs)]

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_dbus::{Error, Manager1Proxy};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);
const MIB: u64 = 1 << 20;

/// A GPU of 64 MiB that no file describes.
fn machine() -> Result<Machine> {
    Machine::new(MachineOptions {
        described: false,
        ..MachineOptions::default()
    })
}

/// A calibration of the only GPU, with δ of so many MiB.
fn text(machine: &Machine, chunk_mib: u64) -> Result<String> {
    let uuids = machine.uuids()?;
    let gpu = uuids.first().context("no GPU")?;
    let cost = "base_us = 500\nper_chunk_us = 500\ngib_per_s = 0.7\n";
    Ok(format!(
        "version = 1\ngpu = \"{gpu}\"\nmeasured = 2026-11-27T13:00:00Z\nchunk = \"{chunk_mib}MiB\"\nduplex = 0.9\n\
         [swap_cost.out]\n{cost}[swap_cost.in]\n{cost}"
    ))
}

/// `Manager1.SetCalibration`.
fn set(machine: &Machine, text: &str) -> Result<Result<bool, Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let connection = rtswap_dbus::find(Some(&machine.runtime_dir())).await?;
        let manager = Manager1Proxy::new(&connection).await?;
        Ok(manager.set_calibration(text).await)
    })
}

fn gpu(machine: &Machine) -> Result<Value> {
    let status = machine.status()?;
    let gpus = status["gpus"].as_array().context("no gpus")?;
    gpus.first().cloned().context("no GPU is known")
}

/// Whether δ is of so many MiB, by that source.
fn rests_on(machine: &Machine, source: &str, chunk_mib: u64) -> bool {
    gpu(machine)
        .is_ok_and(|gpu| gpu["swap_cost_source"] == source && gpu["chunk_bytes"] == chunk_mib * MIB)
}

/// Starts a workload of 40 MiB: two of them do not fit together.
fn start(machine: &Machine, name: &str, jobs: u64) -> Result<Program> {
    let mut command = machine.run(&["--name", name], machine.dnn());
    command.args(["--json", "--memory", "40MiB", "--layers", "4"]);
    command.args(["--period", "100ms", "--jobs", &jobs.to_string()]);
    Program::start(command)
}

/// Two programs that swap; each finds its data as it left it.
fn swap(machine: &Machine) -> Result<()> {
    let programs = [start(machine, "one", 5)?, start(machine, "two", 5)?];
    for program in programs {
        program.finish_dnn(BOUND, 5)?;
    }
    Ok(())
}

#[test]
fn what_was_measured_counts_at_once_and_is_kept() -> Result<()> {
    let machine = machine()?;
    let daemon = machine.daemon()?;
    wait_until("a GPU by NVML", BOUND, || rests_on(&machine, "assumed", 16))?;
    ensure!(gpu(&machine)?["calibrated_us"].is_null());
    ensure!(set(&machine, &text(&machine, 4)?)??, "nobody is there");
    ensure!(rests_on(&machine, "calibrated", 4), "{}", gpu(&machine)?);
    let shown = gpu(&machine)?;
    ensure!(shown["calibrated_us"] == 1_795_784_400_000_000_u64 && shown["duplex"] == 0.9);
    swap(&machine)?;
    drop(daemon);
    let _again = machine.daemon()?;
    wait_until("the calibration after a restart", BOUND, || {
        rests_on(&machine, "calibrated", 4)
    })?;
    swap(&machine)
}

#[test]
fn it_waits_for_the_programs_that_began_before_it() -> Result<()> {
    let machine = machine()?;
    let daemon = machine.daemon()?;
    wait_until("a GPU by NVML", BOUND, || rests_on(&machine, "assumed", 16))?;
    let mut program = start(&machine, "one", 1_000_000)?;
    wait_until(
        "a session",
        BOUND,
        || matches!(machine.task("one"), Ok(Some(task)) if task["jobs"].as_u64() > Some(2)),
    )?;
    ensure!(!set(&machine, &text(&machine, 4)?)??, "a program is there");
    ensure!(rests_on(&machine, "assumed", 16), "{}", gpu(&machine)?);
    // Its chunks outlive the daemon.
    drop(daemon);
    let _again = machine.daemon()?;
    wait_until("the GPU again", BOUND, || gpu(&machine).is_ok())?;
    ensure!(rests_on(&machine, "assumed", 16), "{}", gpu(&machine)?);
    program.kill()?;
    wait_until("the calibration", BOUND, || {
        rests_on(&machine, "calibrated", 4)
    })?;
    swap(&machine)
}

#[test]
fn what_is_no_calibration_of_this_machine_changes_nothing() -> Result<()> {
    let machine = machine()?;
    let daemon = machine.daemon()?;
    wait_until("a GPU by NVML", BOUND, || rests_on(&machine, "assumed", 16))?;
    let good = text(&machine, 4)?;
    let refusal = |text: &str| match set(&machine, text) {
        Ok(Err(error)) => Ok(error.to_string()),
        other => anyhow::bail!("{other:?}"),
    };
    let error = refusal(&good.replace("duplex", "duplx"))?;
    ensure!(error.contains("did you mean duplex?"), "{error}");
    let stranger = "GPU-01234567-89ab-cdef-0123-456789abcdef";
    let own = &machine.uuids()?[0];
    let error = refusal(&good.replace(own, stranger))?;
    ensure!(error.contains(stranger) && error.contains(own), "{error}");
    ensure!(rests_on(&machine, "assumed", 16), "{}", gpu(&machine)?);
    ensure!(set(&machine, &good)??);
    // A file that is broken keeps no daemon from its start.
    drop(daemon);
    let kept = machine.runtime_dir().join("calibration");
    fs::write(kept.join(format!("{own}.toml")), "version = 7\n")?;
    let daemon = machine.daemon()?;
    wait_until("the GPU without it", BOUND, || {
        rests_on(&machine, "assumed", 16)
    })?;
    ensure!(daemon.stderr().contains("version 7 is not known"));
    Ok(())
}
