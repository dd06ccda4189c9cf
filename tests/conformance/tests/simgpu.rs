//! The simulated GPU agrees with all that is believed of the driver, and answers every question.
#![allow(missing_docs)]

use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_conformance::case::{Outcome, Row};
use rtswap_conformance::cases;
use rtswap_e2e::{Machine, MachineOptions, Program};

#[test]
fn the_simulated_gpu_is_what_is_believed_of_the_driver() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        // So that the wait for a dead process's memory is one.
        simgpu_toml: "release_lag_ms = 50\n".into(),
        ..MachineOptions::default()
    })?;
    let mut command = machine.command(env!("CARGO_BIN_EXE_conformance"));
    command.arg("--json");
    let finished = Program::start(command)?.finish(Duration::from_mins(3))?;
    let rows = finished.stdout.lines().map(serde_json::from_str);
    let rows = rows.collect::<Result<Vec<Row>, _>>()?;
    ensure!(rows.len() == cases::all().count(), "{} rows", rows.len());
    let others = rows.iter().filter(|row| row.outcome != Outcome::Agrees);
    let others: Vec<String> = others
        .map(|row| format!("{}: {:?}: {}", row.name, row.outcome, row.seen))
        .collect();
    ensure!(others.is_empty(), "{}", others.join("\n"));
    ensure!(finished.status.success(), "{}", finished.stderr);
    Ok(())
}
