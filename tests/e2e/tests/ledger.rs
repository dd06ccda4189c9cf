//! The ledger: what NVML shows beside what agents say, and the capacity that follows from it.
#![allow(missing_docs)]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Verdict, probe, until_judged, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);

const MIB: u64 = 1 << 20;

/// mᴰ of a machine's GPU while nobody else holds anything: 64 MiB less a reserve of 8.
const CAPACITY: u64 = 56 * MIB;

/// NVML is read so often that a test need not wait for it.
fn options() -> MachineOptions {
    MachineOptions {
        daemon_toml: "[daemon]\nnvml_period_ms = 100\n".into(),
        ..MachineOptions::default()
    }
}

/// A program without an agent.
fn bare(machine: &Machine, memory: &str) -> Result<Program> {
    let mut command = machine.command(machine.dnn());
    command.args(["--memory", memory, "--layers", "4", "--period", "100ms"]);
    Program::start(command)
}

fn managed(machine: &Machine, name: &str, memory: &str) -> Result<Program> {
    let mut command = machine.run(&["--name", name], machine.dnn());
    command.args(["--name", name, "--memory", memory, "--layers", "8"]);
    command.args(["--period", "300ms", "--progress"]);
    Program::start(command)
}

/// What `status` says of a process on its only GPU.
fn process(status: &Value, pid: u32) -> Option<Value> {
    let processes = status["processes"].as_array()?;
    processes.iter().find(|it| it["pid"] == pid).cloned()
}

/// Waits until `status` shows something; it is told in the end what it showed last.
fn see<T>(machine: &Machine, what: &str, mut seen: impl FnMut(&Value) -> Option<T>) -> Result<T> {
    let mut last = Value::Null;
    let mut found = None;
    wait_until(what, BOUND, || {
        last = machine.status().unwrap_or_default();
        found = seen(&last);
        found.is_some()
    })
    .with_context(|| last.to_string())?;
    found.context("it was seen")
}

#[test]
fn who_has_no_agent_is_shown_and_takes_from_the_capacity() -> Result<()> {
    let machine = Machine::new(options())?;
    let _daemon = machine.daemon()?;
    let status = machine.status()?;
    let gpu = &status["gpus"][0];
    ensure!(gpu["capacity_bytes"] == CAPACITY, "{gpu}");
    ensure!(gpu["nvml"] == true && gpu["unmanaged_bytes"] == 0, "{gpu}");
    ensure!(
        gpu["memory_bytes"] == 64 * MIB && gpu["name"] != "",
        "{gpu}"
    );

    let mut stranger = bare(&machine, "20MiB")?;
    // Weights, activations and a context, in the driver's granules.
    let pid = stranger.pid();
    see(&machine, "the stranger is shown", |status| {
        let held = machine.process_bytes(pid, 0)?;
        let row = process(status, pid)?;
        let gpu = &status["gpus"][0];
        let capacity = CAPACITY - held.next_multiple_of(2 * MIB);
        let shown = row["nvml_bytes"] == held && held > 20 * MIB;
        (shown && gpu["unmanaged_bytes"] == held && gpu["capacity_bytes"] == capacity).then(|| {
            assert_eq!(row["managed"], false);
            assert_eq!(row["agent_bytes"], Value::Null);
            assert_eq!(row["disagreement"], "untracked");
            assert_eq!(row["comm"], "dnn");
        })
    })?;
    stranger.kill()?;
    see(&machine, "the capacity returns", |status| {
        let gpu = &status["gpus"][0];
        let back = gpu["capacity_bytes"] == CAPACITY && gpu["unmanaged_bytes"] == 0;
        (back && process(status, pid).is_none()).then_some(())
    })
}

#[test]
fn what_does_not_fit_beside_a_stranger_leaves_until_it_is_gone() -> Result<()> {
    let machine = Machine::new(options())?;
    let _daemon = machine.daemon()?;
    let mut command = machine.run(&["--name", "task"], machine.dnn());
    command.args([
        "--json", "--memory", "40MiB", "--layers", "8", "--jobs", "40",
    ]);
    command.args(["--period", "200ms"]);
    let task = Program::start(command)?;
    see(&machine, "the task is loaded", |status| {
        let jobs = status["tasks"][0]["jobs"].as_u64()?;
        (jobs > 1).then_some(())
    })?;
    let mut stranger = bare(&machine, "12MiB")?;
    see(&machine, "the task makes room", |status| {
        let gpu = &status["gpus"][0];
        let (capacity, used) = (gpu["capacity_bytes"].as_u64()?, gpu["used_bytes"].as_u64()?);
        let left = status["tasks"][0]["swapped_bytes"].as_u64()?;
        (capacity <= 42 * MIB && used <= capacity && left > 0).then_some(())
    })?;
    stranger.kill()?;
    task.finish_dnn(BOUND, 40)?;
    Ok(())
}

