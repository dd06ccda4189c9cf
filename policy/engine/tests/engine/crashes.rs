//! The daemon ends at each output of many short runs; the next one goes on from what is kept.

use rtswap_policy::units::Nanos;

use crate::harness::{MS, Op, Pair, Rng, Setting, World};

const RUNS: u64 = 1_000;

/// Steps of one run.
const LENGTH: usize = 24;

/// The world after each output of a run.
fn ends(seed: u64) -> Vec<World> {
    let mut rng = Rng(seed);
    let mut pair = Pair::new(Setting::of(seed));
    pair.ends = Some(Vec::new());
    for task in [seed as usize % 3, 3 + seed as usize % 3] {
        pair.register(task, false);
        pair.join(Some(task));
        pair.join(Some(task));
    }
    pair.join(None);
    for _ in 0..LENGTH {
        let (op, bell) = Op::random(&mut rng, true);
        pair.step(op, bell);
    }
    pair.ends.take().unwrap_or_default()
}

/// A new daemon takes over: the agents come back before it stops to wait for them, or after.
fn recover(mut world: World, number: usize) {
    if number.is_multiple_of(5) {
        // The next daemon ends before its first checkpoint is in place, and one more takes over.
        world = Pair::restarted(world).world;
    }
    let mut pair = Pair::restarted(world);
    if number.is_multiple_of(3) {
        pair.pass(Nanos(3_000 * MS), false);
    } else if number % 3 == 1 && !pair.world.processes.is_empty() {
        pair.hello(0);
        pair.pass(Nanos(2_500 * MS), false);
    }
    pair.calm_down();
    pair.check_at_rest();
    if number.is_multiple_of(16) {
        pair.check_all_is_freed();
    }
}

fn ends_anywhere(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let ends = ends(seed);
        assert!(ends.len() > 10, "seed {seed} has {} outputs", ends.len());
        for (number, world) in ends.into_iter().enumerate() {
            let context = Context(seed, number);
            recover(world, number);
            std::mem::forget(context);
        }
    }
}

/// Says where a test was when it failed.
struct Context(u64, usize);

impl Drop for Context {
    fn drop(&mut self) {
        eprintln!("after output {} of the run with seed {}", self.1, self.0);
    }
}

#[test]
fn nothing_is_forgotten_and_nothing_counted_twice() {
    ends_anywhere(0..RUNS / 2);
}

#[test]
fn nor_in_the_other_half_of_the_runs() {
    ends_anywhere(RUNS / 2..RUNS);
}
