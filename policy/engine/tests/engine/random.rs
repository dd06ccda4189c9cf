//! Random runs over two GPUs: what must hold is checked after each step, and at the end of each run
//! all that is open ends.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::harness::{Bell, Op, Pair, Rng, Setting};

/// Steps of all runs together.
const STEPS: usize = 200_000;

/// Steps of one run.
const LENGTH: usize = 400;

/// The seeds of all runs: `RTSWAP_TEST_SEED` alone if that is set, else so many as `RTSWAP_TEST_RUNS`
/// says.
fn seeds() -> Range<u64> {
    let number = |name| {
        let value = std::env::var(name).ok()?;
        Some(
            value
                .parse()
                .unwrap_or_else(|_| panic!("{name} is no number")),
        )
    };
    match number("RTSWAP_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RTSWAP_TEST_RUNS").unwrap_or((STEPS / LENGTH) as u64),
    }
}

fn steps(seed: u64) -> Vec<(Op, Bell)> {
    let mut rng = Rng(seed);
    // Liars leave much undone.
    let is_honest = seed % 5 < 3;
    (0..LENGTH)
        .map(|_| Op::random(&mut rng, is_honest))
        .collect()
}

/// Jobs completed and swap operations ended by those that live at the end.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    jobs: u64,
    swaps: u64,
}

fn run(seed: u64, steps: &[(Op, Bell)], at: &mut usize) -> Done {
    let mut pair = Pair::new(Setting::of(seed));
    pair.begin();
    for (number, &(op, bell)) in steps.iter().enumerate() {
        *at = number;
        pair.step(op, bell);
    }
    *at = steps.len();
    pair.calm_down();
    pair.check_at_rest();
    let mut done = Done::default();
    for device in pair.world.processes.iter().flat_map(|it| &it.devices) {
        done.jobs += u64::from(device.completed);
        done.swaps += device.swaps;
    }
    pair.check_all_is_freed();
    done
}

/// The beginning of a panic's text, without numbers; none if `steps` hold.
fn failure(seed: u64, steps: &[(Op, Bell)]) -> Option<String> {
    let ran = catch_unwind(AssertUnwindSafe(|| run(seed, steps, &mut 0)));
    let panic = ran.err()?;
    let text = panic.downcast_ref::<String>();
    let text = text.map_or("", String::as_str).chars();
    let words = text.filter(|letter| !letter.is_ascii_digit());
    Some(words.take(24).collect())
}

/// The steps without those that the failure does not need.
fn minimal(seed: u64, mut steps: Vec<(Op, Bell)>) -> Vec<(Op, Bell)> {
    let expected = failure(seed, &steps);
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(from..steps.len().min(from + size));
            if failure(seed, &fewer) == expected {
                steps = fewer;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
    steps
}

#[test]
fn everything_holds_after_each_step() {
    let mut all = Done::default();
    for (number, seed) in seeds().enumerate() {
        let (steps, mut at) = (steps(seed), 0);
        match catch_unwind(AssertUnwindSafe(|| run(seed, &steps, &mut at))) {
            Ok(Done { jobs, swaps }) => {
                all.jobs += jobs;
                all.swaps += swaps;
            }
            Err(panic) => {
                let taken = number * LENGTH + at;
                eprintln!("RTSWAP_TEST_SEED={seed} fails in step {at}, {taken} in all");
                if std::env::var_os("RTSWAP_TEST_SEED").is_some() {
                    let steps = minimal(seed, steps);
                    eprintln!("once more, with the steps that it takes:");
                    let _ = failure(seed, &steps);
                    for step in steps {
                        eprintln!("{step:?}");
                    }
                }
                resume_unwind(panic);
            }
        }
    }
    let runs = seeds().count() as u64;
    // One seed alone may have few.
    let is_search = std::env::var_os("RTSWAP_TEST_SEED").is_none();
    assert!(
        !is_search || all.jobs > 10 * runs && all.swaps > runs,
        "{all:?} in {runs} runs"
    );
}
