//! cuGetProcAddress hands out exported functions only, and the simulated one answers as the newest real one does.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::library::Library;
use crate::lookups::{self, Lookups};
use crate::report::Row;

use super::Bench;

const CHECK: &str = "cuGetProcAddress";

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    let names = names(bench);
    let mut rows = Vec::new();
    let mut newest: Option<(&Library, Lookups)> = None;
    for library in &bench.drivers {
        let found = bench.probe().lookups(library, names.iter().copied())?;
        rows.push(exported(&library.name, &found));
        newest = Some((library, found));
    }
    let mut probe = bench.probe_of_simulated();
    if let Some((_, real)) = &newest {
        // As a driver of the same version, to which names that came later are unknown.
        probe = probe.with("SIMGPU_CUDA_VERSION", real.driver.to_string());
    }
    let simulated = probe.lookups(&bench.simulated, names.iter().copied())?;
    rows.push(exported("simgpu", &simulated));
    if let Some((library, real)) = newest {
        let differences = lookups::differences(&real, &simulated);
        let compared = real
            .each()
            .filter(|(_, version, _)| *version <= real.driver);
        rows.push(
            Row::new(&library.name, "cuGetProcAddress, simgpu")
                .count(compared.count(), "answers compared")
                .count(differences.len(), "names differ")
                .faults(differences),
        );
    }
    Ok(rows)
}

/// What every library is asked for: the names of all.
pub(super) fn names(bench: &Bench) -> BTreeSet<&str> {
    let libraries = bench.drivers.iter().chain([&bench.simulated]);
    lookups::names(libraries.flat_map(|library| library.exports.keys().map(String::as_str)))
}

fn exported(library: &str, found: &Lookups) -> Row {
    let handed_out = found.each().filter(|(_, _, answer)| answer.is_found());
    let strange: Vec<String> = found
        .each()
        .filter(|(_, _, answer)| !answer.is_exported())
        .map(|(asked, version, _)| {
            let lookups::Question {
                function,
                name,
                flags,
            } = asked;
            format!("{function} {name}, version {version}, flags {flags}: the address of no export")
        })
        .collect();
    Row::new(library, CHECK)
        .count(found.each().count(), "answers")
        .count(handed_out.count(), "addresses")
        .count(strange.len(), "not exported")
        .faults(strange)
}
