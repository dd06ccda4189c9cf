//! Programs outlive the daemon, and do without it.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);

fn dnn(mut command: std::process::Command, name: &str, jobs: u32) -> Result<Program> {
    command.args([
        "--json", "--name", name, "--memory", "40MiB", "--layers", "8",
    ]);
    command.args(["--period", "400ms", "--jobs", &jobs.to_string()]);
    Program::start(command)
}

#[test]
fn without_a_daemon_a_program_runs_as_if_rtswap_were_not_there() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let plain = dnn(machine.command(machine.dnn()), "plain", 3)?;
    let plain_pid = plain.pid();
    let plain = plain.finish(BOUND)?;
    let preloaded = dnn(machine.preloaded(machine.dnn()), "preloaded", 3)?;
    let preloaded_pid = preloaded.pid();
    let preloaded = preloaded.finish(BOUND)?;
    ensure!(
        preloaded.stderr == plain.stderr,
        "it said: {}",
        preloaded.stderr
    );
    ensure!(preloaded.json()?["checksum_errors"] == 0);
    // The driver saw the same calls from both, to the byte.
    ensure!(machine.counters(plain_pid) == machine.counters(preloaded_pid));
    Ok(())
}

#[test]
fn a_daemon_started_later_takes_the_next_program_and_leaves_the_first_alone() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 128,
        ..MachineOptions::default()
    })?;
    let early = dnn(machine.preloaded(machine.dnn()), "early", 12)?;
    let early_pid = early.pid();
    wait_until("the early program computes", BOUND, || {
        machine
            .counters(early_pid)
            .is_some_and(|counters| counters.launches > 0)
    })?;
    let _daemon = machine.daemon()?;
    let late = dnn(machine.preloaded(machine.dnn()), "late", 12)?;
    let late_pid = u64::from(late.pid());
    let mut status = Value::Null;
    wait_until("the late program has a session", BOUND, || {
        status = machine.status().unwrap_or_default();
        let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
        tasks.iter().any(|task| task["pid"] == late_pid)
    })?;
    ensure!(
        status["tasks"]
            .as_array()
            .is_some_and(|tasks| tasks.len() == 1),
        "{status}"
    );
    ensure!(early.finish(BOUND)?.json()?["checksum_errors"] == 0);
    ensure!(late.finish(BOUND)?.json()?["checksum_errors"] == 0);
    Ok(())
}

#[test]
fn a_killed_daemon_comes_back_to_the_same_tasks() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        link_gib_per_s: 0.5,
        ..MachineOptions::default()
    })?;
    let mut daemon = machine.daemon()?;
    let first = dnn(
        machine.run(&["--name", "first"], machine.dnn()),
        "first",
        25,
    )?;
    let second = dnn(
        machine.run(&["--name", "second"], machine.dnn()),
        "second",
        25,
    )?;
    let jobs = |name: &str| {
        machine
            .task(name)
            .ok()
            .flatten()
            .and_then(|task| task["jobs"].as_u64())
    };
    for round in 0..3 {
        wait_until("both have run jobs", BOUND, || {
            jobs("first").is_some_and(|n| n >= 2) && jobs("second").is_some_and(|n| n >= 2)
        })?;
        daemon.kill()?;
        daemon = machine.daemon()?;
        for name in ["first", "second"] {
            wait_until(
                &format!("{name} is back after restart {round}"),
                BOUND,
                || {
                    machine
                        .task(name)
                        .ok()
                        .flatten()
                        .is_some_and(|task| task["pid"].as_u64() > Some(0))
                },
            )?;
        }
    }
    for program in [first, second] {
        program.finish_dnn(BOUND, 25)?;
    }
    Ok(())
}

#[test]
fn when_the_daemon_never_comes_back_the_program_goes_on_alone() -> Result<()> {
    let daemon_toml = "[daemon]\norphan_timeout_ms = 500\n".to_owned();
    let machine = Machine::new(MachineOptions {
        daemon_toml,
        ..MachineOptions::default()
    })?;
    let mut daemon = machine.daemon()?;
    let orphan = dnn(machine.preloaded(machine.dnn()), "orphan", 12)?;
    let pid = orphan.pid();
    wait_until("it computes", BOUND, || {
        machine
            .counters(pid)
            .is_some_and(|counters| counters.launches > 20)
    })?;
    daemon.kill()?;
    orphan.finish_dnn(BOUND, 12)?;
    Ok(())
}
