//! Random sequences of events, well-formed and hostile: nothing panics, the invariants hold after
//! each (`handle` checks them), every want is answered, every job is granted or ended.

mod step;
mod world;

use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use super::shell::config;
use crate::admission::Test;
use step::{Step, step};
use world::World;

fn play(steps: &[Step], prepared: bool, prompt: bool, config: Config) {
    let mut world = World {
        prompt,
        scheduler: Scheduler::new(config),
        now: 0,
        truth: BTreeMap::new(),
    };
    if prepared {
        world.open();
    }
    for step in steps {
        world.step(*step);
    }
    world.close();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nobody_is_forgotten_and_nothing_breaks(
        steps in prop::collection::vec(step(), 1..250),
        prepared in prop::bool::weighted(0.8),
        prompt in any::<bool>(),
        shared in any::<bool>(),
        demote in any::<bool>(),
        pipelined in any::<bool>(),
    ) {
        let sharing = if shared { Sharing::Shared } else { Sharing::Exclusive };
        let overrun = if demote { Overrun::Demote } else { Overrun::Continue };
        let test = if pipelined { Test::Pipelined } else { Test::Theorem1 };
        play(&steps, prepared, prompt, Config { sharing, overrun, test, ..config(100) });
    }
}
