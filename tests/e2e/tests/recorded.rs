//! `RTSWAP_RECORD`: what a program allocates and when its jobs run, line by line.
#![allow(missing_docs)]

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);
const MIB: u64 = 1 << 20;

/// The record of a program's only process.
fn record(machine: &Machine) -> Result<Vec<Value>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(machine.path(""))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("record.") {
            files.push(path);
        }
    }
    ensure!(files.len() == 1, "{files:?}");
    let text = fs::read_to_string(&files[0])?;
    let lines = text.lines().map(serde_json::from_str);
    lines
        .collect::<Result<_, _>>()
        .with_context(|| text.clone())
}

#[test]
fn a_program_is_recorded_with_the_names_of_its_jobs() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let program = probe("named", &machine.path(""), &machine.driver_dir())?;
    let mut command = machine.run(&["--name", "named"], program);
    command
        .args(["20", "5"])
        .env("RTSWAP_RECORD", machine.path("record"));
    let end = Program::start(command)?.finish(BOUND)?;
    ensure!(end.status.success(), "{}", end.stderr);

    let lines = record(&machine)?;
    ensure!(
        lines[0]["event"] == "start" && lines[0]["program"] == "named",
        "{}",
        lines[0]
    );
    ensure!(
        lines[1]["event"] == "gpu" && lines[1]["chunk_bytes"] == 2 * MIB,
        "{}",
        lines[1]
    );
    let jobs: Vec<_> = lines.iter().filter(|line| line["event"] == "job").collect();
    let named = |name: &str| jobs.iter().filter(|job| job["name"] == name).count();
    ensure!((named("front"), named("rear")) == (10, 10), "{jobs:?}");
    ensure!(
        jobs.iter()
            .any(|job| job["kind"] == "declared" && job.get("name").is_none())
    );
    for job in &jobs {
        let at = |key: &str| job[key].as_u64().unwrap_or(0);
        ensure!(at("requested_ns") <= at("granted_ns"), "{job}");
        ensure!(at("granted_ns") < at("completed_ns"), "{job}");
        ensure!(at("arena_bytes") <= 12 * MIB, "{job}");
        ensure!(at("unswappable_bytes") > 0, "its context: {job}");
    }
    let large = |event: &str| {
        let of = lines.iter().filter(|line| line["event"] == event);
        of.filter(|line| line["bytes"] == 8 * MIB && line["kind"] == "arena")
            .count()
    };
    ensure!((large("alloc"), large("free")) == (20, 20));
    Ok(())
}

#[test]
fn a_record_that_cannot_be_written_is_said_and_the_program_runs() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let program = probe("named", &machine.path(""), &machine.driver_dir())?;
    let mut command = machine.run(&["--name", "named"], program);
    command
        .args(["3", "1"])
        .env("RTSWAP_RECORD", machine.path("nowhere/record"));
    let end = Program::start(command)?.finish(BOUND)?;
    ensure!(end.status.success(), "{}", end.stderr);
    let said: Vec<_> = end.stderr.lines().collect();
    ensure!(
        said.len() == 1 && said[0].contains("cannot be written"),
        "{said:?}"
    );
    Ok(())
}
