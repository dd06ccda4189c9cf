//! Random sets whose jobs copy.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::scheduler::Direction;
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_simulator::{After, Link, Rng, Script};

use super::Engines;
use crate::case::Case;
use crate::search::{Kind, draw as draw_case, number, settle, tighten, tighten_one};
use crate::verdict::Admission;

/// Nanoseconds of one unit of a drawn case: fine enough for halves of engines.
const UNIT: i64 = 1_000;

/// A set with a longer period is out of proportion.
const LONGEST: i64 = 1_000_000 * UNIT;

/// A set at the edge of its admission test.
pub(super) struct CopySet {
    /// The set. A chunk takes as long as beside an in-job copy.
    pub case: Case,
    /// What the jobs of each task do; none for those that only compute.
    pub scripts: Vec<Option<Script>>,
    pub objective: Objective,
}

/// A set that `test` admits; none if it does not with periods in proportion.
pub(super) fn draw(rng: &mut Rng, test: Test, engines: Engines) -> Option<CopySet> {
    // Half of the sets are such as an idle C is too little for.
    let is_blocking = rng.within(0, 1) == 0;
    let kind = Kind {
        constrained: is_blocking || rng.within(0, 1) == 0,
        base: !is_blocking && rng.within(0, 1) == 0,
        best_effort: !is_blocking && rng.within(0, 3) == 0,
        change: !is_blocking && rng.within(0, 3) == 0,
        ..Kind::PLAIN
    };
    let mut case = draw_case(rng, kind);
    if is_blocking {
        block_the_first(&mut case, kind);
    }
    magnify(&mut case);
    let link = Link {
        out: rng.within(300_000_000, 3_000_000_000),
        in_: rng.within(300_000_000, 3_000_000_000),
        duplex: Ppm(rng.within(500_000, 1_000_000) as u32),
        latency: Nanos(rng.within(0, 3).saturating_sub(1) * UNIT as u64),
    };
    let sure = rng.within(0, case.tasks.len() as u64 - 1) as usize;
    let mut scripts = Vec::new();
    for (place, task) in case.tasks.iter_mut().enumerate() {
        if place != sure && rng.within(0, 3) == 0 {
            scripts.push(None);
            continue;
        }
        let script = draw_script(rng, link, task.wcet);
        let time = match engines {
            Engines::Loaded => script.loaded(),
            Engines::Idle => script.idle(),
        };
        task.wcet = time?.0.cast_signed();
        scripts.push(Some(script));
    }
    let admission = Admission::Sound(test);
    if !tighten(&mut case, admission) {
        return None;
    }
    if is_blocking {
        tighten_one(&mut case, 0, admission);
        release_latest_first(rng, &mut case);
    } else if rng.within(0, 1) == 0 {
        let place = rng.within(0, case.tasks.len() as u64 - 1) as usize;
        tighten_one(&mut case, place, admission);
    }
    let objective = match rng.within(0, 3) {
        0 => Objective::Volume,
        _ => Objective::Time,
    };
    let is_in_proportion = case.tasks.iter().all(|task| task.period <= LONGEST);
    is_in_proportion.then_some(CopySet {
        case,
        scripts,
        objective,
    })
}

/// Makes the first task the one that is due first and never leaves, and the longer jobs those that are due later.
///
/// The last task has loaded last and is resident. While it runs, the one before it is swapped in, and both block the first.
/// That is where an idle C is too little: elsewhere the time that a running job loses to a swap beside it is no more than
/// what the swap gains by not waiting for the job.
fn block_the_first(case: &mut Case, kind: Kind) {
    let mut timings: Vec<(i64, i64)> = case
        .tasks
        .iter()
        .map(|task| (task.deadline, task.period))
        .collect();
    timings.sort_unstable();
    case.tasks.sort_by_key(|task| task.wcet);
    for (task, (deadline, period)) in case.tasks.iter_mut().zip(timings) {
        task.deadline = deadline;
        task.period = period;
    }
    case.tasks[0].volume = 0;
    settle(case, kind);
}

/// Releases the first jobs shortly behind each other, from the last task to the first.
fn release_latest_first(rng: &mut Rng, case: &mut Case) {
    let mut at = 0;
    for task in case.tasks.iter_mut().rev() {
        task.first = at;
        at += number(rng, 0, UNIT);
    }
}

/// From units to nanoseconds.
fn magnify(case: &mut Case) {
    for cost in [&mut case.out, &mut case.in_] {
        cost.base *= UNIT;
        cost.chunk *= UNIT;
    }
    case.drain *= UNIT;
    case.change = case.change.map(|at| at * UNIT);
    for task in &mut case.tasks {
        let times = [
            &mut task.period,
            &mut task.deadline,
            &mut task.wcet,
            &mut task.first,
        ];
        for time in times.into_iter().chain(&mut task.gaps) {
            *time *= UNIT;
        }
    }
    for task in &mut case.best_effort {
        task.runs *= UNIT;
        task.leaves *= UNIT;
    }
}

/// Up to eight steps in any queues, each of `span` at most, that wait for any of the steps drawn before them.
fn draw_script(rng: &mut Rng, link: Link, span: i64) -> Script {
    let mut script = Script::new(link);
    let [mut compute, mut out, mut in_] = [0_u32; 3];
    let steps = rng.within(1, 8);
    for step in 0..steps {
        let span = Nanos(number(rng, 1, span) as u64);
        let mut some = |count: u32| match rng.within(0, 2) {
            0 => 0,
            1 => count,
            _ => rng.within(0, u64::from(count)) as u32,
        };
        let after = After {
            compute: some(compute),
            out: some(out),
            in_: some(in_),
        };
        let bytes = |rate: u64| {
            let bytes = u128::from(span.0) * u128::from(rate) / 1_000_000_000;
            Bytes(bytes as u64 + 1)
        };
        // The first is a copy, so that every script has one.
        match rng.within(u64::from(step == 0), 2) {
            0 => {
                script.compute(span, after);
                compute += 1;
            }
            1 => {
                script.copy(Direction::Out, bytes(link.out), after);
                out += 1;
            }
            _ => {
                script.copy(Direction::In, bytes(link.in_), after);
                in_ += 1;
            }
        }
    }
    script
}
