//! Two programs that do not fit together, and a daemon that dies meanwhile.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{USER, is_another, main_pid, status};
use crate::machine::Machine;
use crate::report::Report;

const NAMES: [&str; 2] = ["detect", "lanes"];
/// Of the 768 MiB of the simulated GPU.
const MEMORY: &str = "440MiB";
/// Long enough for a crash in the middle.
const JOBS: u64 = 9;

pub(super) fn check(report: &mut Report<'_>) {
    let Some(programs) = report.check(
        "rtswapctl run starts two programs that do not fit together",
        start,
    ) else {
        return;
    };
    report.check("their memory is swapped", swapped);
    report.check(
        "killed by SIGKILL, the daemon comes back and so do its sessions",
        crash,
    );
    report.check("every result of both is right", |_| {
        let mut named = programs.into_iter().zip(NAMES);
        named.try_for_each(|(program, name)| finish(program, name, JOBS))
    });
    report.check("they leave no process and no memory behind", gone);
}

fn start(machine: &Machine) -> Result<Vec<Child>> {
    let programs = NAMES.map(|name| program(machine, name, MEMORY, JOBS));
    machine.wait("two sessions", Duration::from_secs(20), sessions)?;
    programs.into_iter().collect()
}

/// Starts `jobs` jobs of the workload under rtswap, one in 3 s, as the ordinary user.
pub(super) fn program(machine: &Machine, name: &str, memory: &str, jobs: u64) -> Result<Child> {
    let mut command = command(machine, name, memory, "3s", jobs);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.context("nsenter")
}

/// The command that does so, one job in each `period`.
pub(super) fn command(
    machine: &Machine,
    name: &str,
    memory: &str,
    period: &str,
    jobs: u64,
) -> Command {
    let jobs = jobs.to_string();
    let run = [
        "rtswap-simgpu",
        "rtswapctl",
        "run",
        "--name",
        name,
        "--",
        "rtswap-dnn",
    ];
    let dnn = [
        "--memory", memory, "--period", period, "--jobs", &jobs, "--json",
    ];
    machine.command_as(USER, &[&run[..], &dnn].concat())
}

/// Whether both programs are there, each with its process.
fn sessions(machine: &Machine) -> Result<bool> {
    let status = status(machine)?;
    let attached = |name: &&str| task(&status, name).is_some_and(|task| task["pid"] != 0);
    Ok(NAMES.iter().all(attached))
}

/// The task of that name in a status.
pub(super) fn task<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    let tasks = status["tasks"].as_array()?;
    tasks.iter().find(|task| task["name"] == name)
}

fn swapped(machine: &Machine) -> Result<()> {
    machine.wait("both swapped", Duration::from_secs(30), |machine| {
        let status = status(machine)?;
        let out = |name: &&str| {
            let total = task(&status, name).and_then(|task| task["swap_out_bytes_total"].as_u64());
            total.is_some_and(|bytes| bytes > 0)
        };
        Ok(NAMES.iter().all(out))
    })
}

fn crash(machine: &Machine) -> Result<()> {
    let before = main_pid(machine)?;
    machine.run(&["kill", "-KILL", &before.to_string()])?.ok()?;
    machine.wait("another daemon", Duration::from_secs(10), |machine| {
        is_another(machine, before)
    })?;
    machine.wait("both sessions are back", Duration::from_secs(10), sessions)
}

/// Waits for a program's end: all its jobs were right.
pub(super) fn finish(program: Child, name: &str, jobs: u64) -> Result<()> {
    let output = program.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_str(&text)
        .with_context(|| format!("{name}: {}: {text}{complaint}", output.status))?;
    ensure!(
        output.status.success() && report["checksum_errors"] == 0 && report["jobs"] == jobs,
        "{name}: {report}"
    );
    Ok(())
}

/// The leases of their registrations ended with the daemon that died: until the claim timeout they may be claimed again.
fn gone(machine: &Machine) -> Result<()> {
    machine.wait(
        "no process and no memory",
        Duration::from_secs(30),
        |machine| {
            let status = status(machine)?;
            let tasks = status["tasks"].as_array().context("no tasks")?;
            ensure!(tasks.iter().all(|task| task["pid"] == 0), "{status}");
            let used = status["gpus"][0]["used_bytes"].as_u64();
            ensure!(used == Some(0), "{status}");
            Ok(true)
        },
    )
}
