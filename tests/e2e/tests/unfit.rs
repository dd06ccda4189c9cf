//! GPUs on which nothing can be swapped: programs run there as without rtswap, and are told why.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};

const BOUND: Duration = Duration::from_secs(20);

fn runs_by_itself(simgpu_toml: &str, reason: &str) -> Result<()> {
    let machine = Machine::new(MachineOptions {
        simgpu_toml: simgpu_toml.into(),
        daemon_toml: "[daemon]\nnvml_period_ms = 100\n".into(),
        ..MachineOptions::default()
    })?;
    let _daemon = machine.daemon()?;
    let mut command = machine.run(&["--name", "alone"], machine.dnn());
    command.args(["--json", "--memory", "20MiB", "--layers", "4"]);
    command.args(["--period", "100ms", "--jobs", "30"]);
    let program = Program::start(command)?;
    let pid = program.pid();
    wait_until("it counts as one without an agent", BOUND, || {
        let status = machine.status().unwrap_or_default();
        let held = status["gpus"][0]["unmanaged_bytes"].as_u64();
        let processes = status["processes"].as_array().cloned().unwrap_or_default();
        let task = machine.task("alone").ok().flatten().unwrap_or_default();
        let joined = task["pids"].as_array().is_some_and(|pids| !pids.is_empty());
        assert!(!joined, "{task}");
        held >= Some(20 << 20) && processes.iter().any(|it| it["pid"] == pid)
    })?;
    let finished = program.finish(BOUND)?;
    ensure!(finished.stderr.contains(reason), "{}", finished.stderr);
    let report = finished.json()?;
    ensure!(
        report["checksum_errors"] == 0 && report["jobs"] == 30,
        "{report}"
    );
    Ok(())
}

#[test]
fn an_integrated_gpu_is_left_alone() -> Result<()> {
    runs_by_itself("integrated = true", "shares the host's memory")
}

#[test]
fn a_gpu_without_virtual_memory_management_is_left_alone() -> Result<()> {
    runs_by_itself("virtual_memory = false", "no virtual memory management")
}
