//! Programs that leave the GPU because they have idled for as long as they may, before others need their memory.
#![allow(missing_docs)]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, unless_stalled, wait_until};
use serde_json::Value;

const BOUND: Duration = Duration::from_mins(1);
const MIB: u64 = 1 << 20;
/// The weights of a program: two fit on 64 MiB.
const WEIGHTS: u64 = 16 * MIB;
/// A context takes less.
const CONTEXT: u64 = 8 * MIB;
const IDLE: Duration = Duration::from_millis(500);
/// After its time a task has left within this.
const LEAVING: Duration = Duration::from_secs(1);

/// Starts a dnn that is idle for seconds between its jobs.
fn dnn(machine: &Machine, options: &[&str], jobs: u64) -> Result<Program> {
    let mut command = machine.run(options, machine.dnn());
    command.args(["--json", "--progress", "--layers", "4", "--period", "3s"]);
    command.args(["--memory", "16MiB", "--jobs", &jobs.to_string()]);
    Program::start(command)
}

fn count(task: &Value, key: &str) -> u64 {
    task[key].as_u64().unwrap_or_default()
}

/// Waits until the task `name` has left the GPU so many times, but for its context.
fn leaves(machine: &Machine, name: &str, times: u64) -> Result<()> {
    wait_until(&format!("{name} leaves"), BOUND, || {
        let task = machine.task(name).ok().flatten();
        // The status may be of a moment ago, when it had left before: what has moved in all tells.
        task.is_some_and(|task| {
            count(&task, "swap_out_bytes_total") >= times * WEIGHTS
                && count(&task, "swapped_bytes") >= WEIGHTS
                && count(&task, "resident_bytes") < CONTEXT
        })
    })
}

fn device_used(machine: &Machine) -> Result<u64> {
    Ok(count(&machine.status()?["gpus"][0], "device_used_bytes"))
}

#[test]
fn an_idle_program_leaves_the_gpu_though_nobody_needs_it_and_comes_back_with_its_job() -> Result<()>
{
    unless_stalled("a program that leaves in time", || {
        let machine = Machine::new(MachineOptions::default())?;
        let daemon = machine.daemon()?;
        let leaving = dnn(&machine, &["--name=leaving", "--idle-after=500ms"], 3)?;
        let staying = dnn(&machine, &["--name=staying"], 3)?;
        for job in 1..=2 {
            leaving.wait_for_complaint(&format!("job {job}"), BOUND)?;
            let ended = Instant::now();
            leaves(&machine, "leaving", job).with_context(|| daemon.stderr())?;
            let took = ended.elapsed();
            ensure!(took <= IDLE + LEAVING, "it left after {took:?}");
            let task = machine.task("leaving")?.context("it is registered")?;
            ensure!(task["idle_after_us"] == 500_000, "{task}");
        }
        // The driver has the memory back, not only the books.
        wait_until("NVML tells of it", BOUND, || {
            device_used(&machine).is_ok_and(|used| used <= WEIGHTS + 3 * CONTEXT)
        })?;
        let stays = machine.task("staying")?.context("it is registered")?;
        ensure!(count(&stays, "resident_bytes") >= WEIGHTS, "{stays}");
        ensure!(count(&stays, "swap_out_bytes_total") == 0, "{stays}");
        ensure!(stays["idle_after_us"] == 0, "{stays}");
        leaving.finish_dnn(BOUND, 3)?;
        staying.finish_dnn(BOUND, 3)
    })
}

#[test]
fn a_rule_of_the_policy_reaches_programs_that_idle_already() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let program = dnn(&machine, &["--name=model"], 3)?;
    program.wait_for_complaint("job 1", BOUND)?;
    let mut command = machine.command(machine.binary("rtswapctl"));
    command.args(["policy", "set", "idle_after=200ms"]);
    let set = Program::start(command)?.finish(BOUND)?;
    ensure!(set.status.success(), "{}", set.stderr);
    leaves(&machine, "model", 1)?;
    let task = machine.task("model")?.context("it is registered")?;
    ensure!(task["idle_after_us"] == 200_000, "{task}");
    program.finish_dnn(BOUND, 3)
}
