//! Programs that ask how much memory there is, and take what they are told.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, available_memory};

const BOUND: Duration = Duration::from_mins(4);
const MIB: u64 = 1 << 20;
/// What an agent counts for a context on 192 MiB: more than the simulated GPU takes.
const CONTEXT: u64 = 3 * MIB;

/// Starts a dnn that takes so many per cent of what it is told, and has a few jobs.
fn sized(machine: &Machine, name: &str, percent: u64, jobs: u64) -> Result<Program> {
    let mut command = machine.preloaded(machine.dnn());
    command.args(["--json", "--progress", "--layers", "8", "--period", "100ms"]);
    command.args(["--jobs", &jobs.to_string(), "--name", name]);
    command.args(["--hold", "--share", &percent.to_string()]);
    Program::start(command)
}

/// What it said that it takes, and of how much.
fn said(program: &Program) -> Result<(u64, u64)> {
    program.wait_for_complaint("takes ", BOUND)?;
    let stderr = program.stderr();
    let line = stderr.lines().find(|line| line.starts_with("takes "));
    let line = line.context("it says what it takes")?;
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    let next = numbers.next().zip(numbers.next());
    next.with_context(|| format!("two numbers in {line:?}"))
}

/// Starts so many at once, which all hold what they took until the last has had its jobs. Returns what each was
/// told.
fn all_at_once(machine: &Machine, count: usize, percent: u64, jobs: u64) -> Result<Vec<u64>> {
    let daemon = machine.daemon()?;
    let mut programs: Vec<_> = (0..count)
        .map(|at| sized(machine, &format!("program {at}"), percent, jobs))
        .collect::<Result<_>>()?;
    let told = programs.iter().map(|program| Ok(said(program)?.1));
    let told: Vec<_> = told.collect::<Result<_>>()?;
    for program in &mut programs {
        let reported = program.wait_for_line("checksum_errors", BOUND);
        reported.with_context(|| daemon.stderr())?;
    }
    for mut program in programs {
        program.end_input();
        let finished = program.finish(BOUND)?;
        let report = finished.json()?;
        ensure!(report["checksum_errors"] == 0, "{report}");
        ensure!(report["jobs"] == jobs, "{report}");
        ensure!(!finished.stderr.contains("refused"), "{}", finished.stderr);
    }
    Ok(told)
}

/// A GPU on which the contexts of twenty programs have room, and beside them about 120 MiB.
fn machine(daemon_toml: &str) -> Result<Machine> {
    Machine::new(MachineOptions {
        memory_mib: 192,
        daemon_toml: daemon_toml.into(),
        newcomers_reserve: Some(20 * CONTEXT),
        link_gib_per_s: 4.0,
        ..MachineOptions::default()
    })
}

#[test]
fn twenty_programs_that_take_all_that_they_are_told_get_it_and_run() -> Result<()> {
    let machine = machine("")?;
    let told = all_at_once(&machine, 20, 100, 2)?;
    println!("told: {told:?} bytes");
    // Each has the card for itself when it runs.
    let least = told.iter().min().context("twenty")?;
    ensure!(*least >= 100 * MIB, "{told:?}");
    Ok(())
}

#[test]
fn three_that_take_ninety_per_cent_each_get_that_and_run() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let told = all_at_once(&machine, 3, 90, 6)?;
    println!("told: {told:?} bytes");
    // Nearly all of the card: 64 MiB, less the driver's part, the contexts and room for those of others.
    ensure!(told.iter().all(|told| *told >= 48 * MIB), "{told:?}");
    Ok(())
}

#[test]
fn programs_that_start_together_share_what_the_host_can_back() -> Result<()> {
    // What the programs themselves and the GPU's memory take of the host is not to be known: there is room for more than
    // half of what all would take, and not for all.
    const BACKED: u64 = 1 << 30;
    const COUNT: usize = 16;
    let reserve = available_memory()?.saturating_sub(BACKED);
    let machine = machine(&format!("[daemon]\nhost_reserve = {reserve}\n"))?;
    let told = all_at_once(&machine, COUNT, 100, 1)?;
    println!("told: {told:?} bytes");
    let sum: u64 = told.iter().sum();
    // A backing store is a quarter larger than what it is for.
    ensure!(sum <= BACKED / 5 * 4 + 192 * MIB, "{sum} bytes: {told:?}");
    ensure!(told.iter().all(|told| *told >= 4 * MIB), "{told:?}");
    Ok(())
}
