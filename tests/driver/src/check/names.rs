//! Each name that a real driver exports is hooked, or named with a reason; each function that the daemon probes is there; and
//! no two names of a library are one function.

use std::collections::BTreeSet;

use anyhow::Result;
use rtswap_doors::names::{self, EXCLUDED, INERT, NEWER, UNDECLARED, functions};
use rtswap_probe_abi::functions::FUNCTIONS;

use crate::library::Library;
use crate::lookups::base;
use crate::report::Row;

use super::Bench;

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    let hooked = names::hooked(&bench.binaries.join("librtswap_cuda.so"))?;
    let mut rows = Vec::new();
    for library in &bench.drivers {
        rows.push(decided(library, &hooked));
    }
    for library in &bench.drivers {
        rows.push(probed(library));
    }
    for library in bench.drivers.iter().chain([&bench.simulated]) {
        rows.push(distinct(library));
    }
    if !bench.drivers.is_empty() {
        rows.push(nowhere(&bench.drivers, &hooked));
    }
    Ok(rows)
}

fn decided(library: &Library, hooked: &BTreeSet<String>) -> Row {
    let count = |names: &BTreeSet<&str>| library.names().intersection(names).count();
    let hooked: BTreeSet<&str> = hooked.iter().map(String::as_str).collect();
    let excluded: BTreeSet<&str> = functions(EXCLUDED).collect();
    let inert: BTreeSet<&str> = functions(INERT).collect();
    let undecided: Vec<String> = library
        .names()
        .into_iter()
        .filter(|name| {
            ![&hooked, &excluded, &inert]
                .iter()
                .any(|table| table.contains(name))
        })
        .map(|name| {
            format!("{name} is neither hooked, excluded nor inert: decide in tests/doors/src/names")
        })
        .collect();
    Row::new(&library.name, "names")
        .count(library.exports.len(), "names")
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

/// Names of ours that no library has, but for those that are known to be newer.
fn nowhere(libraries: &[Library], hooked: &BTreeSet<String>) -> Row {
    let newer: BTreeSet<&str> = functions(NEWER).collect();
    let is_somewhere = |name: &str| libraries.iter().any(|library| library.has(name));
    let hooks = hooked.iter().map(String::as_str);
    let hooks: Vec<&str> = hooks.filter(|name| !is_somewhere(name)).collect();
    let probes = FUNCTIONS.iter().map(|on| on.symbol);
    let probes: Vec<&str> = probes.filter(|name| !is_somewhere(name)).collect();
    let undeclared = UNDECLARED.iter().filter(|name| !is_somewhere(name));
    let strange = hooks.iter().filter(|name| !newer.contains(*name));
    let faults = strange
        .chain(&probes)
        .map(|name| format!("{name} is hooked or probed, and in no library"))
        .chain(
            newer
                .iter()
                .filter(|name| is_somewhere(name))
                .map(|name| format!("{name} is no longer newer than all drivers")),
        );
    Row::new("all", "names in no library")
        .count(hooks.len(), "hooks that are newer")
        .count(undeclared.count(), "other names that are newer")
        .faults(faults)
}
