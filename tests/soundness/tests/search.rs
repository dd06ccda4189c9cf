//! The search finds what is to be found and nothing else, and says the same each time.

use rtswap_policy::admission::Test;
use rtswap_soundness::attack::{Effort, attack, refute, rules};
use rtswap_soundness::model::{Mode, Rules};
use rtswap_soundness::search::{Driver, Goal, Hunter, Kind};
use rtswap_soundness::verdict::{Admission, Demand};

const EFFORT: Effort = Effort {
    threads: 2,
    seed: 11,
    until: None,
};

#[test]
fn what_is_refuted_is_found() {
    let quick = [
        "head-swapped",
        "work-conserving",
        "base-once",
        "drain-as-maximum",
    ];
    let rules = rules(&quick.map(String::from));
    assert_eq!(rules.len(), quick.len());
    for one in refute(&rules, 100, EFFORT) {
        let found = one
            .found
            .unwrap_or_else(|| panic!("{} is not refuted", one.rule));
        assert!(found.response > found.deadline, "{}", one.rule);
    }
}

/// Each chunk that a job evicts may come from another best-effort task: a base for each is enough.
#[test]
fn a_base_for_each_chunk_is_enough_beside_best_effort() {
    for mode in [Mode::Sequential, Mode::Pipelined] {
        let goal = Goal {
            rules: Rules::strict(mode),
            admission: Admission::Own(Demand::right(mode == Mode::Pipelined)),
            kind: Kind {
                base: true,
                best_effort: true,
                ..Kind::PLAIN
            },
        };
        let mut hunter = Hunter::default();
        for seed in 0..6 {
            assert_eq!(hunter.climb(&goal, seed, 1_000), None);
        }
        assert_eq!(hunter.violations, 0, "{:?}", hunter.violation);
        assert!(hunter.runs > 4_000);
    }
}

#[test]
fn threads_do_not_change_what_is_done() {
    let with = |threads| {
        let effort = Effort { threads, ..EFFORT };
        let counts = attack(Driver::Model, &[Test::Demand], 32_000, 0, effort);
        serde_json::to_string(&counts).expect("numbers and names")
    };
    assert_eq!(with(1), with(2));
}
