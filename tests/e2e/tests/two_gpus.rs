//! Two GPUs are two schedulers: what overflows on one disturbs nobody on the other.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe};

const BOUND: Duration = Duration::from_mins(1);

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
        command.args(["--period", "500ms", "--jobs", "12"]);
        Program::start(command)
    };
    let programs = [
        start("zero-a", "0", "40MiB")?,
        start("zero-b", "0", "40MiB")?,
        start("one-a", "1", "20MiB")?,
        start("one-b", "1", "20MiB")?,
    ];
    std::thread::sleep(Duration::from_secs(4));
    let status = machine.status()?;
    let swapped_out = |name: &str| {
        let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
        let task = tasks
            .into_iter()
            .find(|task| task["name"] == name)
            .unwrap_or_default();
        (task["gpu"].as_u64(), task["swap_out_bytes_total"].as_u64())
    };
    let zero = swapped_out("zero-a").1.unwrap_or(0) + swapped_out("zero-b").1.unwrap_or(0);
    ensure!(zero > 0, "nothing was swapped on GPU 0: {status}");
    for name in ["one-a", "one-b"] {
        ensure!(swapped_out(name) == (Some(1), Some(0)), "{name}: {status}");
    }
    for program in programs {
        program.finish_dnn(BOUND, 12)?;
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
