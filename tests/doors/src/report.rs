//! What is printed: JSON, a table for people, and the matrix of docs/doors.md.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::check::{Check, Outcome};
use crate::names::STUB_ONLY;
use crate::ran::Ran;
use crate::suite::Tried;
use crate::table::{self, Probe};

/// Lines of a reason that are said again at the end.
const REASON_LINES: usize = 6;

/// `{version, probes: [{name, result}], missed, hooks: [{name, ran: ["simgpu", "stub"]}]}`.
pub fn json(tried: &[Tried], ran: &Ran) -> Value {
    let probes: Vec<Value> = tried
        .iter()
        .map(|tried| json!({ "name": tried.probe.name(), "result": tried.outcome }))
        .collect();
    json!({ "version": 1, "probes": probes, "missed": missed(tried), "hooks": ran.json() })
}

/// The probes that a driver alone can judge, be it a real one: those that print the same or end well whatever is taken
/// from them meanwhile. The others need what only the simulated GPU tells, more than one GPU, other people's tools, or a
/// program that is linked against more than the driver.
pub fn programs() -> Value {
    let alone = |probe: &&Probe| {
        let judged = !matches!(probe.check, Check::Inert | Check::Own(_));
        let lives = probe.file.starts_with("life_");
        let links_more = probe.file == "nvml_linked";
        judged && !lives && !links_more && probe.gpus == 1
    };
    let areas = table::areas().into_iter();
    let probes = areas.flat_map(|(_, probes)| probes).filter(alone);
    probes
        .map(|probe| {
            let compares = matches!(probe.check, Check::Same);
            json!({
                "file": probe.file, "argument": probe.argument, "doors": probe.doors, "compares": compares,
            })
        })
        .collect()
}

/// A line for each probe, with the reason where it was missed, the sum, and after it once more what did
/// not come out as expected: the end of a log tells it.
pub fn table(tried: &[Tried]) -> String {
    let mut text = String::new();
    for tried in tried {
        let name = tried.probe.name();
        let (outcome, took) = (tried.outcome, tried.took.as_millis());
        let _ = writeln!(
            text,
            "{outcome:8} {name:28} {took:6} ms  {}",
            tried.probe.doors
        );
        if tried.outcome == Outcome::Skipped {
            let _ = writeln!(text, "         SKIPPED: {}", tried.reason.trim());
        } else if !tried.is_as_expected() {
            let expected = tried.probe.expected;
            let _ = writeln!(
                text,
                "         expected {expected}: {}",
                tried.reason.trim()
            );
        }
    }
    let count = |outcome| {
        tried
            .iter()
            .filter(|tried| tried.outcome == outcome)
            .count()
    };
    let _ = writeln!(
        text,
        "{} probes: {} caught, {} counted, {} inert, {} skipped, {} missed",
        tried.len(),
        count(Outcome::Caught),
        count(Outcome::Counted),
        count(Outcome::Inert),
        count(Outcome::Skipped),
        missed(tried)
    );
    text + &unexpected(tried)
}

/// How many hooks ran where.
pub fn hooks(ran: &Ran) -> String {
    let (simgpu, stub) = (ran.simgpu.len(), ran.stub.len());
    let (hooked, never) = (ran.hooked.len(), ran.never());
    let mut text = format!(
        "{hooked} hooks: {simgpu} ran in these probes, {stub} on the stub, {} nowhere\n",
        never.len()
    );
    for name in never {
        let _ = writeln!(text, "never ran: {name}");
    }
    text
}

/// What did not come out as expected, and why.
pub fn unexpected(tried: &[Tried]) -> String {
    let mut text = String::new();
    for tried in tried.iter().filter(|tried| !tried.is_as_expected()) {
        let (name, outcome, expected) = (tried.probe.name(), tried.outcome, tried.probe.expected);
        // Its first lines: the rest may be long, and stands above.
        let reason: Vec<&str> = tried.reason.trim().lines().take(REASON_LINES).collect();
        let reason = reason.join("\n");
        let _ = writeln!(text, "{outcome} {name}, expected {expected}: {reason}");
    }
    text
}

/// How many were missed.
pub fn missed(tried: &[Tried]) -> usize {
    let is_missed = |tried: &&Tried| tried.outcome == Outcome::Missed;
    tried.iter().filter(is_missed).count()
}

/// The matrix of docs/doors.md: what is expected of each probe, by area, and where each hook runs.
pub fn markdown(hooked: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for (title, probes) in table::areas() {
        let _ = writeln!(
            text,
            "### {title}\n\n| probe | goes through | result |\n|---|---|---|"
        );
        for probe in probes {
            let (name, doors, expected) = (probe.name(), probe.doors, probe.expected);
            let why = if probe.why.is_empty() {
                String::new()
            } else {
                format!(": {}", probe.why)
            };
            let _ = writeln!(text, "| {name} | {doors} | {expected}{why} |");
        }
        text.push('\n');
    }
    let stub_only = |name: &&String| STUB_ONLY.contains(&name.as_str());
    let (stub, both): (Vec<_>, Vec<_>) = hooked.iter().partition(stub_only);
    let _ = writeln!(
        text,
        "### Hooks\n\n| where | how many | hooks |\n|---|---|---|"
    );
    for (place, names) in [("simulated GPU and stub", both), ("stub only", stub)] {
        let count = names.len();
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        let _ = writeln!(text, "| {place} | {count} | {} |", names.join(", "));
    }
    text
}
