//! Another process takes the host's memory: who gives way, in which order.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, available_memory, wait_until};

const BOUND: Duration = Duration::from_mins(2);
const MIB: u64 = 1 << 20;
/// What the host can spare before it is short.
const SPARE: u64 = 2 << 30;
/// What the other process takes.
const TAKEN: usize = 4 << 30;

/// A dnn with 10 MiB and a job each `period`.
fn dnn(machine: &Machine, name: &str, period: &str, jobs: u64) -> Result<Program> {
    let mut command = machine.run(&[&format!("--name={name}")], machine.dnn());
    command.args(["--json", "--progress", "--layers", "2", "--memory", "10MiB"]);
    command.args([
        "--period",
        period,
        "--warmup",
        "0",
        "--jobs",
        &jobs.to_string(),
    ]);
    Program::start(command)
}

fn store(machine: &Machine, name: &str) -> u64 {
    let task = machine.task(name).ok().flatten();
    task.and_then(|task| task["backing_bytes"].as_u64())
        .unwrap_or(u64::MAX)
}

fn is_noted(machine: &Machine) -> bool {
    let notes = machine.status().unwrap_or_default()["gpus"][0]["notes"].to_string();
    notes.contains("host memory is short")
}

#[test]
fn idle_tasks_give_back_stores_that_hold_nothing_and_no_byte_is_lost() -> Result<()> {
    let reserve = available_memory()?.saturating_sub(SPARE);
    let machine = Machine::new(MachineOptions {
        daemon_toml: format!("[daemon]\nhost_reserve = {reserve}\n"),
        ..MachineOptions::default()
    })?;
    let mut daemon = machine.daemon()?;
    // Each has its first jobs, then idles until after the scene.
    let first = dnn(&machine, "first", "30s", 2)?;
    first.wait_for_complaint("job 1", BOUND)?;
    let second = dnn(&machine, "second", "30s", 2)?;
    second.wait_for_complaint("job 1", BOUND)?;
    let busy = dnn(&machine, "busy", "100ms", 250)?;
    busy.wait_for_complaint("job 1", BOUND)?;
    for name in ["first", "second", "busy"] {
        wait_until(&format!("{name} has a store"), BOUND, || {
            (10 * MIB..u64::MAX).contains(&store(&machine, name))
        })?;
    }
    ensure!(!is_noted(&machine), "short before anybody took memory");

    // This process is the other one.
    let taken = vec![1_u8; TAKEN];
    let mut order = Vec::new();
    wait_until("both idle tasks have given back", BOUND, || {
        for name in ["first", "second", "busy"] {
            if store(&machine, name) == 0 && !order.contains(&name) {
                order.push(name);
            }
        }
        order.len() == 2
    })
    .with_context(|| daemon.stderr())?;
    println!("gave back: {order:?}");
    ensure!(order == ["first", "second"], "{order:?}");
    ensure!(store(&machine, "busy") >= 10 * MIB, "it is not idle");
    ensure!(is_noted(&machine), "status does not tell");

    // What would need more store than there is, is refused, and told why.
    let refused = {
        let mut command = machine.run(&["--name=large"], machine.dnn());
        command.args(["--memory", "40MiB", "--jobs", "1"]);
        Program::start(command)?.finish(BOUND)?
    };
    ensure!(!refused.status.success(), "{}", refused.stdout);
    let told = refused.stderr.contains("the host has");
    ensure!(told, "{}", refused.stderr);

    drop(std::hint::black_box(taken));
    wait_until("stores are back", BOUND, || {
        ["first", "second"]
            .iter()
            .all(|name| (10 * MIB..u64::MAX).contains(&store(&machine, name)))
    })
    .with_context(|| daemon.stderr())?;
    ensure!(!is_noted(&machine), "short although the memory is back");

    // All leave and come back.
    let large = dnn_large(&machine)?;
    large.finish_dnn(BOUND, 3)?;
    for (program, jobs) in [(first, 2), (second, 2), (busy, 250)] {
        program.finish_dnn(BOUND, jobs)?;
    }
    ensure!(daemon.is_running(), "{}", daemon.stderr());
    let stderr = daemon.stderr();
    ensure!(
        stderr.contains("host memory is no longer short"),
        "{stderr}"
    );
    Ok(())
}

/// One that fits only beside little else.
fn dnn_large(machine: &Machine) -> Result<Program> {
    let mut command = machine.run(&["--name=large"], machine.dnn());
    command.args([
        "--json", "--layers", "4", "--memory", "36MiB", "--period", "300ms", "--jobs", "3",
    ]);
    Program::start(command)
}
