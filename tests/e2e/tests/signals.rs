//! A program's own SIGUSR1, in every way to receive it: none lost, none eaten, swaps still work.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe};

const ROUNDS: u64 = 600;
const BOUND: Duration = Duration::from_secs(90);

fn receives(mode: &str, expected: u64) -> Result<()> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 24,
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
    let _rival = Program::start(rival)?;
    let mut command = machine.preloaded(program);
    command.args([mode, &ROUNDS.to_string()]);
    let program = Program::start(command)?;
    let pid = program.pid();
    let end = program.finish(BOUND)?;
    let report = end.json()?;
    ensure!(report["wrong_words"] == 0, "{mode}: {report}");
    ensure!(
        report["sent"] == ROUNDS && report["received"] == expected,
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
    receives("handler", ROUNDS)
}

#[test]
fn a_sigwait_thread_gets_every_signal() -> Result<()> {
    receives("sigwait", ROUNDS)
}

#[test]
fn a_signalfd_gets_every_signal() -> Result<()> {
    receives("signalfd", ROUNDS)
}

#[test]
fn ignored_signals_stay_ignored_and_swaps_work() -> Result<()> {
    receives("ignored", 0)
}
