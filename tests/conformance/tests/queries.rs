//! Every query that simgpu exports is in a table of the room `width`, and those that it refuses are refused.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSymbol};
use rtswap_conformance::case::{Outcome, Row};
use rtswap_conformance::cases::width::{REFUSED, queries};
use rtswap_e2e::{Machine, MachineOptions, Program};

/// What a function that only tells something has in its name.
const TELLS: [&str; 8] = [
    "Get",
    "Query",
    "CanAccess",
    "Compute",
    "Elapsed",
    "TotalMem",
    "IsCapturing",
    "IsLoaded",
];

/// Written to a list of places, which another check of the room gives.
const LISTED: [&str; 1] = ["cuPointerGetAttributes"];

fn is_query(name: &str) -> bool {
    let is_driver = name
        .strip_prefix("cu")
        .is_some_and(|rest| rest.starts_with(char::is_uppercase));
    let tells = TELLS.iter().any(|word| name.contains(word));
    is_driver && (tells || name.starts_with("cuOccupancy"))
}

#[test]
fn every_query_is_in_a_table() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let driver = machine.driver_dir().join("libcuda.so.1");
    let bytes = fs::read(&driver).with_context(|| driver.display().to_string())?;
    let file = object::File::parse(&*bytes)?;
    let exported: BTreeSet<&str> = file
        .dynamic_symbols()
        .filter(ObjectSymbol::is_definition)
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| is_query(name))
        .collect();
    let refused = REFUSED.iter().flat_map(|(_, names)| *names);
    let tabled: BTreeSet<&str> = queries().map(|query| query.name).chain(LISTED).collect();
    let known: BTreeSet<&str> = tabled.iter().chain(refused).copied().collect();
    let missing: Vec<_> = exported.difference(&known).collect();
    ensure!(missing.is_empty(), "in no table: {missing:?}");
    let gone: Vec<_> = tabled
        .iter()
        .filter(|name| is_query(name) && !exported.contains(*name))
        .collect();
    ensure!(gone.is_empty(), "not exported: {gone:?}");
    ensure!(exported.len() > 150, "only {} queries", exported.len());
    Ok(())
}

/// Queries without an answer: a GPU has no peer in itself, addresses of host memory and of variables have more than 32 bits,
/// a pool has the attributes of CUDA 12, nobody a table of an unknown id.
const UNANSWERED: [&str; 5] = [
    "cuDeviceGetP2PAttribute",
    "cuGetExportTable",
    "cuMemHostGetDevicePointer",
    "cuMemPoolGetAttribute",
    "cuModuleGetGlobal",
];

#[test]
fn every_query_of_the_tables_is_answered_but_for_these() -> Result<()> {
    let machine = Machine::new(MachineOptions {
        gpus: 2,
        ..MachineOptions::default()
    })?;
    let mut command = machine.command(env!("CARGO_BIN_EXE_conformance"));
    command.args(["--json", "width/"]);
    let finished = Program::start(command)?.finish(Duration::from_mins(1))?;
    let rows = finished.stdout.lines().map(serde_json::from_str);
    let rows = rows.collect::<Result<Vec<Row>, _>>()?;
    let differ: Vec<_> = rows
        .iter()
        .filter(|row| row.outcome != Outcome::Agrees)
        .collect();
    ensure!(differ.is_empty(), "{differ:?}");
    let seen = rows.iter().flat_map(|row| row.seen.split(", "));
    let mut unanswered: Vec<&str> = seen.filter_map(|part| part.strip_prefix("not ")).collect();
    unanswered.sort_unstable();
    unanswered.dedup();
    ensure!(unanswered == UNANSWERED, "{unanswered:?}");
    Ok(())
}

#[test]
fn what_is_listed_as_refused_is_refused_and_writes_nothing() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let mut command = machine.command(env!("CARGO_BIN_EXE_conformance"));
    command.args(["--role", "refuse"]);
    let finished = Program::start(command)?.finish(Duration::from_secs(30))?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    ensure!(finished.stdout.is_empty(), "answered: {}", finished.stdout);
    Ok(())
}
