//! Programs in a cgroup with a memory limit, as `MemoryMax=` of a service makes it. The memory of the simulated GPU
//! counts in it too, other than that of a real one.
#![allow(missing_docs)]

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, MemoryCgroup, Program};

const BOUND: Duration = Duration::from_mins(2);
const MIB: u64 = 1 << 20;

/// A dnn that holds its memory until its input ends, with `more` arguments.
fn dnn(machine: &Machine, name: &str, more: &[&str]) -> Command {
    let mut command = machine.preloaded(machine.dnn());
    command.args(["--json", "--progress", "--layers", "4", "--period", "50ms"]);
    command.args(["--jobs", "20", "--name", name, "--hold"]);
    command.args(more);
    command
}

/// The bytes that it was told.
fn told(program: &Program) -> Result<u64> {
    program.wait_for_complaint("takes ", BOUND)?;
    let stderr = program.stderr();
    let line = stderr.lines().find(|line| line.starts_with("takes "));
    let mut numbers = line.into_iter().flat_map(|line| line.split(' '));
    let told = numbers.rfind(|word| word.parse::<u64>().is_ok());
    Ok(told
        .context("it says of how much it takes a part")?
        .parse()?)
}

/// All have their jobs, with no wrong byte.
fn finish(programs: Vec<Program>) -> Result<()> {
    for mut program in programs {
        program.wait_for_line("checksum_errors", BOUND)?;
        program.end_input();
        let report = program.finish(BOUND)?.json()?;
        ensure!(
            report["checksum_errors"] == 0 && report["jobs"] == 20,
            "{report}"
        );
    }
    Ok(())
}

#[test]
fn programs_of_a_service_are_told_what_its_limit_can_back() -> Result<()> {
    const LIMIT: u64 = 230 * MIB;
    let Some(cgroup) = MemoryCgroup::make("told", LIMIT) else {
        return Ok(());
    };
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    let mut programs = Vec::new();
    let mut sizes = Vec::new();
    for name in ["first", "second", "third", "fourth"] {
        let command = dnn(&machine, name, &["--share", "100"]);
        let program = Program::start(cgroup.enter(&command))?;
        sizes.push(told(&program)?);
        program
            .wait_for_complaint("job 1", BOUND)
            .with_context(|| daemon.stderr())?;
        programs.push(program);
    }
    println!("told: {sizes:?} of {LIMIT}");
    // A backing store is a quarter larger than what it is for.
    let stores: u64 = sizes.iter().map(|size| size / 4 * 5).sum();
    ensure!(stores <= LIMIT, "{sizes:?}");
    ensure!(sizes[0] >= 48 * MIB && sizes[3] < sizes[0] / 2, "{sizes:?}");
    let greedy = dnn(&machine, "greedy", &["--memory", "50MiB"]);
    let greedy = Program::start(cgroup.enter(&greedy))?.finish(BOUND)?;
    ensure!(!greedy.status.success(), "{}", greedy.stdout);
    let reason = format!("the memory limit of {} leaves", cgroup.folder().display());
    ensure!(greedy.stderr.contains(&reason), "{}", greedy.stderr);
    finish(programs)?;
    ensure!(cgroup.killed()? == 0, "{} killed", cgroup.killed()?);
    Ok(())
}

#[test]
fn no_more_is_pinned_than_the_limit_leaves() -> Result<()> {
    let Some(cgroup) = MemoryCgroup::make("pinned", 40 * MIB) else {
        return Ok(());
    };
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    // Alone it may have all of the GPU, for which its limit has no store.
    let command = dnn(&machine, "large", &["--share", "100"]);
    let large = Program::start(cgroup.enter(&command))?;
    let size = told(&large)?;
    ensure!(size >= 48 * MIB, "told {size}");
    large.wait_for_complaint("job 1", BOUND)?;
    let small = Program::start(dnn(&machine, "small", &["--memory", "10MiB"]))?;
    small
        .wait_for_complaint("job 1", BOUND)
        .with_context(|| daemon.stderr())?;
    finish(vec![large, small])?;
    ensure!(cgroup.killed()? == 0, "{} killed", cgroup.killed()?);
    let stderr = daemon.stderr();
    let is_said = stderr.contains("allows a backing store of");
    ensure!(is_said, "{stderr}");
    Ok(())
}
