//! What the daemon says of the costs that its promises rest on.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Verdict, until_judged, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);
const JOBS: u32 = 12;

/// A GPU of 64 MiB; `further` goes into the simulated GPU's file.
fn machine(further: &str, described: bool) -> Result<Machine> {
    Machine::new(MachineOptions {
        link_gib_per_s: 0.5,
        simgpu_toml: further.to_owned(),
        described,
        ..MachineOptions::default()
    })
}

/// Two programs that do not fit together: each job of either swaps.
fn alternate(machine: &Machine) -> Result<Vec<Program>> {
    let programs = [("one", "1"), ("two", "2")].map(|(name, seed)| {
        let mut command = machine.run(&["--name", name], machine.dnn());
        command.args([
            "--json", "--memory", "40MiB", "--layers", "4", "--seed", seed,
        ]);
        command.args(["--period", "200ms", "--jobs", &JOBS.to_string()]);
        Program::start(command)
    });
    programs.into_iter().collect()
}

fn gpu(machine: &Machine) -> Result<Value> {
    let status = machine.status()?;
    let gpus = status["gpus"].as_array().context("no gpus")?;
    gpus.first().cloned().context("no GPU is known")
}

/// The note of the GPU that swaps depart from their costs.
fn note(machine: &Machine) -> Result<Option<String>> {
    let gpu = gpu(machine)?;
    let mut notes = gpu["notes"].as_array().into_iter().flatten();
    let note = notes.find_map(|note| note.as_str().filter(|note| note.starts_with("swaps ")));
    Ok(note.map(str::to_owned))
}

#[test]
fn a_link_that_is_slower_than_its_costs_is_noted() -> Result<()> {
    // Each copy takes 15 ms more than the costs know of.
    let machine = machine("copy_us = 15000.0", true)?;
    let daemon = machine.daemon()?;
    let programs = alternate(&machine)?;
    wait_until("a note", BOUND, || matches!(note(&machine), Ok(Some(_))))?;
    let said = note(&machine)?.context("the note is gone")?;
    ensure!(said.contains("no deadline is sure"), "{said}");
    ensure!(daemon.stderr().contains("take longer than their cost says"));
    ensure!(gpu(&machine)?["swap_cost_source"] == "configured");
    for program in programs {
        program.finish_dnn(BOUND, JOBS.into())?;
    }
    Ok(())
}

#[test]
fn swaps_as_fast_as_their_costs_are_not_noted() -> Result<()> {
    until_judged("swaps as fast as their costs", as_fast)
}

fn as_fast() -> Result<Verdict> {
    let machine = machine("", true)?;
    let _daemon = machine.daemon()?;
    for program in alternate(&machine)? {
        program.finish_dnn(BOUND, JOBS.into())?;
    }
    // A busy host makes swaps slow, too, but hardly in three runs.
    Ok(note(&machine)?.map_or(Verdict::Judged, Verdict::Unjudged))
}

#[test]
fn costs_that_nobody_measured_are_called_assumed() -> Result<()> {
    let machine = machine("", false)?;
    let _daemon = machine.daemon()?;
    wait_until("a GPU by NVML", BOUND, || gpu(&machine).is_ok())?;
    ensure!(gpu(&machine)?["swap_cost_source"] == "assumed");
    Ok(())
}
