//! GPUs on which nothing can be swapped: programs run there as without rtswap, and are told why.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_secs(20);

fn machine(simgpu_toml: &str) -> Result<Machine> {
    Machine::new(MachineOptions {
        simgpu_toml: simgpu_toml.into(),
        daemon_toml: "[daemon]\nnvml_period_ms = 100\n".into(),
        ..MachineOptions::default()
    })
}

/// A program that would join, and is said why not; `is_seen` knows what `status` shows meanwhile.
fn runs_by_itself(
    machine: &Machine,
    reason: &str,
    is_seen: impl Fn(&Value, u32) -> bool,
) -> Result<()> {
    let mut command = machine.run(&["--name", "alone"], machine.dnn());
    command.args(["--json", "--memory", "20MiB", "--layers", "4"]);
    command.args(["--period", "100ms", "--jobs", "60"]);
    let program = Program::start(command)?;
    let pid = program.pid();
    wait_until("the daemon knows of it what it can", BOUND, || {
        let status = machine.status().unwrap_or_default();
        let task = machine.task("alone").ok().flatten().unwrap_or_default();
        let joined = task["pids"].as_array().is_some_and(|pids| !pids.is_empty());
        assert!(!joined, "{task}");
        is_seen(&status, pid)
    })?;
    let finished = program.finish(BOUND)?;
    ensure!(finished.stderr.contains(reason), "{}", finished.stderr);
    let report = finished.json()?;
    ensure!(
        report["checksum_errors"] == 0 && report["jobs"] == 60,
        "{report}"
    );
    Ok(())
}

#[test]
fn an_integrated_gpu_is_left_alone() -> Result<()> {
    let machine = machine("integrated = true")?;
    let _daemon = machine.daemon()?;
    runs_by_itself(&machine, "shares the host's memory", |status, _| {
        let said = status["left_alone"][0].as_str().unwrap_or_default();
        status["gpus"] == serde_json::json!([]) && said.contains("an integrated GPU")
    })
}

#[test]
fn a_gpu_without_virtual_memory_management_is_left_alone() -> Result<()> {
    let machine = machine("virtual_memory = false")?;
    let _daemon = machine.daemon()?;
    let reason = "no virtual memory management";
    runs_by_itself(&machine, reason, |status, pid| {
        let held = status["gpus"][0]["unmanaged_bytes"].as_u64();
        let processes = status["processes"].as_array().cloned().unwrap_or_default();
        held >= Some(20 << 20) && processes.iter().any(|it| it["pid"] == pid)
    })
}

#[test]
fn a_multi_process_server_is_said() -> Result<()> {
    let machine = machine("")?;
    let _daemon = machine.daemon()?;
    let notes = || machine.status().unwrap_or_default()["gpus"][0]["notes"].clone();
    ensure!(notes() == serde_json::json!([]), "{}", notes());
    let server = machine.path("nvidia-cuda-mps-server");
    std::fs::copy(machine.dnn(), &server)?;
    let mut command = machine.command(&server);
    command.args(["--json", "--memory", "4MiB", "--layers", "2"]);
    let mut server = Program::start(command)?;
    let said = || notes()[0].as_str().unwrap_or_default().to_owned();
    wait_until("the server is said", BOUND, || {
        said().contains("a multi-process server (MPS) runs")
    })?;
    server.kill()?;
    wait_until("it is said no more", BOUND, || said().is_empty())
}
