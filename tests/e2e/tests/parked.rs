//! Tasks that leave the GPU by `rtswapctl park`, and come back by `resume`.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Finished, Machine, MachineOptions, Program, unless_stalled, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);
const MIB: u64 = 1 << 20;
/// The weights of a program: two do not fit on 64 MiB.
const WEIGHTS: u64 = 40 * MIB;

/// A dnn without end unless it has so many jobs.
fn dnn(machine: &Machine, options: &[&str], memory: &str, jobs: Option<u64>) -> Result<Program> {
    let mut command = machine.run(options, machine.dnn());
    command.args(["--json", "--layers", "4", "--period", "100ms"]);
    command.args(["--memory", memory]);
    if let Some(jobs) = jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    Program::start(command)
}

/// What `rtswapctl` says, which ends with `code`.
fn said(machine: &Machine, arguments: &[&str], code: i32) -> Result<Finished> {
    let mut command = machine.command(machine.binary("rtswapctl"));
    command.args(arguments);
    let finished = Program::start(command)?.finish(BOUND)?;
    ensure!(
        finished.status.code() == Some(code),
        "{arguments:?} ended with {:?}: {}{}",
        finished.status,
        finished.stdout,
        finished.stderr
    );
    Ok(finished)
}

fn field(machine: &Machine, name: &str, field: &str) -> Option<Value> {
    Some(machine.task(name).ok()??[field].clone())
}

fn count(machine: &Machine, name: &str, of: &str) -> u64 {
    let value = field(machine, name, of);
    value.and_then(|value| value.as_u64()).unwrap_or(0)
}

/// Waits until `name` has run `more` jobs from now on.
fn runs(machine: &Machine, name: &str, more: u64) -> Result<()> {
    let before = count(machine, name, "jobs");
    wait_until(&format!("{name} runs"), BOUND, || {
        count(machine, name, "jobs") >= before + more
    })
}

/// Whether at least `weights` of `name` are off the GPU, and `text` says how much and that its context stays.
fn has_left(machine: &Machine, name: &str, weights: u64, text: &str) -> Result<bool> {
    let swapped = count(machine, name, "swapped_bytes");
    let line = format!("{name}: {} MiB off the GPU, ", swapped / MIB);
    let line = text.lines().find_map(|said| said.strip_prefix(&line));
    let line = line.with_context(|| format!("{swapped} are off: {text}"))?;
    Ok(swapped >= weights && line.ends_with(" stay (its context and what cannot be swapped)"))
}

#[test]
fn a_parked_program_leaves_the_gpu_to_others_and_goes_on_when_it_is_resumed() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let mut daemon = machine.daemon()?;
    let yolo = dnn(&machine, &["--name=yolo"], "40MiB", Some(60))?;
    runs(&machine, "yolo", 2)?;
    let line = said(&machine, &["park", "yolo"], 0)?.stdout;
    ensure!(has_left(&machine, "yolo", WEIGHTS, &line)?, "{line}");
    let task = machine.task("yolo")?.context("it is registered")?;
    ensure!(task["phase"] == "parked", "{task}");
    ensure!(
        task["waits"] == "parked: rtswapctl resume yolo brings it back",
        "{task}"
    );
    ensure!(task["resident_bytes"].as_u64() < Some(8 * MIB), "{task}");
    let before = count(&machine, "yolo", "jobs");

    // Both do not fit: that one runs without a swap of either.
    let swapped = count(&machine, "yolo", "swap_out_bytes_total");
    let other = dnn(&machine, &["--name=other"], "40MiB", Some(10))?;
    other
        .finish_dnn(BOUND, 10)
        .with_context(|| daemon.stderr())?;
    ensure!(count(&machine, "yolo", "swap_out_bytes_total") == swapped);
    ensure!(swapped >= WEIGHTS, "{swapped}");

    daemon.kill()?;
    daemon = machine.daemon()?;
    wait_until("its process is back", BOUND, || {
        field(&machine, "yolo", "pid").is_some_and(|pid| pid.as_u64() > Some(0))
    })?;
    ensure!(field(&machine, "yolo", "phase") == Some("parked".into()));
    let line = said(&machine, &["park", "yolo"], 0)?.stdout;
    ensure!(has_left(&machine, "yolo", WEIGHTS, &line)?, "{line}");
    ensure!(count(&machine, "yolo", "jobs") <= before, "it ran");

    ensure!(said(&machine, &["resume", "yolo"], 0)?.stdout.is_empty());
    yolo.finish_dnn(BOUND, 60)
        .with_context(|| daemon.stderr())?;
    Ok(())
}

#[test]
fn all_tasks_are_parked_and_resumed_at_once_and_wrong_names_are_said() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    ensure!(said(&machine, &["park", "--all"], 0)?.stdout.is_empty());
    let programs = ["a", "b"].map(|name| {
        let option = format!("--name={name}");
        dnn(&machine, &[option.as_str()], "12MiB", Some(40))
    });
    for name in ["a", "b"] {
        runs(&machine, name, 1)?;
    }
    for (arguments, code, why) in [
        (&["park", "a", "c"][..], 1, "no task of yours is called c"),
        (&["park", "--all", "--gpu", "7"], 1, "no GPU is 7"),
        (&["resume", "c"], 1, "no task of yours is called c"),
        (&["park"], 2, "TASK"),
    ] {
        let refused = said(&machine, arguments, code)?.stderr;
        ensure!(refused.contains(why), "{refused}");
    }
    ensure!(field(&machine, "a", "phase") != Some("parked".into()));

    let text = said(&machine, &["park", "--all", "--gpu", "0"], 0)?.stdout;
    ensure!(text.lines().count() == 2, "{text}");
    for name in ["a", "b"] {
        ensure!(has_left(&machine, name, 12 * MIB, &text)?, "{text}");
        ensure!(field(&machine, name, "phase") == Some("parked".into()));
    }
    ensure!(said(&machine, &["resume", "--all"], 0)?.stdout.is_empty());
    for program in programs {
        program?
            .finish_dnn(BOUND, 40)
            .with_context(|| daemon.stderr())?;
    }
    Ok(())
}

#[test]
fn a_realtime_task_is_parked_beside_another_which_misses_nothing() -> Result<()> {
    unless_stalled("a realtime task is parked", park_realtime)
}

fn park_realtime() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    let realtime = |name: &str, jobs| {
        let name = format!("--name={name}");
        let options = [
            name.as_str(),
            "--period=100ms",
            "--wcet=20ms",
            "--footprint=24MiB",
            "--swappable=16MiB",
        ];
        dnn(&machine, &options, "16MiB", Some(jobs))
    };
    let (camera, lanes) = (realtime("camera", 60)?, realtime("lanes", 120)?);
    runs(&machine, "camera", 3)?;
    runs(&machine, "lanes", 3)?;
    let missed = |name| count(&machine, name, "deadline_misses");
    let before = missed("camera");
    said(&machine, &["park", "camera"], 0)?;
    ensure!(field(&machine, "camera", "phase") == Some("parked".into()));
    let jobs = count(&machine, "camera", "jobs");
    runs(&machine, "lanes", 10)?;
    ensure!(count(&machine, "camera", "jobs") == jobs, "it ran");
    said(&machine, &["resume", "camera"], 0)?;
    runs(&machine, "camera", 10)?;
    ensure!(field(&machine, "camera", "class") == Some("realtime".into()));
    ensure!(missed("camera") == before, "{}", daemon.stderr());
    ensure!(missed("lanes") == 0, "{}", daemon.stderr());
    camera.finish_dnn(BOUND, 60)?;
    lanes.finish_dnn(BOUND, 120)?;
    Ok(())
}
