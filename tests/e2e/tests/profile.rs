//! `rtswapctl profile`, and what `plan` and `run` make of it.
#![allow(missing_docs)]

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe, wait_until};

const BOUND: Duration = Duration::from_mins(2);

/// `rtswapctl` with profiles of its own.
fn rtswapctl(machine: &Machine, arguments: &[&str]) -> Command {
    let mut command = machine.command(machine.binary("rtswapctl"));
    command
        .args(arguments)
        .env("XDG_DATA_HOME", machine.path("data"));
    command
}

#[test]
fn a_profile_is_measured_planned_with_and_run_by_its_name() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 256,
        ..MachineOptions::default()
    })?;
    let daemon = machine.daemon()?;
    let program = probe("named", &machine.path(""), &machine.driver_dir())?;
    let mut command = rtswapctl(
        &machine,
        &["profile", "--name", "named", "--jobs", "60", "--"],
    );
    command.arg(&program).args(["0", "5"]);
    let end = Program::start(command)?.finish(BOUND)?;
    ensure!(end.status.success(), "{}", end.stderr);
    let told = end.stdout;
    ensure!(
        told.contains("measured over") && told.contains("not proven"),
        "{told}"
    );
    ensure!(told.contains("next: rtswapctl plan named:"), "{told}");
    ensure!(told.contains("One process is one task"), "{told}");
    let folder = machine.path("data/rtswap/profiles");
    for name in ["named", "named.front", "named.rear"] {
        let file = folder.join(format!("{name}.toml"));
        let text = fs::read_to_string(&file).with_context(|| told.clone())?;
        ensure!(text.contains("[execution.loaded]"), "{text}");
        // What stays and 12 MiB of buffers, in chunks of the machine's daemon.
        ensure!(text.contains("swappable = \"12MiB\""), "{text}");
        ensure!(text.contains("chunk = \"2MiB\""), "{text}");
    }

    // The daemon sees a moment later that the profiled program has gone.
    wait_until("the program's memory is free", BOUND, || {
        let status = machine.status().unwrap_or_default();
        status["gpus"][0]["capacity_bytes"] == 248_u64 << 20
    })?;
    let command = rtswapctl(&machine, &["plan", "named:1s", "named.front:2s:1s"]);
    let end = Program::start(command)?.finish(BOUND)?;
    ensure!(end.status.success(), "{}{}", end.stdout, end.stderr);
    ensure!(
        end.stdout.starts_with("Planned for GPU 0 ("),
        "{}",
        end.stdout
    );
    // Less what is kept for best-effort, as the daemon promises no more.
    ensure!(
        end.stdout.contains(" times the 240 MiB of the GPU"),
        "{}",
        end.stdout
    );
    ensure!(
        end.stdout
            .contains("\nrtswapctl run --name named --period 1s -- "),
        "{}",
        end.stdout
    );

    let mut command = rtswapctl(
        &machine,
        &["run", "--name", "named", "--period", "1s", "--"],
    );
    command
        .arg(&program)
        .args(["3", "5"])
        .env("RTSWAP_AGENT", machine.binary("librtswap_cuda.so"));
    let end = Program::start(command)?.finish(BOUND)?;
    ensure!(end.status.success(), "{}", end.stderr);
    ensure!(
        end.stderr.contains("rtswapctl: named: C ") && end.stderr.contains("not proven"),
        "{}",
        end.stderr
    );

    drop(daemon);
    let end = Program::start(rtswapctl(&machine, &["plan", "named:1s"]))?.finish(BOUND)?;
    ensure!(
        end.stdout.starts_with("No rtswapd with a GPU answers"),
        "{}",
        end.stdout
    );
    let json = rtswapctl(&machine, &["plan", "--json", "named:1s"]);
    let end = Program::start(json)?.finish(BOUND)?;
    ensure!(
        end.stderr.contains("No rtswapd with a GPU answers"),
        "{}",
        end.stderr
    );
    ensure!(end.json()?["chunk_bytes"].is_u64(), "{}", end.stdout);
    Ok(())
}

