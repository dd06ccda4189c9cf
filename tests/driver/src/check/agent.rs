//! Under the agent a real driver answers as it does bare.

use anyhow::Result;

use crate::codes::{self, Phase, Words};
use crate::library::Library;
use crate::lookups as lookups_of;
use crate::report::Row;

use super::{Bench, each, lookups};

const CHECK: &str = "under the agent";

pub(super) fn check(bench: &Bench) -> Result<Vec<Row>> {
    each(&bench.drivers, CHECK, |library| same(bench, library))
}

fn same(bench: &Bench, library: &Library) -> Result<Row> {
    let (bare, under) = (
        bench.probe(),
        bench.probe().under_the_agent(&bench.binaries),
    );
    let names = lookups::names(bench, library);
    let mut faults = Vec::new();
    let mut compared = 0;
    let replaced = under.replaced(library, library.names())?;
    if replaced.is_empty() {
        faults.push("the agent stands before no function of it".to_owned());
    }
    let phases = [Phase::Before, Phase::After].into_iter();
    let ways = phases.flat_map(|phase| [(phase, Words::Zeros), (phase, Words::Places)]);
    for (phase, words) in ways {
        let mut expected = bare.codes(library, phase, words, library.names())?;
        if words == Words::Places {
            expected.without_crashes();
        }
        let found = under.codes(library, phase, words, library.names())?;
        compared += expected.answers.len();
        let each = codes::differences(&expected, &found);
        faults.extend(each.into_iter().map(|one| {
            format!(
                "{} {} cuInit: {}, under the agent {}",
                one.function,
                phase.name(),
                one.real,
                one.simulated
            )
        }));
        if expected.init != found.init {
            faults.push(format!(
                "cuInit: {:?}, under the agent {:?}",
                expected.init, found.init
            ));
        }
    }
    let expected = bare.lookups(library, names.iter().copied())?;
    let found = under.lookups(library, names.iter().copied())?;
    compared += expected.each().count();
    for (asked, answers) in &expected.answers {
        let other = found.answers.get(asked);
        if other != Some(answers) {
            let other = other.map_or("nothing".into(), ToString::to_string);
            let lookups_of::Question {
                function,
                name,
                flags,
            } = asked;
            faults.push(format!(
                "{function} {name}, flags {flags}: {answers}, under the agent {other}"
            ));
        }
    }
    Ok(Row::new(&library.name, CHECK)
        .count(replaced.len(), "functions hooked")
        .count(compared, "answers compared")
        .count(faults.len(), "differ")
        .faults(faults))
}
