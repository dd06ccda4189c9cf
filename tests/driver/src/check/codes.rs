//! The simulated driver returns what the newest real one does, for zero arguments and without a device.

use anyhow::Result;

use crate::codes::{NO_DEVICE, Phase, differences};
use crate::reasons::{CODES, judge};
use crate::report::Row;

use super::Bench;

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    let Some(library) = bench.drivers.last() else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for (phase, check) in [
        (Phase::Before, "codes before cuInit"),
        (Phase::After, "codes after cuInit"),
    ] {
        let real = bench.probe().codes(library, phase, library.names())?;
        let simulated =
            bench
                .probe_of_simulated()
                .codes(&bench.simulated, phase, library.names())?;
        if let Some(init) = real.init.as_ref().filter(|init| *init != NO_DEVICE) {
            let why = format!("cuInit returned {init}, not {NO_DEVICE}: here is a device");
            rows.push(Row::skipped(&library.name, check, why));
            continue;
        }
        let init = simulated.init.iter().filter(|init| *init != NO_DEVICE);
        let init = init.map(|init| format!("simgpu's cuInit returned {init} without a device"));
        let differ = differences(&real, &simulated);
        let judged = judge(&differ, phase, CODES);
        rows.push(
            Row::new(&library.name, check)
                .count(real.answers.len(), "functions compared")
                .count(judged.explained, "differ with a reason")
                .count(judged.faults.len(), "unexplained")
                .faults(judged.faults)
                .faults(init.collect::<Vec<_>>()),
        );
    }
    Ok(rows)
}
