//! The daemon's eBPF probes on real drivers: they attach, count calls and detach.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Daemon, Machine, MachineOptions, Program, wait_until};
use rtswap_probe_abi::functions::FUNCTIONS;
use rtswap_probes_test::{Options, Probes};

use crate::library::Library;
use crate::report::Row;

use super::{Bench, each};

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
    each(&bench.drivers, CHECK, |library| {
        watched(bench, &daemon, library)
    })
}

fn watched(bench: &Bench, daemon: &Daemon, library: &Library) -> Result<Row> {
    let path = library.path.canonicalize()?;
    let path = path.to_string_lossy();
    let mut program = bench.probe().caller(library, CALLED)?;
    program.wait_for_line("ready", BOUND)?;
    let line = said(daemon, "probes attached", &path)?;
    let functions = number(&line, "functions=").with_context(|| line.clone())?;
    // Under the daemon's probes and ours at once: the daemon tells nothing of a process that holds nothing.
    let counted = counted(library, &mut program)?;
    drop(program);
    said(daemon, "probes detached", &path)?;
    let there = FUNCTIONS.iter().filter(|on| library.has(on.symbol)).count();
    let (made, mut faults) = (ROUNDS * CALLED.len(), Vec::new());
    if functions != there {
        faults.push(format!("{there} of the functions are in the library"));
    }
    if counted.is_some_and(|counted| counted != made as u64) {
        faults.push(format!("{made} calls were made"));
    }
    let row = Row::new(&library.name, CHECK).count(functions, "functions attached");
    Ok(match counted {
        Some(counted) => row.count(counted as usize, "calls counted"),
        None => row.count(made, "calls made, SKIPPED counting them"),
    }
    .faults(faults))
}

/// Lets the program make its calls, which the driver refuses without a device; how many the probe programs count, where they
/// can be loaded here.
fn counted(library: &Library, program: &mut Program) -> Result<Option<u64>> {
    let mut probes = None;
    if rtswap_probes_test::missing().is_none() {
        let loaded = probes.insert(Probes::load(Options::default())?);
        loaded.attach(&library.path)?;
    }
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
    let Some(probes) = probes else {
        return Ok(None);
    };
    let process = probes.processes()?.remove(&program.pid());
    let process = process.with_context(|| format!("{} was not seen", program.pid()))?;
    Ok(Some(process.failures))
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
