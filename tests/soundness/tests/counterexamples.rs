//! The smallest counterexamples that were found, one to each refuted rule: under it the set is
//! admitted and a job is late by just as much. What is right refuses the set, or meets every
//! deadline.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rtswap_policy::admission::Test;
use rtswap_soundness::attack::Counterexample;
use rtswap_soundness::model::{Engine, Mode, Rules};
use rtswap_soundness::refuted::ALL;
use rtswap_soundness::search::Goal;
use rtswap_soundness::verdict::{Admission, Demand};

fn kept() -> Vec<Counterexample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counterexamples");
    let files = fs::read_dir(&folder).expect("the folder of counterexamples");
    files
        .map(|file| {
            let path = file.expect("a counterexample").path();
            let text = fs::read_to_string(&path).expect("a text");
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        })
        .collect()
}

fn right(goal: &Goal) -> Goal {
    let pipelined = goal.rules.mode == Mode::Pipelined;
    Goal {
        rules: Rules::strict(goal.rules.mode),
        admission: Admission::Own(Demand::right(pipelined)),
        ..*goal
    }
}

#[test]
fn each_rule_is_refuted_by_one() {
    let kept: BTreeSet<String> = kept().into_iter().map(|one| one.rule).collect();
    let rules: BTreeSet<String> = ALL.iter().map(|rule| rule.name.into()).collect();
    assert_eq!(kept, rules);
}

#[test]
fn each_is_admitted_and_late_under_the_refuted_rule_and_not_under_the_right_one() {
    let mut engine = Engine::default();
    for one in kept() {
        let rule = ALL.iter().find(|rule| rule.name == one.rule);
        let rule = rule.expect("a rule of that name");
        let outcome = rule.goal.misses(&mut engine, &one.case);
        let (_, deadline, response) = outcome.expect("a miss").worst;
        assert_eq!(
            (deadline, response),
            (one.deadline, one.response),
            "{}",
            one.rule
        );
        assert!(response > deadline);
        let right = right(&rule.goal);
        assert_eq!(right.misses(&mut engine, &one.case), None, "{}", one.rule);
        // The product's own test is no more generous, as far as it is what is at stake.
        if right.rules == rule.goal.rules {
            let test = match right.rules.mode {
                Mode::Sequential => Test::Demand,
                Mode::Pipelined => Test::Pipelined,
            };
            let admitted = one.case.admitted(Admission::Sound(test));
            assert!(!admitted, "{} admits {}", test.name(), one.rule);
        }
    }
}