#[test]
fn who_starts_together_with_a_stranger_gets_its_memory() -> Result<()> {
    // What the stranger takes is not seen before the next look.
    let machine = Machine::new(MachineOptions {
        daemon_toml: "[daemon]\nnvml_period_ms = 1000\n".into(),
        ..MachineOptions::default()
    })?;
    let _daemon = machine.daemon()?;
    let mut stranger = bare(&machine, "12MiB")?;
    let start = |name: &str| {
        let mut command = machine.run(&["--name", name], machine.dnn());
        command.args(["--json", "--memory", "28MiB", "--layers", "8"]);
        command.args(["--jobs", "20", "--period", "200ms"]);
        Program::start(command)
    };
    for task in [start("one")?, start("two")?] {
        task.finish_dnn(BOUND, 20)?;
    }
    ensure!(stranger.is_running(), "{}", stranger.stderr());
    stranger.kill()
}

#[test]
fn both_witnesses_agree_while_tasks_swap() -> Result<()> {
    let machine = Machine::new(options())?;
    let daemon = machine.daemon()?;
    let (one, two) = (
        managed(&machine, "one", "40MiB")?,
        managed(&machine, "two", "40MiB")?,
    );
    see(&machine, "both swap", |status| {
        let tasks = status["tasks"].as_array()?;
        let moved = |task: &Value| task["swap_in_bytes_total"].as_u64() > Some(100 * MIB);
        (tasks.len() == 2 && tasks.iter().all(moved)).then_some(())
    })?;
    for _ in 0..30 {
        let status = machine.status()?;
        ensure!(status["gpus"][0]["capacity_bytes"] == CAPACITY, "{status}");
        for pid in [one.pid(), two.pid()] {
            let row = process(&status, pid).with_context(|| status.to_string())?;
            ensure!(
                row["managed"] == true && row["disagreement"].is_null(),
                "{row}"
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(two);
    // Alone it moves nothing, and what both say is of the same instant: equal but for the
    // context, which an agent guesses.
    see(&machine, "they agree", |status| {
        let row = process(status, one.pid())?;
        let (nvml, agent) = (row["nvml_bytes"].as_u64()?, row["agent_bytes"].as_u64()?);
        (agent > 40 * MIB && nvml.abs_diff(agent) <= MIB).then_some(())
    })?;
    let log = daemon.stderr();
    ensure!(!log.contains("witnesses"), "{log}");
    Ok(())
}

#[test]
fn memory_that_an_agent_does_not_count_is_named_and_taken_from_the_capacity() -> Result<()> {
    let machine = Machine::new(options())?;
    let daemon = machine.daemon()?;
    // A driver in a link namespace of its own passes the agent by.
    let hidden = probe("hidden", &machine.path(""), &machine.driver_dir())?;
    let mut program = Program::start(machine.preloaded(hidden))?;
    program.wait_for_line("held", BOUND)?;
    let pid = program.pid();
    see(&machine, "the witnesses differ", |status| {
        let row = process(status, pid)?;
        let (nvml, agent) = (row["nvml_bytes"].as_u64()?, row["agent_bytes"].as_u64()?);
        let gpu = &status["gpus"][0];
        let hidden = nvml.checked_sub(gpu["used_bytes"].as_u64()?)?;
        let rest = CAPACITY - hidden.next_multiple_of(2 * MIB);
        let counted = gpu["capacity_bytes"] == rest && gpu["unmanaged_bytes"] == hidden;
        let named = row["disagreement"] == "underreport" && nvml >= agent + 16 * MIB;
        (counted && named).then_some(())
    })?;
    daemon.complains_once("underreport: the witnesses differ", BOUND)?;
    program.kill()?;
    see(&machine, "the capacity returns", |status| {
        (status["gpus"][0]["capacity_bytes"] == CAPACITY).then_some(())
    })
}

#[test]
fn a_new_daemon_counts_nobody_twice() -> Result<()> {
    let machine = Machine::new(options())?;
    let mut daemon = machine.daemon()?;
    let task = managed(&machine, "task", "40MiB")?;
    let loaded = |status: &Value| {
        let row = process(status, task.pid())?;
        let (nvml, agent) = (row["nvml_bytes"].as_u64()?, row["agent_bytes"].as_u64()?);
        (agent > 40 * MIB && nvml > 40 * MIB).then_some(())
    };
    see(&machine, "the task is loaded", loaded)?;
    until_judged("a restart without a gap in the ledger", || {
        daemon.kill()?;
        daemon = machine.daemon()?;
        let mut steady = true;
        see(&machine, "the task is back", |status| {
            steady &= status["gpus"][0]["capacity_bytes"] == CAPACITY;
            loaded(status)
        })?;
        let status = machine.status()?;
        let log = daemon.stderr();
        if log.contains("going on without") {
            // Then it is counted as a stranger, and rightly.
            let reason = "the task was not back within the daemon's grace";
            return Ok(Verdict::Unjudged(reason.into()));
        }
        ensure!(steady, "{log}");
        ensure!(status["gpus"][0]["capacity_bytes"] == CAPACITY, "{status}");
        ensure!(!log.contains("capacity changed"), "{log}");
        Ok(Verdict::Judged)
    })
}

#[test]
fn what_the_dead_held_is_dying_until_the_driver_has_it_back() -> Result<()> {
    const LAG: Duration = Duration::from_millis(2500);
    let machine = Machine::new(MachineOptions {
        simgpu_toml: format!("release_lag_ms = {}\n", LAG.as_millis()),
        ..options()
    })?;
    let _daemon = machine.daemon()?;
    let mut victim = managed(&machine, "victim", "40MiB")?;
    // From then on it takes and gives back nothing: the figures that are compared are of one state.
    victim.wait_for_complaint("job 2", BOUND)?;
    let held = see(&machine, "the victim holds memory", |status| {
        let row = process(status, victim.pid())?;
        let loaded = row["nvml_bytes"].as_u64()? > 40 * MIB;
        loaded.then(|| status["gpus"][0]["used_bytes"].as_u64())?
    })?;
    let died = Instant::now();
    victim.kill()?;
    let mut least = u64::MAX;
    see(&machine, "its memory is back", |status| {
        let gpu = &status["gpus"][0];
        let used = gpu["used_bytes"].as_u64()?;
        let driver = machine.used_bytes(0)?;
        if used > 0 {
            least = least.min(used);
            // It is counted as dying, and not again as somebody's.
            assert_eq!(gpu["capacity_bytes"], CAPACITY, "{status}");
        } else {
            assert_eq!(driver, 0, "released before the driver had it");
        }
        (used == 0).then_some(())
    })?;
    ensure!(least == held, "{least} of {held} were counted");
    ensure!(
        died.elapsed() >= LAG,
        "{:?} after its death",
        died.elapsed()
    );
    ensure!(
        died.elapsed() < LAG + Duration::from_secs(7),
        "{:?}",
        died.elapsed()
    );
    Ok(())
}

#[test]
fn gpus_are_known_from_nvml_before_any_agent() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        gpus: 2,
        described: false,
        ..options()
    })?;
    let _daemon = machine.daemon()?;
    let status = machine.status()?;
    let uuids = machine.uuids()?;
    for (index, uuid) in uuids.iter().enumerate() {
        let gpu = &status["gpus"][index];
        // What is not NVML's: a headroom of a 64th.
        ensure!(gpu["capacity_bytes"] == 63 * MIB, "{gpu}");
        ensure!(gpu["uuid"] == uuid.as_str() && gpu["nvml"] == true, "{gpu}");
    }
    let mut command = machine.run(&["--name", "two"], machine.dnn());
    command.args(["--json", "--gpu", "1", "--memory", "16MiB", "--jobs", "3"]);
    let report = Program::start(command)?.finish(BOUND)?.json()?;
    ensure!(report["checksum_errors"] == 0, "{report}");
    Ok(())
}

