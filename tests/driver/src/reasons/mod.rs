//! Differences between the newest known library and the simulated one that are as they should be, and why.
//!
//! A reason holds for the functions that it lists and for the answers that it names, and must hold for each of them: what it
//! explains no longer is a fault as well as what nothing explains.

mod codes;
mod stores;

use std::collections::BTreeMap;

use crate::codes::{Difference, Phase};

pub use codes::CODES;
pub use stores::STORES;

/// Why functions give another answer.
#[derive(Debug)]
pub struct Reason {
    /// In what state of the driver.
    pub phases: &'static [Phase],
    /// What the real library answers.
    pub real: &'static str,
    /// What the simulated one answers.
    pub simulated: &'static str,
    /// Why that is as it should be.
    pub why: &'static str,
    /// The functions.
    pub functions: &'static [&'static str],
}

/// Which differences are explained.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// How many there is a reason for.
    pub explained: usize,
    /// Those without, and the reasons that explain nothing.
    pub faults: Vec<String>,
}

/// Holds the differences of a phase against the reasons.
pub fn judge(differences: &[Difference], phase: Phase, reasons: &[Reason]) -> Judged {
    let expected: BTreeMap<&str, &Reason> = reasons
        .iter()
        .filter(|reason| reason.phases.contains(&phase))
        .flat_map(|reason| reason.functions.iter().map(move |name| (*name, reason)))
        .collect();
    let mut judged = Judged::default();
    let mut explained = Vec::new();
    for difference in differences {
        let Difference {
            function,
            real,
            simulated,
        } = difference;
        match expected.get(function.as_str()) {
            Some(reason) if reason.real == real && reason.simulated == simulated => {
                explained.push(function.as_str());
            }
            _ => judged.faults.push(format!(
                "{function} {} cuInit: {real}, simgpu {simulated}",
                phase.name()
            )),
        }
    }
    judged.explained = explained.len();
    let differs = |name: &str| differences.iter().any(|one| one.function == name);
    let stale = expected.keys().filter(|name| !differs(name));
    judged.faults.extend(stale.map(|name| {
        format!(
            "{name} {} cuInit: a reason explains a difference that there is not",
            phase.name()
        )
    }));
    judged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const BOTH: &[Phase] = &[Phase::Before, Phase::After];

    fn difference(function: &str, real: &str, simulated: &str) -> Difference {
        Difference {
            function: function.into(),
            real: real.into(),
            simulated: simulated.into(),
        }
    }

    #[test]
    fn a_reason_holds_for_its_functions_and_answers_alone() {
        let reasons = [Reason {
            phases: BOTH,
            real: "3",
            simulated: "1",
            why: "because",
            functions: &["cuA", "cuB", "cuC"],
        }];
        let found = [
            difference("cuA", "3", "1"),
            difference("cuB", "3", "2"),
            difference("cuD", "3", "1"),
        ];
        let judged = judge(&found, Phase::Before, &reasons);
        assert_eq!(judged.explained, 1);
        assert_eq!(judged.faults.len(), 3, "{judged:?}");
        let none = judge(&[], Phase::After, &[]);
        assert_eq!(none, Judged::default());
    }

    #[test]
    fn no_function_has_two_reasons_for_one_phase() {
        for table in [CODES, STORES] {
            is_sound(table);
        }
    }

    fn is_sound(table: &[Reason]) {
        let mut seen = BTreeSet::new();
        for reason in table {
            assert!(
                !reason.why.is_empty() && reason.real != reason.simulated,
                "{reason:?}"
            );
            assert!(
                !reason.phases.is_empty() && !reason.functions.is_empty(),
                "{reason:?}"
            );
            for name in reason.functions {
                for phase in reason.phases {
                    assert!(seen.insert((*name, *phase)), "{name} has two reasons");
                }
            }
        }
    }
}
