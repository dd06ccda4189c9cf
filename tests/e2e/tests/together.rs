//! Several processes of one task: gated together, swapped together, one task to everybody else.
#![allow(missing_docs)]

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Verdict, probe, until_judged, wait_until};

const BOUND: Duration = Duration::from_mins(1);
const TEAM: &str = "team";

/// A GPU of 64 MiB, and a task of which only the registration runs: it holds the lease.
fn team() -> Result<(Machine, Program, Program)> {
    let machine = Machine::new(MachineOptions {
        link_gib_per_s: 0.5,
        ..MachineOptions::default()
    })?;
    let daemon = machine.daemon()?;
    let mut holder = machine.run(&["--name", TEAM], "sleep");
    holder.arg("600");
    let holder = Program::start(holder)?;
    wait_until("the task is registered", BOUND, || {
        machine.task(TEAM).is_ok_and(|task| task.is_some())
    })?;
    Ok((machine, daemon, holder))
}

fn dnn(mut command: Command, seed: u32, mib: u32, jobs: u32) -> Result<Program> {
    let (memory, seed, jobs) = (format!("{mib}MiB"), seed.to_string(), jobs.to_string());
    command.args(["--json", "--memory", &memory, "--layers", "4"]);
    command.args(["--seed", &seed, "--period", "150ms", "--jobs", &jobs]);
    Program::start(command)
}

/// One process of the task.
fn member(machine: &Machine, seed: u32, mib: u32, jobs: u32) -> Result<Program> {
    let mut command = machine.preloaded(machine.dnn());
    command.env("RTSWAP_TASK", TEAM);
    dnn(command, seed, mib, jobs)
}

fn other(machine: &Machine, jobs: u32) -> Result<Program> {
    dnn(
        machine.run(&["--name", "other"], machine.dnn()),
        9,
        40,
        jobs,
    )
}

fn pids(machine: &Machine) -> Vec<u64> {
    let task = machine.task(TEAM).ok().flatten().unwrap_or_default();
    let pids = task["pids"].as_array().cloned().unwrap_or_default();
    pids.iter().filter_map(serde_json::Value::as_u64).collect()
}

fn number(machine: &Machine, name: &str, key: &str) -> Option<u64> {
    machine.task(name).ok().flatten()?[key].as_u64()
}

fn ends_well(program: Program, jobs: u32) -> Result<()> {
    program.finish_dnn(BOUND, jobs.into())?;
    Ok(())
}

/// How much of it has left the GPU.
fn moved(machine: &Machine, pid: u32) -> u64 {
    machine.counters(pid).map_or(0, |counted| counted.d2h_bytes)
}

#[test]
fn two_processes_are_one_task_to_another() -> Result<()> {
    until_judged("two processes and another task", two_and_another)
}

fn two_and_another() -> Result<Verdict> {
    let (machine, mut daemon, mut holder) = team()?;
    let one = member(&machine, 1, 20, 20)?;
    let two = member(&machine, 2, 20, 20)?;
    let other = other(&machine, 20)?;
    let (one_pid, two_pid) = (one.pid(), two.pid());
    wait_until("both are there", BOUND, || pids(&machine).len() == 2)?;
    ensure!(number(&machine, TEAM, "pid") == Some(pids(&machine)[0]));
    wait_until("both have left", BOUND, || {
        moved(&machine, one_pid) > 0 && moved(&machine, two_pid) > 0
    })?;
    ends_well(one, 20)?;
    ends_well(two, 20)?;
    ends_well(other, 20)?;
    wait_until("nobody is left", BOUND, || pids(&machine).is_empty())?;
    let verdict = daemon.judge_warnings()?;
    wait_until("the GPU is empty", BOUND, || {
        machine.used_bytes(0) == Some(0)
    })?;
    holder.kill()?;
    ensure!(daemon.is_running());
    Ok(verdict)
}

#[test]
fn one_that_comes_late_joins_a_task_that_is_out() -> Result<()> {
    until_judged("a process that joins late", join_late)
}

fn join_late() -> Result<Verdict> {
    let (machine, daemon, _holder) = team()?;
    let one = member(&machine, 1, 24, 25)?;
    let other = other(&machine, 25)?;
    wait_until("the task is out", BOUND, || {
        number(&machine, TEAM, "swapped_bytes") >= Some(4 << 20)
    })?;
    let late = member(&machine, 3, 8, 8)?;
    ends_well(late, 8)?;
    ends_well(one, 25)?;
    ends_well(other, 25)?;
    daemon.judge_warnings()
}