#[test]
fn without_nvml_agents_are_believed() -> Result<()> {
    let machine = Machine::new(options())?;
    hide(&machine, "libnvidia-ml.so.1")?;
    let daemon = machine.daemon()?;
    let _stranger = bare(&machine, "4MiB")?;
    let mut task = managed(&machine, "task", "20MiB")?;
    see(&machine, "the task runs", |status| {
        let row = process(status, task.pid())?;
        (row["agent_bytes"].as_u64()? > 20 * MIB && row["nvml_bytes"].is_null()).then_some(())
    })?;
    let status = machine.status()?;
    let gpu = &status["gpus"][0];
    ensure!(
        gpu["nvml"] == false && gpu["capacity_bytes"] == CAPACITY,
        "{gpu}"
    );
    ensure!(gpu["device_used_bytes"].as_u64() > Some(20 * MIB), "{gpu}");
    task.kill()?;
    see(&machine, "its memory returns", |status| {
        (status["gpus"][0]["used_bytes"] == 0).then_some(())
    })?;
    daemon.complains_once("without NVML", BOUND)?;
    Ok(())
}

#[test]
fn without_nvml_the_driver_names_the_gpus_before_any_agent() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        described: false,
        ..options()
    })?;
    hide(&machine, "libnvidia-ml.so.1")?;
    let daemon = machine.daemon()?;
    let status = machine.status()?;
    let gpu = &status["gpus"][0];
    ensure!(
        gpu["uuid"] == machine.uuids()?[0].as_str()
            && gpu["nvml"] == false
            && gpu["memory_bytes"] == machine.memory_bytes(),
        "{status}"
    );
    let task = managed(&machine, "task", "20MiB")?;
    see(&machine, "the task runs", |status| {
        let row = process(status, task.pid())?;
        (row["agent_bytes"].as_u64()? > 20 * MIB && row["nvml_bytes"].is_null()).then_some(())
    })?;
    daemon.complains_once("without NVML", BOUND)?;
    Ok(())
}

