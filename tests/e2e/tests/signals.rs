//! A program's own SIGUSR1, in every way to receive it: none lost, none eaten, swaps still work.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe, wait_until};

const ROUNDS: u64 = 1500;
const BOUND: Duration = Duration::from_secs(90);

fn receives(mode: &str, sent: u64, received: u64) -> Result<()> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 32,
        ..MachineOptions::default()
    })?;
    let _daemon = machine.daemon()?;
    let program = probe("signals", &machine.path(""), &machine.driver_dir())?;
    // A second program whose jobs make the first one's memory leave, again and again.
    let mut rival = machine.preloaded(machine.dnn());
    rival.args([
        "--json", "--name", "rival", "--memory", "16MiB", "--layers", "4",
    ]);
    rival.args(["--period", "100ms", "--jobs", "100000"]);
    let rival = Program::start(rival)?;
    wait_until("the rival computes", BOUND, || {
        machine
            .counters(rival.pid())
            .is_some_and(|counters| counters.launches > 20)
    })?;
    let mut command = machine.preloaded(program);
    command.args([mode, &ROUNDS.to_string()]);
    let program = Program::start(command)?;
    let pid = program.pid();
    let end = program.finish(BOUND)?;
    let report = end.json()?;
    ensure!(report["wrong_words"] == 0, "{mode}: {report}");
    ensure!(
        report["sent"] == sent && report["received"] == received,
        "{mode}: {report}"
    );
    // It was really swapped meanwhile: the copy at its end is 4 MiB, the rest are swaps.
    let copied = machine
        .counters(pid)
        .map_or(0, |counters| counters.d2h_bytes);
    ensure!(
        copied > 4 << 20,
        "{mode}: nothing was swapped ({copied} bytes left the GPU)"
    );
    Ok(())
}

#[test]
fn a_handler_gets_every_signal() -> Result<()> {
    receives("handler", ROUNDS, ROUNDS)
}

#[test]
fn a_sigwait_thread_gets_every_signal() -> Result<()> {
    receives("sigwait", ROUNDS, ROUNDS)
}

#[test]
fn a_signalfd_gets_every_signal() -> Result<()> {
    receives("signalfd", ROUNDS, ROUNDS)
}

#[test]
fn ignored_signals_stay_ignored_and_swaps_work() -> Result<()> {
    receives("ignored", ROUNDS, 0)
}

#[test]
fn a_doorbell_discarded_while_pending_is_rung_again() -> Result<()> {
    // None is sent, so none may arrive either: a doorbell is not the program's.
    receives("flips", 0, 0)
}
