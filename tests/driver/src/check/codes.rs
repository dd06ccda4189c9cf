//! The simulated driver returns and writes what the newest known one does without a device, for zero arguments and for places
//! to write to.

use anyhow::Result;

use crate::codes::{NO_DEVICE, Phase, Words, differences};
use crate::library::Library;
use crate::reasons::{CODES, Reason, STORES, judge};
use crate::report::Row;

use super::{Bench, each, without_newest_known};

/// One way of asking.
struct How {
    phase: Phase,
    words: Words,
    check: &'static str,
    reasons: &'static [Reason],
}

const HOW: [How; 4] = [
    How {
        phase: Phase::Before,
        words: Words::Zeros,
        check: "codes before cuInit",
        reasons: CODES,
    },
    How {
        phase: Phase::After,
        words: Words::Zeros,
        check: "codes after cuInit",
        reasons: CODES,
    },
    How {
        phase: Phase::Before,
        words: Words::Places,
        check: "stores before cuInit",
        reasons: STORES,
    },
    How {
        phase: Phase::After,
        words: Words::Places,
        check: "stores after cuInit",
        reasons: STORES,
    },
];

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for how in &HOW {
        rows.extend(without_newest_known(&bench.drivers, how.check));
        let compare = |library| compare(bench, library, how);
        rows.extend(each(bench.standards(), how.check, compare)?);
    }
    Ok(rows)
}

fn compare(bench: &Bench, library: &Library, how: &How) -> Result<Row> {
    let &How {
        phase,
        words,
        check,
        reasons,
    } = how;
    let mut real = bench
        .probe()
        .codes(library, phase, words, library.names())?;
    let simulated =
        bench
            .probe_of_simulated()
            .codes(&bench.simulated, phase, words, library.names())?;
    if let Some(init) = real.init.as_ref().filter(|init| *init != NO_DEVICE) {
        let why = format!("cuInit returned {init}, not {NO_DEVICE}: here is a device");
        return Ok(Row::skipped(&library.name, check, why));
    }
    let init = simulated.init.iter().filter(|init| *init != NO_DEVICE);
    let init = init.map(|init| format!("simgpu's cuInit returned {init} without a device"));
    let all = real.answers.len();
    if words == Words::Places {
        real.without_crashes();
    }
    let differ = differences(&real, &simulated);
    let judged = judge(&differ, phase, reasons);
    let mut row = Row::new(&library.name, check).count(real.answers.len(), "functions compared");
    if words == Words::Places {
        let write = real.answers.values().filter(|answer| answer.contains(':'));
        row = row.count(write.count(), "of them write");
        row = row.count(all - real.answers.len(), "crash");
    }
    Ok(row
        .count(judged.explained, "differ with a reason")
        .count(judged.faults.len(), "unexplained")
        .faults(judged.faults)
        .faults(init.collect::<Vec<_>>()))
}
