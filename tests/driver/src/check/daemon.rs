//! The daemon's eBPF probes on real drivers: they attach, see calls and detach.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Daemon, Machine, MachineOptions, wait_until};
use rtswap_probe_abi::functions::FUNCTIONS;

use crate::library::Library;
use crate::report::Row;

use super::Bench;

const CHECK: &str = "the daemon's probes";
const BOUND: Duration = Duration::from_secs(30);
/// Rounds of calls that are made under the probes.
const ROUNDS: usize = 100;
/// What is called: each fails without a device.
const CALLED: [&str; 2] = ["cuMemAlloc_v2", "cuMemCreate"];

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    if bench.drivers.is_empty() {
        return Ok(Vec::new());
    }
    let machine = Machine::new(MachineOptions {
        probes: true,
        ..MachineOptions::default()
    })?;
    let daemon = machine.daemon()?;
    let state = machine.probes_state(BOUND)?;
    if state.starts_with("missing") {
        return Ok(vec![Row::skipped("all", CHECK, format!("probes {state}"))]);
    }
    bench
        .drivers
        .iter()
        .map(|library| watched(bench, &daemon, library))
        .collect()
}

fn watched(bench: &Bench, daemon: &Daemon, library: &Library) -> Result<Row> {
    let path = library.path.canonicalize()?;
    let path = path.to_string_lossy();
    let mut program = bench.probe().caller(library, CALLED)?;
    program.wait_for_line("ready", BOUND)?;
    let line = said(daemon, "probes attached", &path)?;
    let functions = number(&line, "functions=").with_context(|| line.clone())?;
    for round in 1..=ROUNDS {
        program.say("\n")?;
        wait_until("a call under the probes", BOUND, || {
            program.stdout().matches("called").count() == round || !program.is_running()
        })?;
        ensure!(
            program.is_running(),
            "under the probes it ended: {}",
            program.stderr()
        );
    }
    drop(program);
    said(daemon, "probes detached", &path)?;
    let expected = FUNCTIONS.iter().filter(|on| library.has(on.symbol)).count();
    let row = Row::new(&library.name, CHECK)
        .count(functions, "functions attached")
        .count(ROUNDS * CALLED.len(), "calls survived");
    let fault = format!("{expected} of the functions are in the library");
    Ok(row.faults((functions != expected).then_some(fault)))
}

/// Waits for a line of the daemon's log that has both texts.
fn said(daemon: &Daemon, what: &str, path: &str) -> Result<String> {
    let mut found = None;
    wait_until(what, BOUND, || {
        let log = daemon.stderr();
        let mut lines = log.lines();
        found = lines
            .find(|line| line.contains(what) && line.contains(path))
            .map(str::to_owned);
        found.is_some()
    })
    .with_context(|| daemon.stderr())?;
    found.context("it was there")
}

fn number(line: &str, field: &str) -> Option<usize> {
    let (_, rest) = line.split_once(field)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_the_log() {
        let line = "DEBUG probes attached functions=37 path=/x/libcuda.so.1";
        assert_eq!(number(line, "functions="), Some(37));
        assert_eq!(number(line, "calls="), None);
    }
}
