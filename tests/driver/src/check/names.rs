//! Each name that a real driver exports is hooked, or named with a reason; each function that the daemon probes is there; and
//! no two names of a library are one function.

use std::collections::BTreeSet;

use anyhow::Result;
use rtswap_doors::names::{self, EXCLUDED, INERT, NEWER, UNDECLARED, functions};
use rtswap_probe_abi::functions::FUNCTIONS;

use crate::bindings;
use crate::library::Library;
use crate::lookups::base;
use crate::report::Row;

use super::{Bench, each, without_newest_known};

const DECLARED: &str = "declared names";
const NOWHERE: &str = "names in no library";

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    let hooked = names::hooked(&bench.binaries.join("librtswap_cuda.so"))?;
    let drivers = &bench.drivers;
    let mut rows = each(drivers, "names", |library| Ok(decided(library, &hooked)))?;
    rows.push(declared(bench.declared.as_deref(), &hooked));
    rows.extend(each(drivers, "probed functions", |library| {
        Ok(probed(library))
    })?);
    let all = drivers.iter().chain([&bench.simulated]);
    rows.extend(each(all, "addresses", |library| Ok(distinct(library)))?);
    let skipped = without_newest_known(drivers, NOWHERE);
    rows.push(skipped.unwrap_or_else(|| nowhere(drivers, &hooked)));
    let newer = drivers.iter().filter(|library| library.is_newer());
    rows.extend(each(newer, NOWHERE, |library| Ok(arrived(library)))?);
    Ok(rows)
}

fn decided(library: &Library, hooked: &BTreeSet<String>) -> Row {
    decide(&library.name, "names", &library.names(), hooked)
}

/// What NVIDIA declares for the newest driver: functions have no forms for threads there.
fn declared(names: Option<&[String]>, hooked: &BTreeSet<String>) -> Row {
    let library = format!("CUDA {}", bindings::VERSION);
    match names {
        Some(names) => {
            let names = names.iter().map(String::as_str).collect();
            decide(&library, DECLARED, &names, hooked)
        }
        None => Row::skipped(
            &library,
            DECLARED,
            "there is no cuda-bindings here, which pip fetches",
        ),
    }
}

fn decide(
    library: &str,
    check: &'static str,
    names: &BTreeSet<&str>,
    hooked: &BTreeSet<String>,
) -> Row {
    let count = |table: &BTreeSet<&str>| names.intersection(table).count();
    let hooked: BTreeSet<&str> = hooked.iter().map(String::as_str).collect();
    let excluded: BTreeSet<&str> = functions(EXCLUDED).collect();
    let inert: BTreeSet<&str> = functions(INERT).collect();
    let undecided: Vec<String> = names
        .iter()
        .filter(|name| {
            ![&hooked, &excluded, &inert]
                .iter()
                .any(|table| table.contains(*name))
        })
        .map(|name| {
            format!("{name} is neither hooked, excluded nor inert: decide in tests/doors/src/names")
        })
        .collect();
    Row::new(library, check)
        .count(names.len(), "names")
        .count(count(&hooked), "hooked")
        .count(count(&excluded), "excluded")
        .count(count(&inert), "inert")
        .count(undecided.len(), "undecided")
        .faults(undecided)
}

/// The probed functions that the library has. Other forms of them do not call the probed ones: they must be probed as well.
fn probed(library: &Library) -> Row {
    let probed: BTreeSet<&str> = FUNCTIONS.iter().map(|on| on.symbol).collect();
    let bases: BTreeSet<&str> = probed.iter().map(|name| base(name)).collect();
    let others = library.names().into_iter();
    let others: Vec<String> = others
        .filter(|name| bases.contains(base(name)) && !probed.contains(name))
        .map(|name| format!("{name} is another form of a probed function, and is not probed"))
        .collect();
    let there = probed.iter().filter(|name| library.has(name)).count();
    Row::new(&library.name, "probed functions")
        .count(there, "there")
        .count(probed.len() - there, "newer")
        .count(others.len(), "other forms")
        .faults(others)
}

fn distinct(library: &Library) -> Row {
    let aliases = library.aliases();
    Row::new(&library.name, "addresses")
        .count(library.exports.len(), "names")
        .count(aliases.len(), "shared addresses")
        .faults(
            aliases
                .iter()
                .map(|names| format!("{} are one function", names.join(" and "))),
        )
}

/// Names of ours that no library of a known branch has, but for those that are listed as newer.
fn nowhere(drivers: &[Library], hooked: &BTreeSet<String>) -> Row {
    let newer: BTreeSet<&str> = functions(NEWER).collect();
    let known = || drivers.iter().filter(|library| !library.is_newer());
    let is_somewhere = |name: &str| known().any(|library| library.has(name));
    let hooks = hooked.iter().map(String::as_str);
    let hooks: Vec<&str> = hooks.filter(|name| !is_somewhere(name)).collect();
    let probes = FUNCTIONS.iter().map(|on| on.symbol);
    let probes: Vec<&str> = probes.filter(|name| !is_somewhere(name)).collect();
    let undeclared = UNDECLARED.iter().filter(|name| !is_somewhere(name));
    let ours = hooks.iter().chain(&probes);
    let strange: BTreeSet<_> = ours.filter(|name| !newer.contains(*name)).collect();
    let faults = strange
        .into_iter()
        .map(|name| format!("{name} is hooked or probed, and in no library"))
        .chain(
            newer
                .iter()
                .filter(|name| is_somewhere(name))
                .map(|name| format!("{name} is no longer newer than all drivers")),
        );
    Row::new("all", NOWHERE)
        .count(hooks.len(), "hooks that are newer")
        .count(undeclared.count(), "other names that are newer")
        .faults(faults)
}

/// Names that are listed as newer and that a library of a later branch has.
fn arrived(library: &Library) -> Row {
    let names: Vec<&str> = functions(NEWER).filter(|name| library.has(name)).collect();
    let faults = names
        .iter()
        .map(|name| format!("{name} is no longer newer than all drivers"));
    Row::new(&library.name, NOWHERE)
        .count(names.len(), "names that are newer elsewhere")
        .faults(faults)
}
