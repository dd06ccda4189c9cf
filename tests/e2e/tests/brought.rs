//! What a process has kept on the GPU beyond its daemon's end, and nobody but itself knows of.
#![allow(missing_docs)]

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const BOUND: Duration = Duration::from_mins(1);
const JOBS: u64 = 40;

fn dnn(mut command: std::process::Command, mib: u64, jobs: u64) -> Result<Program> {
    command.args(["--json", "--memory", &format!("{mib}MiB"), "--layers", "4"]);
    command.args(["--period", "100ms", "--jobs", &jobs.to_string()]);
    Program::start(command)
}

fn send(program: &Program, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(program.pid().cast_signed()).context("a process")?;
    Ok(kill_process(pid, signal)?)
}

/// The MiB that a program has on the GPU, without its context.
fn allocated(machine: &Machine, program: &Program) -> u64 {
    machine.allocated_bytes(program.pid(), 0).unwrap_or(0) >> 20
}

#[test]
fn without_a_witness_and_without_room_it_leaves_the_gpu_and_comes_back() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 128,
        ..MachineOptions::default()
    })?;
    // No NVML and no probes: nobody but the agent says what a process holds.
    fs::remove_file(machine.driver_dir().join("libnvidia-ml.so.1"))?;
    let mut daemon = machine.daemon()?;
    let first = dnn(machine.preloaded(machine.dnn()), 62, JOBS)?;
    wait_until("it computes", BOUND, || {
        let counters = machine.counters(first.pid());
        counters.is_some_and(|counters| counters.launches > 8)
    })?;
    send(&first, Signal::STOP)?;
    daemon.kill()?;
    // The next daemon knows nothing of the first program, and another takes what it believes free.
    for file in ["state", "state.journal"] {
        fs::remove_file(machine.runtime_dir().join(file)).with_context(|| file)?;
    }
    let daemon = machine.daemon()?;
    let realtime = [
        "--name=second",
        "--period=100ms",
        "--wcet=40ms",
        "--footprint=58MiB",
        "--swappable=0",
    ];
    let mut second = dnn(machine.run(&realtime, machine.dnn()), 52, 100_000)?;
    let jobs = || {
        let task = machine.task("second").ok().flatten().unwrap_or_default();
        task["jobs"].as_u64().unwrap_or_default()
    };
    wait_until("the second runs", BOUND, || jobs() >= 5)?;
    ensure!(allocated(&machine, &first) >= 60);
    send(&first, Signal::CONT)?;
    let left = wait_until("it leaves", BOUND, || allocated(&machine, &first) == 0);
    left.with_context(|| daemon.stderr())?;
    let before = jobs();
    wait_until("the second goes on", BOUND, || jobs() > before + 5)?;
    ensure!(allocated(&machine, &first) == 0, "there is no room for it");
    ensure!(second.is_running(), "{}", second.stderr());
    second.kill()?;
    // All of it is as it was.
    first.finish_dnn(BOUND, JOBS)?;
    // A busy machine makes jobs late, but nothing makes an honest agent say what cannot be.
    let said = daemon.stderr();
    for kind in ["over-budget", "senseless"] {
        ensure!(!said.contains(kind), "{said}");
    }
    Ok(())
}
