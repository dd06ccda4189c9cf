//! A program that closes descriptors which are not its own.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, probe};

#[test]
fn a_program_may_close_every_descriptor_and_keeps_its_own() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let program = probe("closer", &machine.path(""), &machine.driver_dir())?;
    let end = Program::start(machine.preloaded(program))?.finish(Duration::from_secs(30))?;
    let report = end.json()?;
    ensure!(
        report["lost_bytes"] == 0 && report["closed"] == 0 && report["wrong_words"] == 0,
        "{report}"
    );
    let busy = report["busy_ms"].as_u64().context("no busy_ms")?;
    ensure!(busy < 300, "the swap thread spins: {report}");
    Ok(())
}