#[test]
fn one_that_is_killed_amid_a_swap_leaves_the_others_running() -> Result<()> {
    let (machine, mut daemon, _holder) = team()?;
    let survivor = member(&machine, 1, 20, 30)?;
    let mut victim = member(&machine, 2, 20, 1000)?;
    let other = other(&machine, 30)?;
    let (survivor_pid, victim_pid) = (survivor.pid(), victim.pid());
    wait_until("both are there", BOUND, || pids(&machine).len() == 2)?;
    let before = moved(&machine, victim_pid);
    wait_until("the victim swaps out", BOUND, || {
        moved(&machine, victim_pid) > before
    })?;
    victim.kill()?;
    wait_until("the daemon forgets the victim", BOUND, || {
        pids(&machine) == [u64::from(survivor_pid)]
    })?;
    ends_well(survivor, 30)?;
    ends_well(other, 30)?;
    wait_until("the GPU is empty", BOUND, || {
        machine.used_bytes(0) == Some(0)
    })?;
    ensure!(daemon.is_running());
    Ok(())
}

#[test]
fn a_killed_daemon_comes_back_to_both() -> Result<()> {
    let (machine, mut daemon, _holder) = team()?;
    let one = member(&machine, 1, 20, 80)?;
    let two = member(&machine, 2, 20, 80)?;
    let other = other(&machine, 80)?;
    for _ in 0..3 {
        let ran = wait_until("all have run jobs", BOUND, || {
            number(&machine, TEAM, "jobs") >= Some(4)
                && number(&machine, "other", "jobs") >= Some(2)
        });
        ran.with_context(|| {
            let programs = [&one, &two, &other].map(Program::stderr);
            format!("{}\n{programs:?}\n{:?}", daemon.stderr(), machine.status())
        })?;
        daemon.kill()?;
        daemon = machine.daemon()?;
        wait_until("both are back", BOUND, || pids(&machine).len() == 2)?;
    }
    ends_well(one, 80)?;
    ends_well(two, 80)?;
    ends_well(other, 80)?;
    ensure!(daemon.is_running());
    Ok(())
}

/// While another task takes the GPU from them again and again.
#[test]
fn those_that_wait_for_each_other_run_together() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let mut daemon = machine.daemon()?;
    let program = probe("lockstep", &machine.path(""), &machine.driver_dir())?;
    let mut command = machine.run(&["--name", "lockstep"], program);
    command.arg("100");
    let lockstep = Program::start(command)?;
    let other = other(&machine, 10)?;
    let report = lockstep.finish(BOUND)?.json()?;
    ensure!(
        report["steps"] == 100 && report["wrong_words"] == 0,
        "{report}"
    );
    ends_well(other, 10)?;
    ensure!(daemon.is_running());
    Ok(())
}

/// A realtime task's processes run once each in a job of the task: as many as each has declared.
#[test]
fn declared_jobs_of_two_are_counted_together() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let mut holder = machine.run(
        &[
            "--name",
            TEAM,
            "--period",
            "40ms",
            "--wcet",
            "15ms",
            "--footprint",
            "24MiB",
            "--swappable",
            "0",
        ],
        "sleep",
    );
    holder.arg("600");
    let program = probe("declared", &machine.path(""), &machine.driver_dir())?;
    let _holder = Program::start(holder)?;
    wait_until("the task is registered", BOUND, || {
        machine.task(TEAM).is_ok_and(|task| task.is_some())
    })?;
    let mut all = Vec::new();
    for _ in 0..2 {
        let mut command = machine.preloaded(&program);
        command.env("RTSWAP_TASK", TEAM).arg("20");
        all.push(Program::start(command)?);
    }
    for program in &mut all {
        program.wait_for_line("ready", BOUND)?;
    }
    let jobs = || number(&machine, TEAM, "jobs");
    // Status follows within moments.
    wait_until("all jobs are counted", BOUND, || jobs() >= Some(20))?;
    for mut program in all {
        program.say("\n")?;
        ensure!(program.finish(BOUND)?.json()?["wrong_words"] == 0);
    }
    // The copy back at the end may be a job of each.
    ensure!(jobs() <= Some(42), "{:?} jobs", jobs());
    Ok(())
}
