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

/// Of the 768 MiB of the simulated GPU, 756 of them to hand out: the first two fit together.
const STOPPED: &str = "400MiB";
const FITS: &str = "64MiB";
const LARGE: &str = "440MiB";
/// Of the one that is stopped: more than it does before that.
const HELD: u64 = 30;
/// Of the one that fits: a minute is enough for them, and 20 s are not.
const MANY: u64 = 25;
/// Of the one that does not fit.
const FEW: u64 = 4;

fn stopped(machine: &Machine) -> Result<()> {
    let held = program(machine, "held", STOPPED, "500ms", HELD)?;
    let beside = program(machine, "beside", FITS, "1s", MANY)?;
    machine.wait("both have run", Duration::from_secs(30), |machine| {
        Ok(jobs(machine, "held")? > 0 && jobs(machine, "beside")? > 0)
    })?;
    let pid = stop_active(machine, "held")?;
    let at = Instant::now();
    let before = jobs(machine, "beside")?;
    machine.wait("the one that fits goes on", GOES_ON + ASKING, |machine| {
        Ok(jobs(machine, "beside")? > before)
    })?;
    let large = program(machine, "large", LARGE, "1s", FEW)?;
    let reason = format!("process {pid} is stopped since");
    machine.wait("the large one is told", IS_TOLD + ASKING, |machine| {
        Ok(said(machine, "large")?.contains(&reason))
    })?;
    let waits = text(machine, "large", "waits")?;
    ensure!(waits.contains(&reason), "the large one waits: {waits:?}");
    let waits = text(machine, "held", "waits")?;
    ensure!(
        waits.contains("stopped since"),
        "the stopped one waits: {waits:?}"
    );
    finish(beside, "beside", MANY)?;
    ensure!(
        at.elapsed() < SPAN,
        "the one that fits took longer than {SPAN:?}"
    );
    thread::sleep(SPAN.saturating_sub(at.elapsed()));
    let done = jobs(machine, "large")?;
    ensure!(
        done == 0,
        "the large one found room beside the stopped one for {done} jobs"
    );
    machine.run(&["kill", "-CONT", &pid.to_string()])?.ok()?;
    finish(held, "held", HELD)?;
    finish(large, "large", FEW)
}

/// Starts a program with a job in each `period`. What it says is kept, for others to read meanwhile.
fn program(machine: &Machine, name: &str, memory: &str, period: &str, jobs: u64) -> Result<Child> {
    let mut command = swapping::command(machine, name, memory, period, jobs);
    let said = File::create(machine.shared().join(name))?;
    let command = command
        .arg("--progress")
        .stdout(Stdio::piped())
        .stderr(said);
    command.spawn().context("nsenter")
}

fn said(machine: &Machine, name: &str) -> Result<String> {
    Ok(fs::read_to_string(machine.shared().join(name))?)
}

/// The jobs that a program has done, by its own account: while it is late, rtswap takes several for one.
fn jobs(machine: &Machine, name: &str) -> Result<usize> {
    let said = said(machine, name)?;
    let jobs = said.lines().filter(|line| line.starts_with("job "));
    Ok(jobs.count())
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

fn text(machine: &Machine, name: &str, key: &str) -> Result<String> {
    let status = status(machine)?;
    let task = task(&status, name).context("it is gone")?;
    Ok(task[key].as_str().unwrap_or_default().to_owned())
}