#[test]
fn a_program_that_has_too_few_jobs_has_no_profile() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let program = probe("named", &machine.path(""), &machine.driver_dir())?;
    let mut command = rtswapctl(&machine, &["profile", "--name", "few", "--"]);
    command.arg(&program).args(["3", "1"]);
    let end = Program::start(command)?.finish(BOUND)?;
    ensure!(end.status.code() == Some(1), "{}", end.stderr);
    ensure!(end.stderr.contains("ended after 4 jobs"), "{}", end.stderr);
    ensure!(!machine.path("data/rtswap/profiles/few.toml").exists());
    Ok(())
}

/// A small workload, to which more arguments are to be added.
fn small(command: &mut Command, machine: &Machine) {
    command
        .arg(machine.dnn())
        .args(["--memory", "4MiB", "--layers", "1", "--period", "12ms"]);
}

#[test]
fn a_profile_is_of_the_gpu_that_is_meant_and_is_told_on_another() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        gpus: 2,
        ..MachineOptions::default()
    })?;
    let _daemon = machine.daemon()?;
    let uuids = machine.uuids()?;
    let mut command = rtswapctl(
        &machine,
        &[
            "profile", "--name", "far", "--jobs", "20", "--gpu", "1", "--",
        ],
    );
    small(&mut command, &machine);
    // Of all that the file can say of a command line.
    command.args(["--name", &"x".repeat(250)]);
    let end = Program::start(command)?.finish(BOUND)?;
    ensure!(end.status.success(), "{}", end.stderr);
    let file = machine.path("data/rtswap/profiles/far.toml");
    let text = fs::read_to_string(file)?;
    ensure!(text.contains(&format!("uuid = \"{}\"", uuids[1])), "{text}");

    let end = Program::start(rtswapctl(&machine, &["plan", "far:1s"]))?.finish(BOUND)?;
    ensure!(
        end.stdout
            .ends_with("\nrtswapctl run --name far --period 1s -- PROGRAM\n"),
        "{}",
        end.stdout
    );

    for (gpu, is_other) in [(0, true), (1, false)] {
        let number = gpu.to_string();
        let mut command = rtswapctl(
            &machine,
            &[
                "run", "--name", "far", "--period", "1s", "--gpu", &number, "--",
            ],
        );
        small(&mut command, &machine);
        command.args(["--gpu", &number, "--jobs", "2"]);
        let end = Program::start(command)?.finish(BOUND)?;
        ensure!(end.status.success(), "{}", end.stderr);
        let told = format!(
            "far was measured on {} and is on GPU 0, {}",
            uuids[1], uuids[0]
        );
        ensure!(end.stderr.contains(&told) == is_other, "{}", end.stderr);
    }

    let mut command = rtswapctl(
        &machine,
        &["profile", "--name", "astray", "--wait", "3s", "--"],
    );
    small(&mut command, &machine);
    command.args(["--gpu", "1"]);
    let end = Program::start(command)?.finish(BOUND)?;
    ensure!(end.status.code() == Some(1), "{}", end.stderr);
    ensure!(
        end.stderr
            .contains(&format!("had 0 jobs on {} and", uuids[0])),
        "{}",
        end.stderr
    );
    ensure!(!end.stderr.contains("2 of 2"), "{}", end.stderr);
    Ok(())
}

#[test]
fn what_cannot_come_to_a_profile_is_told_soon() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let idle = [
        "profile", "--name", "idle", "--wait", "1s", "--", "sleep", "600",
    ];
    let end = Program::start(rtswapctl(&machine, &idle))?.finish(BOUND)?;
    ensure!(end.status.code() == Some(1), "{}", end.stderr);
    ensure!(
        end.stderr.contains("and then none for 1 s"),
        "{}",
        end.stderr
    );

    // A file where its profile is to be kept.
    fs::remove_dir_all(machine.path("data"))?;
    fs::write(machine.path("data"), "")?;
    let end = Program::start(rtswapctl(&machine, &idle))?.finish(BOUND)?;
    ensure!(end.status.code() == Some(2), "{}", end.stderr);
    ensure!(end.stderr.contains("cannot write"), "{}", end.stderr);
    ensure!(!end.stderr.contains("1 of 2"), "{}", end.stderr);

    let calibrate = ["calibrate", "--export", "/proc/none.toml"];
    let end = Program::start(rtswapctl(&machine, &calibrate))?.finish(BOUND)?;
    ensure!(end.status.code() == Some(2), "{}", end.stderr);
    ensure!(
        end.stderr.contains("cannot write /proc/none.toml"),
        "{}",
        end.stderr
    );
    Ok(())
}
