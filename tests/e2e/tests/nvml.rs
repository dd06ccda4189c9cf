//! NVML tells a program under the agent what CUDA tells it, and of every other GPU the truth.
#![allow(missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Finished, Machine, MachineOptions, Program, Puppet, compile};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_mins(1);
const MIB: u64 = 1 << 20;

/// The program that asks.
fn asker(machine: &Machine) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml/memory.c");
    compile(&source, &machine.path(""), &machine.driver_dir())
}

fn told(finished: &Finished) -> Result<Value> {
    let said = serde_json::from_str(&finished.stdout);
    said.with_context(|| format!("{}{}", finished.stdout, finished.stderr))
}

fn asked(command: Command) -> Result<Value> {
    told(&Program::start(command)?.finish(BOUND)?)
}

/// Checks that both forms of NVML's answer for `gpu` are what CUDA says.
fn agrees(told: &Value, gpu: &str) -> Result<()> {
    for name in [gpu.to_owned(), format!("{gpu} v2")] {
        ensure!(told[&name] == told["cuda"], "{name} differs: {told}");
    }
    Ok(())
}

#[test]
fn nvml_shows_the_budget_that_cuda_shows() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let asker = asker(&machine)?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let program = Program::start(machine.preloaded(asker))?;
    let budget = machine.memory_bytes() / 2;
    let puppet = Puppet::accept(&listener, machine.wire_uuid()?, 2 * MIB, budget)?;
    let told = told(&puppet.grant_to_the_end(program)?)?;
    let free = told["cuda"][1].as_u64().context("no number")?;
    ensure!(told["cuda"][0] == budget && free < budget, "{told}");
    agrees(&told, "nvml")?;
    agrees(&told, "gpu 0")
}

#[test]
fn a_program_without_a_session_is_told_the_truth() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let asker = asker(&machine)?;
    let bare = asked(machine.command(&asker))?;
    ensure!(bare["nvml"][0] == machine.memory_bytes(), "{bare}");
    let mut command = machine.command(&asker);
    command.env("LD_PRELOAD", machine.binary("librtswap_cuda.so"));
    let preloaded = asked(command)?;
    ensure!(preloaded == bare, "{preloaded}, without rtswap {bare}");
    Ok(())
}

/// A GPU in MIG mode with two instances, and one of its own; the daemon manages one instance.
#[test]
fn only_the_managed_instance_shows_a_budget() -> Result<()> {
    let simgpu = "version = 1\nmemory = \"64MiB\"\ncontext_bytes = \"2MiB\"\n\
        [[gpus]]\nname = \"Simulated A100 MIG 1g.64mb\"\nmig_parent = 0\n\
        [[gpus]]\nname = \"Simulated A100 MIG 1g.64mb\"\nmig_parent = 0\n\
        [[gpus]]\nname = \"Simulated RTX\"\n";
    let machine = |daemon_toml: String| -> Result<Machine> {
        let machine = Machine::new(MachineOptions {
            described: false,
            daemon_toml,
            ..MachineOptions::default()
        })?;
        fs::write(machine.path("simgpu.toml"), simgpu)?;
        Ok(machine)
    };
    let unmanaged = machine(String::new())?;
    let uuid = {
        let _daemon = unmanaged.daemon()?;
        let status = unmanaged.status()?;
        let left_alone = status["left_alone"][0].as_str().unwrap_or_default();
        let mut words = left_alone.split('"');
        let uuid = words.find(|word| word.starts_with("MIG-"));
        uuid.with_context(|| status.to_string())?.to_owned()
    };
    let machine = machine(format!(
        "[[gpu]]\nuuid = \"{uuid}\"\nreserve = \"8MiB\"\nchunk = \"2MiB\"\n"
    ))?;
    let daemon = machine.daemon()?;
    daemon.wait_for_complaint(&uuid, BOUND)?;
    let mut command = machine.preloaded(asker(&machine)?);
    command.env("CUDA_VISIBLE_DEVICES", &uuid);
    let told = asked(command)?;
    let total = told["cuda"][0].as_u64().context("no number")?;
    ensure!(total > 0 && total <= 56 * MIB, "{told}");
    agrees(&told, "nvml")?;
    let whole = told["gpu 0"][0].as_u64();
    ensure!(whole == Some(128 * MIB), "both instances: {told}");
    ensure!(
        told["gpu 1"] == json!([64 * MIB, 64 * MIB, 0]),
        "the GPU of its own: {told}"
    );
    Ok(())
}