#[test]
fn a_driver_that_hangs_or_crashes_does_not_hold_up_the_daemon() -> Result<()> {
    for (body, said) in [
        ("for (;;) pause();", "it did not answer within 5 s"),
        ("abort();", "the child that asked it ended early: signal: 6"),
    ] {
        let machine = Machine::new(MachineOptions {
            described: false,
            ..options()
        })?;
        let drivers = machine.path("drivers");
        std::fs::create_dir(&drivers)?;
        std::fs::write(drivers.join("libnvidia-ml.so.1"), "")?;
        let source = machine.path("driver.c");
        let functions = "int cuDeviceGetCount(void) { return 0; } int cuDeviceGet(void) { return 0; }\n\
                         int cuDeviceGetUuid(void) { return 0; } int cuDeviceTotalMem_v2(void) { return 0; }\n\
                         int cuDriverGetVersion(void) { return 0; } int cuDeviceGetAttribute(void) { return 0; }";
        std::fs::write(
            &source,
            format!(
                "#include <stdlib.h>\n#include <unistd.h>\nint cuInit(unsigned flags) {{ {body} }}\n{functions}\n"
            ),
        )?;
        let compiled = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-w", "-o"])
            .arg(drivers.join("libcuda.so.1"))
            .arg(&source)
            .status()?;
        ensure!(compiled.success(), "cc: {compiled}");
        // It waits 10 s for the daemon to serve.
        let daemon = machine.daemon_with_drivers(&drivers)?;
        let status = machine.status()?;
        ensure!(
            status["gpus"].as_array().is_some_and(Vec::is_empty),
            "{status}"
        );
        daemon.complains_once(said, BOUND)?;
    }
    Ok(())
}

/// Leaves nothing that can be loaded by that name, in front of what this machine may have of its own.
fn hide(machine: &Machine, library: &str) -> Result<()> {
    let library = machine.driver_dir().join(library);
    std::fs::remove_file(&library)?;
    std::fs::write(library, "")?;
    Ok(())
}

#[test]
fn a_driver_that_comes_late_is_found() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        described: false,
        ..options()
    })?;
    let library = machine.driver_dir().join("libnvidia-ml.so.1");
    let aside = machine.driver_dir().join("aside");
    std::fs::rename(&library, &aside)?;
    std::fs::write(&library, "")?;
    // Nor does the driver itself name the GPU.
    let drivers = machine.path("drivers");
    std::fs::create_dir(&drivers)?;
    std::fs::write(drivers.join("libcuda.so.1"), "")?;
    std::os::unix::fs::symlink(&library, drivers.join("libnvidia-ml.so.1"))?;
    let daemon = machine.daemon_with_drivers(&drivers)?;
    let status = machine.status()?;
    ensure!(
        status["gpus"].as_array().is_some_and(Vec::is_empty),
        "{status}"
    );
    std::fs::rename(&aside, &library)?;
    let shown = |status: &Value| (status["gpus"][0]["nvml"] == true).then_some(());
    see(&machine, "NVML is there", shown)?;
    let task = managed(&machine, "task", "20MiB")?;
    see(&machine, "both witnesses tell", |status| {
        let row = process(status, task.pid())?;
        let (nvml, agent) = (row["nvml_bytes"].as_u64()?, row["agent_bytes"].as_u64()?);
        (agent > 20 * MIB && nvml > 20 * MIB).then_some(())
    })?;
    daemon.complains_once("without NVML", BOUND)?;
    Ok(())
}
