//! A process that is stopped (SIGSTOP, a debugger) stops nobody else.
#![allow(missing_docs)]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const BOUND: Duration = Duration::from_mins(1);

/// A program of `mib` MiB with a job every 20 ms.
fn dnn(machine: &Machine, name: &str, mib: u32, jobs: u64) -> Result<Program> {
    let name = format!("--name={name}");
    let mut command = machine.run(&[&name], machine.dnn());
    command.args(["--json", "--memory", &format!("{mib}MiB"), "--layers", "4"]);
    command.args(["--period", "20ms", "--jobs", &jobs.to_string()]);
    Program::start(command)
}

fn send(program: &Program, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(program.pid().cast_signed()).context("a process")?;
    Ok(kill_process(pid, signal)?)
}

fn text(machine: &Machine, name: &str, key: &str) -> String {
    let task = machine.task(name).ok().flatten().unwrap_or_default();
    task[key].as_str().unwrap_or_default().to_owned()
}

fn jobs(machine: &Machine, name: &str) -> u64 {
    let task = machine.task(name).ok().flatten().unwrap_or_default();
    task["jobs"].as_u64().unwrap_or_default()
}

/// Stops a program while it runs a job or swaps in.
fn stop_active(machine: &Machine, program: &Program, name: &str) -> Result<()> {
    wait_until("it is active", BOUND, || {
        let phase = text(machine, name, "phase");
        if !["running", "swapping-in"].contains(&phase.as_str()) {
            return false;
        }
        let stopped = send(program, Signal::STOP).is_ok();
        // It may have become idle meanwhile.
        let phase = text(machine, name, "phase");
        if stopped && ["running", "swapping-in"].contains(&phase.as_str()) {
            return true;
        }
        let _ = send(program, Signal::CONT);
        false
    })
}

#[test]
fn a_program_that_fits_beside_a_stopped_one_goes_on() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let stopped = dnn(&machine, "stopped", 20, 400)?;
    let other = dnn(&machine, "other", 20, 200)?;
    wait_until("both run", BOUND, || {
        jobs(&machine, "stopped") > 3 && jobs(&machine, "other") > 3
    })?;
    stop_active(&machine, &stopped, "stopped")?;
    let (before, at) = (jobs(&machine, "other"), Instant::now());
    wait_until("the other goes on", Duration::from_secs(10), || {
        jobs(&machine, "other") > before + 2
    })?;
    let took = at.elapsed();
    ensure!(took < Duration::from_secs(2), "{took:?}");
    other.finish_dnn(BOUND, 200)?;
    send(&stopped, Signal::CONT)?;
    // Not one wrong byte.
    stopped.finish_dnn(BOUND, 400)?;
    Ok(())
}

#[test]
fn a_program_that_does_not_fit_beside_a_stopped_one_is_told_of_it() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    let stopped = dnn(&machine, "stopped", 40, 400)?;
    let other = dnn(&machine, "other", 40, 200)?;
    wait_until("both run", BOUND, || {
        jobs(&machine, "stopped") > 3 && jobs(&machine, "other") > 3
    })?;
    stop_active(&machine, &stopped, "stopped")?;
    let at = Instant::now();
    let says = format!("process {} is stopped since", stopped.pid());
    other
        .wait_for_complaint(&says, Duration::from_secs(15))
        .with_context(|| daemon.stderr())?;
    let took = at.elapsed();
    ensure!(took < Duration::from_secs(6), "{took:?}");
    let status = text(&machine, "stopped", "waits");
    ensure!(status.contains("stopped since"), "{status}");
    let why = text(&machine, "other", "waits");
    ensure!(why.contains(&says), "{why}");
    send(&stopped, Signal::CONT)?;
    stopped.finish_dnn(BOUND, 400)?;
    other.finish_dnn(BOUND, 200)?;
    Ok(())
}

/// While it loads, another takes turns with it: it waits often and briefly, before it lacks what the stopped one holds.
#[test]
fn a_program_that_loads_beside_another_is_told_of_a_stopped_one() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        link_gib_per_s: 0.026,
        ..MachineOptions::default()
    })?;
    let daemon = machine.daemon()?;
    let stopped = dnn(&machine, "stopped", 30, 400)?;
    let beside = dnn(&machine, "beside", 18, 400)?;
    wait_until("both run", BOUND, || {
        jobs(&machine, "stopped") > 3 && jobs(&machine, "beside") > 3
    })?;
    stop_active(&machine, &stopped, "stopped")?;
    let large = dnn(&machine, "large", 40, 1)?;
    let at = Instant::now();
    let says = format!("process {} is stopped since", stopped.pid());
    large
        .wait_for_complaint(&says, Duration::from_secs(15))
        .with_context(|| daemon.stderr())?;
    let took = at.elapsed();
    ensure!(took < Duration::from_secs(6), "{took:?}");
    drop((stopped, beside));
    large.finish_dnn(BOUND, 1)?;
    Ok(())
}

#[test]
fn a_stopped_program_is_killed_where_the_file_says_so() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        daemon_toml: "[daemon]\non_stopped = \"kill\"".into(),
        ..MachineOptions::default()
    })?;
    let daemon = machine.daemon()?;
    let mut stopped = dnn(&machine, "stopped", 40, 400)?;
    let other = dnn(&machine, "other", 40, 100)?;
    wait_until("both run", BOUND, || {
        jobs(&machine, "stopped") > 3 && jobs(&machine, "other") > 3
    })?;
    stop_active(&machine, &stopped, "stopped")?;
    other
        .finish_dnn(BOUND, 100)
        .with_context(|| daemon.stderr())?;
    wait_until("it is killed", BOUND, || !stopped.is_running())?;
    ensure!(
        daemon.stderr().contains("it is killed"),
        "{}",
        daemon.stderr()
    );
    Ok(())
}

#[test]
fn a_program_may_be_stopped_at_any_point_of_a_job() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let daemon = machine.daemon()?;
    let stopped = dnn(&machine, "stopped", 40, 900)?;
    let other = dnn(&machine, "other", 40, 900)?;
    wait_until("both run", BOUND, || {
        jobs(&machine, "stopped") > 3 && jobs(&machine, "other") > 3
    })?;
    for turn in 0..6 {
        // Queue, swap-out, swap-in and execution all take some tens of milliseconds.
        std::thread::sleep(Duration::from_millis(100 + 27 * turn));
        send(&stopped, Signal::STOP)?;
        std::thread::sleep(Duration::from_secs(1));
        send(&stopped, Signal::CONT)?;
        let (one, another) = (jobs(&machine, "stopped"), jobs(&machine, "other"));
        wait_until("both go on", Duration::from_secs(10), || {
            jobs(&machine, "stopped") > one && jobs(&machine, "other") > another
        })
        .with_context(|| format!("turn {turn}: {}", daemon.stderr()))?;
    }
    stopped.finish_dnn(BOUND, 900)?;
    other.finish_dnn(BOUND, 900)?;
    Ok(())
}
