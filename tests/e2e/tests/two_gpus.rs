//! Two GPUs are two schedulers: what overflows on one disturbs nobody on the other.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);
const JOBS: u64 = 20;

#[test]
fn each_gpu_swaps_for_itself() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        gpus: 2,
        link_gib_per_s: 0.5,
        ..MachineOptions::default()
    })?;
    let _daemon = machine.daemon()?;
    let start = |name: &str, gpu: &str, memory: &str| {
        let mut command = machine.run(&["--name", name, "--gpu", gpu], machine.dnn());
        command.args([
            "--json", "--name", name, "--gpu", gpu, "--memory", memory, "--layers", "8",
        ]);
        command.args(["--period", "500ms", "--jobs"]);
        command.arg(JOBS.to_string());
        Program::start(command)
    };
    let programs = [
        start("zero-a", "0", "40MiB")?,
        start("zero-b", "0", "40MiB")?,
        start("one-a", "1", "20MiB")?,
        start("one-b", "1", "20MiB")?,
    ];
    let task = |status: &Value, name: &str| {
        let mut tasks = status["tasks"].as_array().into_iter().flatten();
        tasks.find(|task| task["name"] == name).cloned()
    };
    let mut status = Value::Null;
    wait_until("GPU 0 swaps while both run on GPU 1", BOUND, || {
        status = machine.status().unwrap_or_default();
        let number = |name, key: &str| task(&status, name).and_then(|task| task[key].as_u64());
        let out = |name| number(name, "swap_out_bytes_total");
        let zero_swaps = out("zero-a") > Some(0) && out("zero-b") > Some(0);
        let one_runs = |name| number(name, "jobs") >= Some(JOBS / 4);
        zero_swaps && one_runs("one-a") && one_runs("one-b")
    })
    .with_context(|| status.to_string())?;
    for name in ["one-a", "one-b"] {
        let task = task(&status, name).with_context(|| status.to_string())?;
        ensure!(
            task["gpu"] == 1 && task["swap_out_bytes_total"] == 0,
            "{name}: {task}"
        );
    }
    for program in programs {
        program.finish_dnn(BOUND, JOBS)?;
    }
    Ok(())
}

#[test]
fn a_gpu_reaches_what_its_peer_lets_it() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        gpus: 2,
        ..MachineOptions::default()
    })?;
    let _daemon = machine.daemon()?;
    let program = probe("peers", &machine.path(""), &machine.driver_dir())?;
    let mut program = Program::start(machine.preloaded(program))?;
    program.wait_for_line("{", BOUND)?;
    let said = program.stdout();
    ensure!(said == "{\"wrong\":0}\n", "{said}{}", program.stderr());
    program.kill()
}
