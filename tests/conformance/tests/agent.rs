//! What is believed of the driver holds for a program under the agent too, but for what is said here with its reason.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use rtswap_conformance::case::{Outcome, Row};
use rtswap_conformance::cases;
use rtswap_e2e::{Machine, MachineOptions, Program, Verdict, until_judged};

/// Where a program sees another driver under the agent, and why.
const DIFFERENT: [(&str, &str); 8] = [
    (
        EITHER,
        "stream-ordered memory is the arena's, and given back when the task is idle",
    ),
    (
        "capture/allocating-is-unsafe",
        "memory of the arena needs no call that a capture forbids, so it is not refused",
    ),
    (
        "map/more-than-the-handle",
        "the agent refuses it itself, as invalid",
    ),
    (
        "map/beginning-of-a-handle",
        "the agent makes a handle of pieces, of which it maps the first",
    ),
    (
        "pointer/sync-memops",
        "the arena is mapped memory, for which the driver refuses it",
    ),
    (
        "share/descriptor-keeps-memory",
        "cuMemGetInfo shows the budget, which a descriptor alone does not take from",
    ),
    (
        "sticky/illegal-address",
        "the arena gives memory without asking the driver, whose error comes with the next work",
    ),
    (
        "death/memory-returns",
        "cuMemGetInfo shows the task's own budget, whatever others hold",
    ),
];

/// Of these, the one that agrees where the host stalled: the task was idle by then, and its memory
/// went back.
const EITHER: &str = "pool/memory-goes-back-at-a-synchronization";

#[test]
fn a_program_under_the_agent_sees_the_same_driver_but_for_this() -> Result<()> {
    until_judged("the driver under the agent", ask)
}

fn ask() -> Result<Verdict> {
    let machine = Machine::new(MachineOptions {
        memory_mib: 128,
        ..MachineOptions::default()
    })?;
    let daemon = machine.daemon()?;
    let mut command = machine.preloaded(env!("CARGO_BIN_EXE_conformance"));
    command.arg("--json");
    let finished = Program::start(command)?.finish(Duration::from_mins(3))?;
    let rows = finished.stdout.lines().map(serde_json::from_str);
    let rows = rows.collect::<Result<Vec<Row>, _>>()?;
    ensure!(
        rows.len() == cases::all().count(),
        "{} rows: {}",
        rows.len(),
        finished.stderr
    );
    let different = rows.iter().filter(|row| row.outcome != Outcome::Agrees);
    let expected: BTreeSet<&str> = DIFFERENT.iter().map(|(name, _)| *name).collect();
    let found: BTreeSet<&str> = different.clone().map(|row| row.name.as_str()).collect();
    let seen: Vec<String> = different
        .map(|row| format!("{}: {}", row.name, row.seen))
        .collect();
    let is_either = |name: &&str| *name == EITHER;
    ensure!(
        found.is_subset(&expected) && expected.difference(&found).all(is_either),
        "expected {expected:?} to differ, but it was:\n{}",
        seen.join("\n")
    );
    drop(daemon);
    if found.contains(EITHER) {
        return Ok(Verdict::Judged);
    }
    let reason = format!("{EITHER}: the task was idle before it could be asked");
    Ok(Verdict::Unjudged(reason))
}
