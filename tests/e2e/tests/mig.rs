//! MIG instances: each that is configured is a GPU of its own, its GPU is none.
#![allow(missing_docs)]

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);

/// A GPU in MIG mode with two instances, and one of its own.
fn machine(configured: &[&str]) -> Result<Machine> {
    let mut daemon_toml = String::from("[daemon]\nnvml_period_ms = 100\n");
    for uuid in configured {
        write!(
            daemon_toml,
            "[[gpu]]\nuuid = \"{uuid}\"\nreserve = \"8MiB\"\nchunk = \"2MiB\"\n"
        )?;
    }
    let machine = Machine::new(MachineOptions {
        described: false,
        daemon_toml,
        ..MachineOptions::default()
    })?;
    fs::write(
        machine.path("simgpu.toml"),
        "version = 1\nmemory = \"64MiB\"\ncontext_bytes = \"2MiB\"\n\
         d2h_gib_per_s = 1.0\nh2d_gib_per_s = 1.0\ncompute_gib_per_s = 16.0\n\
         [[gpus]]\nname = \"Simulated A100 MIG 1g.64mb\"\nmig_parent = 0\n\
         [[gpus]]\nname = \"Simulated A100 MIG 1g.64mb\"\nmig_parent = 0\n\
         [[gpus]]\nname = \"Simulated RTX\"\n",
    )?;
    Ok(machine)
}

/// The UUIDs of both instances, which hang on the simulated GPUs' configuration alone: what the
/// explanation tells a user to write.
fn instances() -> Result<[String; 2]> {
    let machine = machine(&[])?;
    let _daemon = machine.daemon()?;
    let status = machine.status()?;
    let said = status["left_alone"][0].as_str().unwrap_or_default();
    let uuids: Vec<_> = said
        .split('"')
        .filter(|it| it.starts_with("MIG-"))
        .collect();
    let [first, second] = uuids[..] else {
        anyhow::bail!("no two instances: {status}");
    };
    ensure!(first != second, "{said}");
    Ok([first.to_owned(), second.to_owned()])
}

/// Has a command see one instance, as `CUDA_VISIBLE_DEVICES` does.
fn on(mut command: Command, instance: &str) -> Command {
    command.env("CUDA_VISIBLE_DEVICES", instance);
    command
}

fn dnn(machine: &Machine, name: &str, instance: &str, memory: &str) -> Result<Program> {
    let run = machine.run(&["--name", name, "--gpu", instance], machine.dnn());
    let mut command = on(run, instance);
    command.args(["--json", "--name", name, "--memory", memory]);
    command.args(["--layers", "8", "--period", "500ms", "--jobs", "12"]);
    Program::start(command)
}

fn task(status: &Value, name: &str) -> Value {
    let tasks = status["tasks"].as_array().cloned().unwrap_or_default();
    let found = tasks.into_iter().find(|task| task["name"] == name);
    found.unwrap_or_default()
}

fn gpu<'a>(status: &'a Value, uuid: &str) -> Result<&'a Value> {
    let gpus = status["gpus"].as_array().context("no gpus")?;
    let found = gpus.iter().find(|gpu| gpu["uuid"] == uuid);
    found.with_context(|| format!("{uuid} is not in {status}"))
}

#[test]
fn each_instance_swaps_for_itself() -> Result<()> {
    let [first, second] = instances()?;
    let machine = machine(&[&first, &second])?;
    let daemon = machine.daemon()?;
    let status = machine.status()?;
    ensure!(status["left_alone"] == serde_json::json!([]), "{status}");
    for uuid in [&first, &second] {
        let gpu = gpu(&status, uuid)?;
        ensure!(
            gpu["nvml"] == true && gpu["memory_bytes"] == 64 << 20,
            "{gpu}"
        );
        ensure!(gpu["device_utilization_percent"].is_null(), "{gpu}");
    }
    daemon.wait_for_complaint(&first, BOUND)?;
    daemon.wait_for_complaint(&second, BOUND)?;

    let programs = [
        dnn(&machine, "first-a", &first, "40MiB")?,
        dnn(&machine, "first-b", &first, "40MiB")?,
        dnn(&machine, "second-a", &second, "20MiB")?,
        dnn(&machine, "second-b", &second, "20MiB")?,
    ];
    let pids = programs.each_ref().map(Program::pid);
    let mut status = Value::Null;
    let settled = wait_until(
        "the first instance swaps, the second need not",
        BOUND,
        || {
            status = machine.status().unwrap_or_default();
            let [one, two] = [&first, &second].map(|uuid| gpu(&status, uuid).ok());
            let (Some(one), Some(two)) = (one, two) else {
                return false;
            };
            let bytes = |of: &Value, key: &str| of[key].as_u64().unwrap_or_default();
            let used = |of| (bytes(of, "device_used_bytes"), bytes(of, "unmanaged_bytes"));
            let on = |name: &str| {
                let task = task(&status, name);
                (task["gpu"].clone(), bytes(&task, "swap_out_bytes_total"))
            };
            let firsts = ["first-a", "first-b"].map(on);
            let seconds = ["second-a", "second-b"].map(on);
            let known = |pid: &u32| {
                let processes = status["processes"].as_array()?;
                let row = processes.iter().find(|row| row["pid"] == *pid)?;
                Some(bytes(row, "nvml_bytes") > 0 && row["disagreement"].is_null())
            };
            used(one).0 <= 64 << 20
                && used(one).1 == 0
                && used(two).0 >= 44 << 20
                && used(two).1 == 0
                && firsts
                    .iter()
                    .all(|(gpu, out)| *gpu == one["index"] && *out > 0)
                && seconds.iter().all(|at| *at == (two["index"].clone(), 0))
                && pids.iter().all(|pid| known(pid) == Some(true))
        },
    );
    settled.with_context(|| status.to_string())?;
    for program in programs {
        program.finish_dnn(BOUND, 12)?;
    }
    Ok(())
}

