//! cuGetProcAddress hands out exported functions only, and the simulated one answers as the newest known one does.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::library::Library;
use crate::lookups::{self, Lookups};
use crate::report::Row;

use super::{Bench, each, without_newest_known};

const CHECK: &str = "cuGetProcAddress";
const COMPARED: &str = "cuGetProcAddress, simgpu";

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = each(&bench.drivers, CHECK, |library| {
        let found = bench.probe().lookups(library, names(bench, library))?;
        Ok(exported(&library.name, &found))
    })?;
    let simulated = &bench.simulated;
    let probe = bench.probe_of_simulated();
    let found = probe.lookups(simulated, names(bench, simulated))?;
    rows.push(exported(&simulated.name, &found));
    rows.extend(without_newest_known(&bench.drivers, COMPARED));
    let compare = |library| compare(bench, library);
    rows.extend(each(bench.standards(), COMPARED, compare)?);
    Ok(rows)
}

fn compare(bench: &Bench, library: &Library) -> Result<Row> {
    let names = names(bench, library);
    let real = bench.probe().lookups(library, names.iter().copied())?;
    // As a driver of the same version, to which names that came later are unknown.
    let probe = bench
        .probe_of_simulated()
        .with("SIMGPU_CUDA_VERSION", real.driver.to_string());
    let simulated = probe.lookups(&bench.simulated, names)?;
    let differences = lookups::differences(&real, &simulated);
    let compared = real
        .each()
        .filter(|(_, version, _)| *version <= real.driver);
    Ok(Row::new(&library.name, COMPARED)
        .count(compared.count(), "answers compared")
        .count(differences.len(), "names differ")
        .faults(differences))
}

/// What a library is asked for: the names of all, those of newer ones only if it is newer itself.
pub(super) fn names<'a>(bench: &'a Bench, asked: &Library) -> BTreeSet<&'a str> {
    let drivers = bench.drivers.iter();
    let drivers = drivers.filter(|library| asked.is_newer() || !library.is_newer());
    let libraries = drivers.chain([&bench.simulated]);
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
