//! The simulated driver returns what the newest known one does, for zero arguments and without a device.

use anyhow::Result;

use crate::codes::{NO_DEVICE, Phase, differences};
use crate::library::Library;
use crate::reasons::{CODES, judge};
use crate::report::Row;

use super::{Bench, each, without_newest_known};

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (phase, check) in [
        (Phase::Before, "codes before cuInit"),
        (Phase::After, "codes after cuInit"),
    ] {
        rows.extend(without_newest_known(&bench.drivers, check));
        let compare = |library| compare(bench, library, phase, check);
        rows.extend(each(bench.standards(), check, compare)?);
    }
    Ok(rows)
}

fn compare(bench: &Bench, library: &Library, phase: Phase, check: &'static str) -> Result<Row> {
    let real = bench.probe().codes(library, phase, library.names())?;
    let simulated = bench
        .probe_of_simulated()
        .codes(&bench.simulated, phase, library.names())?;
    if let Some(init) = real.init.as_ref().filter(|init| *init != NO_DEVICE) {
        let why = format!("cuInit returned {init}, not {NO_DEVICE}: here is a device");
        return Ok(Row::skipped(&library.name, check, why));
    }
    let init = simulated.init.iter().filter(|init| *init != NO_DEVICE);
    let init = init.map(|init| format!("simgpu's cuInit returned {init} without a device"));
    let differ = differences(&real, &simulated);
    let judged = judge(&differ, phase, CODES);
    Ok(Row::new(&library.name, check)
        .count(real.answers.len(), "functions compared")
        .count(judged.explained, "differ with a reason")
        .count(judged.faults.len(), "unexplained")
        .faults(judged.faults)
        .faults(init.collect::<Vec<_>>()))
}
