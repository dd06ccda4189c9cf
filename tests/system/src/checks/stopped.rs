//! A program that is stopped for a minute, one that fits beside it and one that does not.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::status;
use super::swapping::{self, finish, task};
use crate::machine::Machine;
use crate::report::Report;

pub(super) fn check(report: &mut Report<'_>) {
    report.check(
        "a program stopped for a minute keeps none that fits beside it, and the other is told why",
        stopped,
    );
}

/// How long the program is stopped.
const SPAN: Duration = Duration::from_mins(1);
/// A program that fits beside the stopped one goes on within this.
const GOES_ON: Duration = Duration::from_secs(2);
/// One that does not is told pid and reason within this.
const IS_TOLD: Duration = Duration::from_secs(5);
/// Commands in the system are asked one after the other, while another lane of the same run works.
const ASKING: Duration = Duration::from_secs(1);

/// Of the 768 MiB of the simulated GPU.
const STOPPED: &str = "400MiB";
const FITS: &str = "200MiB";
const LARGE: &str = "440MiB";
/// Of the two that do not fit together. Each of them brings in what the other has pushed out.
const JOBS: u64 = 8;
/// Of the one that fits: a minute is enough for them, and 20 s are not.
const MANY: u64 = 250;

fn stopped(machine: &Machine) -> Result<()> {
    let held = program(machine, "held", STOPPED, "1s", JOBS)?;
    let beside = program(machine, "beside", FITS, "100ms", MANY)?;
    let large = program(machine, "large", LARGE, "1s", JOBS)?;
    machine.wait("all have run", Duration::from_secs(30), |machine| {
        let names = ["held", "beside", "large"];
        Ok(names.iter().all(|name| jobs(machine, name) > 0))
    })?;
    let pid = stop_active(machine, "held")?;
    let at = Instant::now();
    let before = jobs(machine, "beside");
    machine.wait("the one that fits goes on", GOES_ON + ASKING, |machine| {
        Ok(jobs(machine, "beside") > before)
    })?;
    let reason = format!("process {pid} is stopped since");
    machine.wait(
        "the large one is told",
        (IS_TOLD + ASKING).saturating_sub(at.elapsed()),
        |machine| Ok(complaints(machine, "large")?.contains(&reason)),
    )?;
    let waits = text(machine, "large", "waits")?;
    ensure!(waits.contains(&reason), "the large one waits: {waits:?}");
    let waits = text(machine, "held", "waits")?;
    ensure!(
        waits.contains("stopped since"),
        "the stopped one waits: {waits:?}"
    );
    let kept = jobs(machine, "large");
    finish(beside, "beside", MANY)?;
    ensure!(
        at.elapsed() < SPAN,
        "the one that fits took longer than {SPAN:?}"
    );
    thread::sleep(SPAN.saturating_sub(at.elapsed()));
    ensure!(
        jobs(machine, "large") == kept,
        "the large one found room beside the stopped one"
    );
    machine.run(&["kill", "-CONT", &pid.to_string()])?.ok()?;
    finish(held, "held", JOBS)?;
    finish(large, "large", JOBS)
}

/// Starts a program with a job in each `period`. Its complaints are kept, for others to read meanwhile.
fn program(machine: &Machine, name: &str, memory: &str, period: &str, jobs: u64) -> Result<Child> {
    let mut command = swapping::command(machine, name, memory, period, jobs);
    let complaints = File::create(machine.shared().join(name))?;
    let command = command.stdout(Stdio::piped()).stderr(complaints);
    command.spawn().context("nsenter")
}

fn complaints(machine: &Machine, name: &str) -> Result<String> {
    Ok(fs::read_to_string(machine.shared().join(name))?)
}

/// Stops a program while it runs a job or swaps in; its process.
fn stop_active(machine: &Machine, name: &str) -> Result<u64> {
    let mut stopped = 0;
    machine.wait(
        "it is stopped in a job",
        Duration::from_secs(30),
        |machine| {
            let is_active = |status: &Value| {
                let phase = task(status, name).map(|task| task["phase"].clone());
                phase.is_some_and(|phase| phase == "running" || phase == "swapping-in")
            };
            let now = status(machine)?;
            let pid = task(&now, name).and_then(|task| task["pid"].as_u64());
            let pid = pid.context("it has no process")?;
            if !is_active(&now) {
                return Ok(false);
            }
            machine.run(&["kill", "-STOP", &pid.to_string()])?.ok()?;
            // Its job may have ended meanwhile.
            if is_active(&status(machine)?) {
                stopped = pid;
                return Ok(true);
            }
            machine.run(&["kill", "-CONT", &pid.to_string()])?.ok()?;
            Ok(false)
        },
    )?;
    Ok(stopped)
}

/// The jobs that a task has done; none where nobody can say.
fn jobs(machine: &Machine, name: &str) -> u64 {
    let status = status(machine).unwrap_or_default();
    task(&status, name)
        .and_then(|task| task["jobs"].as_u64())
        .unwrap_or_default()
}

fn text(machine: &Machine, name: &str, key: &str) -> Result<String> {
    let status = status(machine)?;
    let task = task(&status, name).context("it is gone")?;
    Ok(task[key].as_str().unwrap_or_default().to_owned())
}