#[test]
fn a_realtime_task_is_admitted_on_an_instance() -> Result<()> {
    let [first, _] = instances()?;
    let machine = machine(&[&first])?;
    let _daemon = machine.daemon()?;
    let timing = ["--period", "400ms", "--wcet", "60ms", "--class", "realtime"];
    let sizes = ["--footprint", "30MiB", "--swappable", "24MiB"];
    let mut options = vec!["--name", "yolo", "--gpu", &first];
    options.extend(timing.iter().chain(&sizes));
    let mut command = on(machine.run(&options, machine.dnn()), &first);
    command.args(["--json", "--memory", "20MiB", "--layers", "4"]);
    command.args(["--period", "400ms", "--jobs", "20"]);
    let program = Program::start(command)?;
    wait_until("it is on its instance", BOUND, || {
        let task = machine.task("yolo").ok().flatten().unwrap_or_default();
        task["class"] == "realtime" && task["resident_bytes"].as_u64() >= Some(20 << 20)
    })?;
    program.finish_dnn(BOUND, 20)?;
    Ok(())
}

#[test]
fn a_gpu_whose_instances_nobody_names_is_left_alone_with_what_to_write() -> Result<()> {
    let [first, second] = instances()?;
    let machine = machine(&[])?;
    let daemon = machine.daemon()?;
    let status = machine.status()?;
    let gpus = status["gpus"].as_array().context("no gpus")?;
    ensure!(
        gpus.len() == 1 && gpus[0]["name"] == "Simulated RTX",
        "the GPU of its own is managed, and nothing else: {status}"
    );
    let said = status["left_alone"][0].as_str().unwrap_or_default();
    for part in [
        "GPU-",
        "(Simulated A100) is in MIG mode",
        "[[gpu]] in rtswapd.toml",
        &first,
        &second,
    ] {
        ensure!(said.contains(part), "{part} is not in {said}");
    }
    daemon.wait_for_complaint(said, BOUND)?;
    let text = Program::start({
        let mut command = machine.command(machine.binary("rtswapctl"));
        command.arg("status");
        command
    })?
    .finish(BOUND)?
    .stdout;
    ensure!(text.contains(&format!("left alone: {said}")), "{text}");

    // Its programs run as without rtswap, also where the agent is the first to tell of it.
    let mut command = on(machine.run(&["--name", "alone"], machine.dnn()), &first);
    command.args(["--json", "--memory", "20MiB", "--layers", "4"]);
    command.args(["--period", "20ms", "--jobs", "5"]);
    let finished = Program::start(command)?.finish(BOUND)?;
    ensure!(
        finished
            .stderr
            .contains("manages none of the GPUs of this process"),
        "{}",
        finished.stderr
    );
    let report = finished.json()?;
    ensure!(report["jobs"] == 5, "{report}");
    let after = machine.status()?;
    ensure!(after["gpus"].as_array().map(Vec::len) == Some(1), "{after}");
    Ok(())
}

#[test]
fn the_gpu_itself_is_no_place_for_tasks() -> Result<()> {
    let all = machine(&[])?;
    let parent = {
        let _daemon = all.daemon()?;
        let status = all.status()?;
        let said = status["left_alone"][0].as_str().unwrap_or_default();
        said.split(' ').next().unwrap_or_default().to_owned()
    };
    let configured = format!("{parent}\"\nmemory = \"64MiB");
    let machine = machine(&[&configured])?;
    let _daemon = machine.daemon()?;
    let status = machine.status()?;
    ensure!(status["gpus"] == serde_json::json!([]), "{status}");
    let said = status["left_alone"][0].as_str().unwrap_or_default();
    ensure!(said.starts_with(&parent), "{status}");
    Ok(())
}

#[test]
fn other_names_of_an_instance_are_refused_with_what_to_write() -> Result<()> {
    let digits = "01234567-89ab-cdef-0123-456789abcdef";
    for (name, wants) in [
        (
            format!("MIG-GPU-{digits}/1/0"),
            "write the instance's own UUID, such as MIG-",
        ),
        (
            "MIG-nonsense".to_owned(),
            "is not a MIG instance's UUID, such as MIG-",
        ),
        (format!("mig-{digits}"), "is not a GPU's UUID"),
        ("0:1".to_owned(), "is not a GPU's UUID"),
    ] {
        let machine = machine(&[])?;
        let file = machine.path("rtswapd.toml");
        fs::write(&file, format!("version = 1\n[[gpu]]\nuuid = \"{name}\"\n"))?;
        let mut command = machine.command(machine.binary("rtswapd"));
        command.arg("--config").arg(&file);
        let output = Program::start(command)?.finish(BOUND)?;
        let said = output.stderr;
        ensure!(!output.status.success(), "accepted {name}");
        ensure!(
            said.contains("rtswapd.toml:3:8: ") && said.contains(&name) && said.contains(wants),
            "{name}: {said}"
        );
    }
    Ok(())
}
