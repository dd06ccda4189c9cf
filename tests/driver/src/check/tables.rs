//! The private tables that docs/doors.md names are those of real drivers.

use anyhow::Result;

use crate::library::Library;
use crate::report::Row;
use crate::tables::TABLES;

use super::{Bench, each};

const CHECK: &str = "export tables";

/// What no driver has a table for.
const UNKNOWN: &str = "00000000000000000000000000000001";

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    each(&bench.drivers, CHECK, |library| answered(bench, library))
}

fn answered(bench: &Bench, library: &Library) -> Result<Row> {
    let asked = TABLES.iter().map(|table| table.uuid).chain([UNKNOWN]);
    let found = bench.probe().tables(library, asked)?;
    let branch = library.branch();
    let faults: Vec<String> = TABLES
        .iter()
        .filter(|table| Some(table.since) <= branch && !found.contains(table.uuid))
        .map(|table| format!("{}: no such table any more", table.uuid))
        .chain(
            found
                .contains(UNKNOWN)
                .then(|| "it answers any UUID".to_owned()),
        )
        .collect();
    Ok(Row::new(&library.name, CHECK)
        .count(TABLES.len(), "tables asked for")
        .count(found.len(), "answered")
        .faults(faults))
}
