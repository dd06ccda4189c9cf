//! Models run from their profiles alone, together more than the GPU has memory for.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, Program, wait_until};
use rtswap_taskset::profile::Profile;
use serde_json::Value;

use crate::measure::rtswapctl;
use crate::models::Model;

/// A plan, and what a program says at its end.
const BOUND: Duration = Duration::from_secs(30);
/// Before the jobs that count: all models have loaded by then. Until its memory is in place a model is best-effort, without
/// a deadline, and its jobs here are longer than best-effort jobs may take to leave the GPU, so that each has its owner be
/// barred for a second or two while the others load.
const WARMUP: u32 = 10;
/// How far the periods are apart, as the demo's are.
const RATIOS: [u64; 3] = [14, 18, 20];
/// The periods grow by this part until a plan holds, and then once by more: `plan` does not know what the daemon keeps
/// free for best-effort (docs/profile.md).
const STEP: u32 = 20;
const ROOM: u32 = 5;
/// A model must have done so many of the jobs that its period has room for, in per cent.
const LEAST_PERCENT: u64 = 95;

/// A model with its profile and the period that it is promised.
struct Promised<'a> {
    model: &'a Model,
    period: Duration,
}

/// Runs the models as long as `span` with the shortest periods that `rtswapctl plan` accepts, and has nothing be missed.
pub(crate) fn keep(machine: &Machine, models: &[(Model, Profile)], span: Duration) -> Result<()> {
    let needed: u64 = models.iter().map(|(_, it)| it.memory.footprint.0).sum();
    ensure!(needed > machine.memory_bytes(), "all fit: {needed} bytes");
    // What was profiled last still counts until NVML shows that it has gone.
    wait_until("the GPU is free", BOUND, || {
        let status = machine.status().unwrap_or_default();
        let gpu = &status["gpus"][0];
        gpu["device_used_bytes"] == 0 && gpu["unmanaged_bytes"] == 0
    })?;
    let promised = plan(machine, models)?;
    let mut programs = Vec::new();
    for it in &promised {
        programs.push(start(machine, it, span)?);
    }
    let has_reported = |it: &Program| it.stdout().lines().any(|line| line.starts_with('{'));
    wait_until("all models report", 2 * span + BOUND, || {
        programs
            .iter_mut()
            .all(|it| has_reported(it) || !it.is_running())
    })?;
    for (it, program) in promised.iter().zip(&programs) {
        let name = it.model.name;
        ensure!(has_reported(program), "{name}: {}", program.stderr());
    }
    // The programs hold their memory, and their tasks last, until their input ends.
    let status = machine.status()?;
    for (it, program) in promised.iter().zip(programs) {
        let name = it.model.name;
        let task = status["tasks"].as_array();
        let task = task.and_then(|all| all.iter().find(|task| task["name"] == name));
        let task = task.with_context(|| format!("no {name} in {status}"))?;
        judge(it, span, task, program)?;
    }
    Ok(())
}

/// Periods that the plan accepts, a little above the shortest of a grid.
fn plan<'a>(machine: &Machine, models: &'a [(Model, Profile)]) -> Result<Vec<Promised<'a>>> {
    let longest = models.iter().map(|(_, it)| it.wcet.0).max();
    let unit = Duration::from_nanos(longest.context("no models")? / RATIOS[0]);
    for size in 1..1_000 {
        let unit = unit + unit * size / STEP;
        if accept(machine, &promised(models, unit))?.is_some() {
            let promised = promised(models, unit + unit / ROOM);
            let told = accept(machine, &promised)?;
            println!("{}", told.context("longer periods are refused")?);
            return Ok(promised);
        }
    }
    anyhow::bail!("no plan with any periods")
}

fn promised(models: &[(Model, Profile)], unit: Duration) -> Vec<Promised<'_>> {
    let periods = RATIOS.map(|ratio| (unit * ratio as u32).as_millis() as u64);
    let models = models.iter().zip(periods);
    let promised = models.map(|((model, _), period)| Promised {
        model,
        period: Duration::from_millis(period),
    });
    promised.collect()
}

/// What the plan says if it accepts.
fn accept(machine: &Machine, promised: &[Promised<'_>]) -> Result<Option<String>> {
    let tasks = promised.iter();
    let tasks = tasks.map(|it| format!("{}:{}ms", it.model.name, it.period.as_millis()));
    let mut command = rtswapctl(machine);
    command.arg("plan").args(tasks);
    let end = Program::start(command)?.finish(BOUND)?;
    match end.status.code() {
        Some(0) => Ok(Some(end.stdout)),
        Some(1) => Ok(None),
        _ => anyhow::bail!("{}{}", end.stdout, end.stderr),
    }
}

fn start(machine: &Machine, it: &Promised<'_>, span: Duration) -> Result<Program> {
    let period = format!("{}ms", it.period.as_millis());
    let mut command = rtswapctl(machine);
    command
        .args(["run", "--name", it.model.name, "--period", &period, "--"])
        .arg(machine.dnn());
    it.model.arguments(&mut command);
    command
        .args(["--period", &period, "--json", "--hold"])
        .args(["--warmup", &WARMUP.to_string()])
        .args(["--duration", &format!("{}ms", span.as_millis())]);
    Program::start(command)
}

/// Both accounts have the same: the program's, from its releases on, and the daemon's, from its requests on.
fn judge(it: &Promised<'_>, span: Duration, task: &Value, mut program: Program) -> Result<()> {
    let name = it.model.name;
    program.end_input();
    let end = program.finish(BOUND)?;
    let report = end.json()?;
    ensure!(
        end.stderr.contains("measured over"),
        "{name} was not run from its profile: {}",
        end.stderr
    );
    println!(
        "{name}: period {:?}, {} jobs, response {}, {} missed, {} wrong; rtswapd: {} jobs, {} missed, {} MiB swapped out",
        it.period,
        report["jobs"],
        report["response_ms"],
        report["deadline_misses"],
        report["checksum_errors"],
        task["jobs"],
        task["deadline_misses"],
        task["swap_out_bytes_total"].as_u64().unwrap_or_default() >> 20,
    );
    ensure!(task["class"] == "realtime", "{task}");
    ensure!(report["checksum_errors"] == 0, "{name}: {report}");
    ensure!(report["deadline_misses"] == 0, "{name}: {report}");
    ensure!(task["deadline_misses"] == 0, "{task}");
    let jobs = report["jobs"].as_u64().context("no jobs")?;
    let room = (span.as_nanos() / it.period.as_nanos()) as u64;
    ensure!(
        jobs * 100 >= room * LEAST_PERCENT,
        "{name}: {jobs} jobs of {room}"
    );
    Ok(())
}
