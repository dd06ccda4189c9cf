//! A task that dies, at any instant, harms nobody else.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};

const BOUND: Duration = Duration::from_mins(1);

/// When the victim is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Before,
    During,
    After,
}

/// Two tasks of 40 MiB on a GPU of 64: each job of one has the other's memory leave.
fn machine() -> Result<Machine> {
    Machine::new(MachineOptions {
        link_gib_per_s: 0.25,
        ..MachineOptions::default()
    })
}

fn task(machine: &Machine, name: &str, jobs: u32) -> Result<Program> {
    let mut command = machine.run(&["--name", name], machine.dnn());
    command.args([
        "--json", "--name", name, "--memory", "40MiB", "--layers", "8",
    ]);
    command.args(["--period", "500ms", "--jobs", &jobs.to_string()]);
    Program::start(command)
}

fn kill_at(moment: Moment) -> Result<()> {
    let machine = machine()?;
    let mut daemon = machine.daemon()?;
    let survivor = task(&machine, "survivor", 12)?;
    let mut victim = task(&machine, "victim", 1000)?;
    let (victim_pid, survivor_pid) = (victim.pid(), survivor.pid());
    let swapped = || {
        machine
            .task("victim")
            .ok()
            .flatten()
            .and_then(|task| task["swapped_bytes"].as_u64())
    };
    let moved = || {
        machine
            .counters(victim_pid)
            .map(|counters| counters.d2h_bytes)
    };

    match moment {
        // Its weights are there and nothing has left yet.
        Moment::Before => wait_until("the victim holds memory", BOUND, || {
            machine
                .counters(victim_pid)
                .is_some_and(|counters| counters.launches > 0)
        })?,
        Moment::During => {
            wait_until("the victim swaps out", BOUND, || {
                // Some chunks have left since the last look, and more are to follow: 1 to 19 MiB of
                // an operation that moves at least 20.
                moved().is_some_and(|bytes| (1 << 20..19 << 20).contains(&(bytes % (40 << 20))))
            })?;
        }
        Moment::After => wait_until("the victim is swapped out", BOUND, || {
            swapped().is_some_and(|bytes| bytes >= 16 << 20)
        })?,
    }
    victim.kill()?;
    let newcomer = task(&machine, "newcomer", 3)?;

    wait_until("the daemon forgets the victim", BOUND, || {
        machine.task("victim").is_ok_and(|t| t.is_none())
    })?;
    let newcomer = newcomer.finish(BOUND)?.json()?;
    ensure!(
        newcomer["checksum_errors"] == 0 && newcomer["jobs"] == 3,
        "{newcomer}"
    );
    let report = survivor.finish(BOUND)?.json()?;
    ensure!(report["checksum_errors"] == 0, "{moment:?}: {report}");
    ensure!(
        report["jobs"] == 12,
        "{moment:?}: a job of the survivor was lost: {report}"
    );
    // What the dead held came back, to the last byte.
    wait_until("the GPU is empty", BOUND, || {
        machine.used_bytes(0) == Some(0)
    })?;
    ensure!(
        machine.counters(survivor_pid).is_some(),
        "the witness forgot the survivor"
    );
    ensure!(daemon.is_running(), "the daemon ended");
    Ok(())
}

#[test]
fn killed_before_any_swap() -> Result<()> {
    kill_at(Moment::Before)
}

#[test]
fn killed_in_the_middle_of_a_swap() -> Result<()> {
    kill_at(Moment::During)
}

#[test]
fn killed_while_swapped_out() -> Result<()> {
    kill_at(Moment::After)
}
