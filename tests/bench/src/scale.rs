//! The daemon with many processes and tasks: how fast they come and go, the memory it takes, and
//! what it takes of a core while nothing happens.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, compile, wait_until};
use serde_json::Value;

use crate::crowd::Crowd;
use crate::report::{Bound, Report};
use crate::stage::{BOUND, source};

/// Programs under the agent, each started by `rtswapctl run`.
const PROGRAMS: usize = 300;
/// Those of them that have a context and memory: an agent charges a context as 1/64 of the GPU.
const ON_THE_GPU: usize = 40;
/// What each of those allocates, in bytes.
const ALLOCATED: u64 = 2 << 20;
/// Processes besides that say Hello and keep their session: 1,000 tasks with the programs.
const GREETERS: usize = 700;
/// How long an idle daemon is watched.
const WATCHED: Duration = Duration::from_secs(10);
/// So long after the last call it is idle.
const REST: Duration = Duration::from_secs(1);
/// It is asked so often whether all have gone.
const ASKED: Duration = Duration::from_millis(20);

/// All of it, on one daemon.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 384,
        daemon_toml: format!("[daemon]\nmax_tasks_per_user = {}", PROGRAMS + GREETERS),
        ..MachineOptions::default()
    })?;
    let daemon = machine.daemon()?;
    idle(report, &daemon, "without a process")?;

    let program = compile(&source("idle"), &machine.path(""), &machine.driver_dir())?;
    let mut programs = Crowd::new(&machine, "programs")?;
    let begin = Instant::now();
    for number in 0..PROGRAMS {
        let mut command = machine.run(&["--name", &format!("idle-{number}")], &program);
        if number < ON_THE_GPU {
            command.arg(ALLOCATED.to_string());
        }
        programs.add(command, 1)?;
    }
    programs.wait(BOUND)?;
    // `status` may be a moment older than the last answer.
    let mut with = sessions(&machine)?;
    while with < PROGRAMS && begin.elapsed() < BOUND {
        sleep(ASKED);
        with = sessions(&machine)?;
    }
    let took = begin.elapsed().as_secs_f64();
    report
        .measured(
            "300 programs, of which have a session",
            with as f64,
            "programs",
        )
        .bound(Bound::least(PROGRAMS as f64, 0.0));
    report
        .measured(
            "300 programs, from their start to their sessions",
            took,
            "s",
        )
        .bound(Bound::most(5.0, 0.0));
    idle(report, &daemon, "with 300 processes")?;

    let mut greeters = Crowd::new(&machine, "greeters")?;
    let mut command = machine.command(std::env::current_exe()?);
    command.args(["--stay", &GREETERS.to_string()]);
    greeters.add(command, GREETERS)?;
    greeters.wait(BOUND)?;
    let with = sessions(&machine)?;
    report
        .measured(
            "1,000 processes, of which have a session",
            with as f64,
            "processes",
        )
        .bound(Bound::least((PROGRAMS + GREETERS) as f64, 0.0));
    memory(report, &daemon)?;
    greeters.leave(BOUND)?;
    wait_until("700 are forgotten", BOUND, || {
        tasks(&machine).is_ok_and(|tasks| tasks.len() == PROGRAMS)
    })?;

    let begin = Instant::now();
    programs.leave(BOUND)?;
    while !tasks(&machine)?.is_empty() {
        ensure!(begin.elapsed() < BOUND, "the daemon does not forget them");
        sleep(ASKED);
    }
    let took = begin.elapsed().as_secs_f64();
    report
        .measured(
            "300 programs, from their end until nothing is known of them",
            took,
            "s",
        )
        .bound(Bound::most(5.0, 0.0));
    Ok(())
}

/// All tasks in `status`.
fn tasks(machine: &Machine) -> Result<Vec<Value>> {
    let status = machine.status()?;
    let tasks = status["tasks"].as_array().context("status has no tasks")?;
    Ok(tasks.clone())
}

/// How many tasks have a process.
fn sessions(machine: &Machine) -> Result<usize> {
    let with = |task: &&Value| task["pids"].as_array().is_some_and(|ids| !ids.is_empty());
    Ok(tasks(machine)?.iter().filter(with).count())
}

/// What a daemon that has nothing to do takes of one core.
fn idle(report: &mut Report, daemon: &Program, whom: &str) -> Result<()> {
    sleep(REST);
    let (begin, before) = (Instant::now(), cpu_time(daemon)?);
    sleep(WATCHED);
    let share = (cpu_time(daemon)? - before) / begin.elapsed().as_secs_f64();
    report
        .measured(
            &format!("idle daemon, {whom}"),
            100.0 * share,
            "% of a core",
        )
        .bound(Bound::most(0.5, 0.0));
    Ok(())
}

/// What all threads of the daemon have run so far, in seconds.
fn cpu_time(daemon: &Program) -> Result<f64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{}/task", daemon.pid()))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let ns = text.split_whitespace().next().context("empty schedstat")?;
        sum += ns.parse::<u64>()?;
    }
    Ok(sum as f64 / 1e9)
}

/// What the daemon's memory has come to, all that it shares with others included.
fn memory(report: &mut Report, daemon: &Program) -> Result<()> {
    let text = fs::read_to_string(format!("/proc/{}/status", daemon.pid()))?;
    for (key, what) in [("VmRSS:", "now"), ("VmHWM:", "at most")] {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.with_context(|| format!("no {key} in status"))?;
        let kib: f64 = kib.trim().trim_end_matches(" kB").parse()?;
        report
            .measured(
                &format!("memory of the daemon with 1,000 tasks, {what}"),
                kib / 1024.0,
                "MiB",
            )
            .bound(Bound::most(64.0, 0.0).robust());
    }
    Ok(())
}
