//! Sets whose jobs copy while they run: enough of them are admitted, and the search finds what an idle C does.

use rtswap_soundness::attack::Effort;
use rtswap_soundness::copies::{Engines, search};

const EFFORT: Effort = Effort {
    threads: 2,
    seed: 5,
    until: None,
};

#[test]
fn a_loaded_c_misses_nothing_and_an_idle_c_does() {
    let loaded = search(3_000, Engines::Loaded, EFFORT);
    assert!(
        loaded.admitted > 2_500 && loaded.slowed > 1_000,
        "{loaded:?}"
    );
    assert_eq!((loaded.misses, loaded.violations), (0, 0), "{loaded:?}");

    let idle = search(3_000, Engines::Idle, EFFORT);
    assert!(idle.misses > 0 && idle.miss.is_some());
    assert_eq!(idle.violations, 0, "{idle:?}");
}

#[test]
fn threads_do_not_change_what_is_found() {
    let with = |threads| {
        let effort = Effort { threads, ..EFFORT };
        let tally = search(1_000, Engines::Idle, effort);
        serde_json::to_string(&tally).expect("numbers and words")
    };
    assert_eq!(with(1), with(2));
}
