//! The simulated NVML has what its clients use, and NVIDIA's NVML what is taken for granted of it.

use std::collections::BTreeSet;

use crate::library::{Library, NVML};
use crate::nvml::{ABSENT, CLIENTS, Client, NEWER};
use crate::report::Row;
use crate::version::NEWEST_KNOWN;

use super::Bench;

pub(super) fn check(bench: &Bench) -> Vec<Row> {
    let simulated = bench.simulated_nvml.names();
    let explained: BTreeSet<&str> = ABSENT
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect();
    let mut rows = Vec::new();
    for client in CLIENTS {
        let used = client.names();
        rows.extend(bench.nvmls.iter().map(|library| real(library, client)));
        rows.extend(without_its_own(&bench.nvmls, client));
        let lacking: Vec<&&str> = used.difference(&simulated).collect();
        let faults: Vec<String> = lacking
            .iter()
            .filter(|name| !explained.contains(**name))
            .map(|name| format!("{name} is used, and simgpu lacks it"))
            .collect();
        rows.push(
            Row::new("simgpu", client.row)
                .count(used.len(), "names used")
                .count(lacking.len() - faults.len(), "absent with a reason")
                .count(faults.len(), "unexplained")
                .faults(faults),
        );
    }
    let stale = explained.intersection(&simulated);
    let stale = stale.map(|name| format!("{name} is there: it needs no reason to be absent"));
    if let Some(last) = rows.last_mut() {
        last.faults.extend(stale);
    }
    rows.push(newer(&bench.nvmls));
    rows
}

/// What a real NVML has of a client's names: all, if the client comes with it.
fn real(library: &Library, client: &Client) -> Row {
    let used = client.names();
    let lacking: Vec<&str> = used
        .iter()
        .copied()
        .filter(|name| !library.has(name))
        .collect();
    let is_its_own = client.branch.is_some() && client.branch == library.branch();
    let faults = lacking.iter().filter(|_| is_its_own);
    Row::new(&library.name, client.row)
        .count(used.len(), "names used")
        .count(lacking.len(), "newer")
        .faults(faults.map(|name| format!("{name} is used, and its own NVML lacks it")))
}

fn without_its_own(libraries: &[Library], client: &Client) -> Option<Row> {
    let branch = client.branch?;
    let why = format!("there is no {} of its branch", NVML.file);
    let is_there = libraries
        .iter()
        .any(|library| library.branch() == Some(branch));
    (!is_there).then(|| Row::skipped(&branch.to_string(), client.row, why))
}

/// Names that are absent from the simulated NVML as no known driver has them.
fn newer(libraries: &[Library]) -> Row {
    const CHECK: &str = "newer names of NVML";
    let known: Vec<&Library> = libraries
        .iter()
        .filter(|library| !library.is_newer())
        .collect();
    if known.is_empty() {
        let why = format!("there is no {} of a known branch", NVML.file);
        return Row::skipped("all", CHECK, why);
    }
    let there = NEWER.iter().filter_map(|name| {
        let library = known.iter().find(|library| library.has(name))?;
        Some(format!(
            "{name} is in {}: it is not newer than branch {NEWEST_KNOWN}",
            library.name
        ))
    });
    let faults: Vec<String> = there.collect();
    Row::new("all", CHECK)
        .count(NEWER.len(), "names")
        .count(known.len(), "libraries")
        .count(faults.len(), "not newer")
        .faults(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Library {
        Library {
            name: name.to_owned(),
            path: "x".into(),
            exports: names.into_iter().map(|name| (name.to_owned(), 1)).collect(),
        }
    }

    #[test]
    fn a_client_needs_all_its_names_in_its_own_nvml_alone() {
        let client = CLIENTS.iter().find(|client| client.branch.is_some());
        let client = client.unwrap();
        let used = client.names();
        let own = format!("{}.1.2", client.branch.unwrap());
        let whole = library(&own, used.iter().copied());
        assert!(real(&whole, client).faults.is_empty());
        let lacks = |name| library(name, used.iter().copied().skip(1));
        assert_eq!(real(&lacks(&own), client).faults.len(), 1);
        assert!(real(&lacks("470.1"), client).faults.is_empty());
        assert!(without_its_own(&[lacks("470.1")], client).is_some());
        assert!(without_its_own(&[whole], client).is_none());
    }

    #[test]
    fn what_is_newer_is_in_no_known_library() {
        let later = format!("{}.1", NEWEST_KNOWN + 1);
        let later = library(&later, [NEWER[0]]);
        let known = library("470.1", ["nvmlInit"]);
        assert!(newer(std::slice::from_ref(&later)).skipped.is_some());
        assert!(newer(&[known, later]).faults.is_empty());
        let known = library("470.1", [NEWER[0]]);
        assert_eq!(newer(&[known]).faults.len(), 1);
    }
}
