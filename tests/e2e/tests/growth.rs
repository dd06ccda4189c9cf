//! A process without an agent that takes the GPU's memory away under tasks that were promised it: what
//! does not fit leaves before an allocation fails, and who is late is told why.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe, wait_until};

const BOUND: Duration = Duration::from_mins(1);
const MIB: u64 = 1 << 20;
const JOBS: u64 = 60;

fn task(machine: &Machine, name: &str, phase: &str) -> Result<Program> {
    let mut command = machine.run(
        &[
            "--name",
            name,
            "--period",
            "100ms",
            "--wcet",
            "30ms",
            "--footprint",
            "26MiB",
            "--swappable",
            "22MiB",
        ],
        machine.dnn(),
    );
    command.args(["--json", "--memory", "22MiB", "--layers", "4"]);
    command.args(["--period", "100ms", "--phase", phase, "--jobs"]);
    command.arg(JOBS.to_string());
    Program::start(command)
}

#[test]
fn who_grows_without_an_agent_is_made_room_for_and_named_as_the_cause() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        daemon_toml: "[daemon]\nnvml_period_ms = 100\n".into(),
        ..MachineOptions::default()
    })?;
    let mut daemon = machine.daemon()?;
    let tasks = [task(&machine, "one", "0s")?, task(&machine, "two", "50ms")?];
    let all = |test: &dyn Fn(&serde_json::Value) -> bool| {
        let status = machine.status().unwrap_or_default();
        let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
        tasks.len() == 2 && tasks.iter().all(test)
    };
    wait_until("both run", BOUND, || {
        all(&|task| task["jobs"].as_u64() >= Some(8))
    })?;
    let grower = probe("grower", &machine.path(""), &machine.driver_dir())?;
    let mut grower = Program::start(machine.command(grower))?;
    grower.wait_for_line("0 MiB", BOUND)?;
    let pid = grower.pid();
    // In granules of 2 MiB, until there is room for neither beside a reserve of 8: 14 MiB are left.
    for mib in 1..=20 {
        grower.say("\n")?;
        grower.wait_for_line(&format!("{mib} MiB"), BOUND)?;
        // What it takes between two looks comes out of the reserve: one step of it at a time.
        wait_until("room is made again", BOUND, || {
            let status = machine.status().unwrap_or_default();
            let gpu = &status["gpus"][0];
            let seen = gpu["unmanaged_bytes"].as_u64() == machine.process_bytes(pid, 0);
            let capacity = gpu["capacity_bytes"].as_u64();
            seen && capacity.is_some() && gpu["used_bytes"].as_u64() <= capacity
        })
        .with_context(|| daemon.stderr())?;
    }
    let held = machine.process_bytes(pid, 0).context("it holds memory")?;
    ensure!(held == 42 * MIB, "{held}");
    wait_until("what does not fit leaves", BOUND, || {
        let status = machine.status().unwrap_or_default();
        let gpu = &status["gpus"][0];
        let capacity = gpu["capacity_bytes"].as_u64();
        let fits = gpu["used_bytes"].as_u64() <= capacity && capacity == Some(14 * MIB);
        fits && all(&|task| task["swap_out_bytes_total"].as_u64() >= Some(12 * MIB))
    })
    .with_context(|| daemon.stderr())?;
    ensure!(!grower.stdout().contains("failed"), "{}", grower.stdout());
    grower.kill()?;
    for task in tasks {
        task.finish_dnn(BOUND, JOBS)?;
    }
    ensure!(daemon.is_running(), "the daemon ended");
    let cause = format!("most of it process {pid} (grower)");
    let log = daemon.stderr();
    let late: Vec<_> = log
        .lines()
        .filter(|line| line.contains("deadline missed"))
        .collect();
    ensure!(!late.is_empty(), "{log}");
    ensure!(late.iter().any(|line| line.contains(&cause)), "{log}");
    // No swap-in was given up for lack of memory.
    ensure!(!log.contains("OutOfMemory"), "{log}");
    Ok(())
}
