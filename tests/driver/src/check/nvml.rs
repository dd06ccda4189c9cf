//! The simulated NVML has what its clients use.

use std::collections::BTreeSet;

use crate::nvml::{ABSENT, CLIENTS};
use crate::report::Row;

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
        for library in &bench.nvmls {
            let there = used.iter().filter(|name| library.has(name)).count();
            rows.push(
                Row::new(&library.name, client.row)
                    .count(used.len(), "names used")
                    .count(used.len() - there, "newer"),
            );
        }
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
    rows
}
