//! The model and the scheduler do the same, job by job.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_simulator::Rng;
use rtswap_soundness::case::Case;
use rtswap_soundness::model::Engine;
use rtswap_soundness::real::{after_loading, run, scenario};
use rtswap_soundness::refuted::sound;
use rtswap_soundness::search::{Goal, Kind, draw, mutate, tighten};

/// A case whose volumes are the only ones that the plan can find, and in which hardly anything
/// happens at the same instant as something else.
fn comparable(rng: &mut Rng, goal: &Goal) -> Option<Case> {
    let mut case = draw(rng, goal.kind);
    for _ in 0..rng.within(0, 10) {
        mutate(&mut case, rng, goal.kind, &[]);
    }
    // The largest volume only ever leaves as far as the second largest.
    let mut volumes: Vec<i64> = case.tasks.iter().map(|task| task.volume).collect();
    volumes.sort_unstable();
    let most = *volumes.iter().rev().nth(1)?;
    for task in &mut case.tasks {
        task.volume = task.volume.min(most);
        task.volume_after = task.volume;
    }
    case.capacity = 0;
    while !case.room_before() {
        case.capacity += 1;
    }
    let mut fine = |span: &mut i64| *span = *span * 10_007 + rng.within(0, 10_006).cast_signed();
    for cost in [&mut case.out, &mut case.in_] {
        fine(&mut cost.chunk);
        if cost.base > 0 {
            fine(&mut cost.base);
        }
    }
    for task in &mut case.tasks {
        let same = task.period == task.deadline;
        for span in [
            &mut task.period,
            &mut task.deadline,
            &mut task.wcet,
            &mut task.first,
        ] {
            fine(span);
        }
        task.deadline = task.deadline.max(task.wcet);
        task.period = if same {
            task.deadline
        } else {
            task.period.max(task.deadline)
        };
        task.gaps
            .iter_mut()
            .chain(&mut task.shorter)
            .for_each(&mut fine);
        let most = task.wcet - 1;
        task.shorter
            .iter_mut()
            .for_each(|span| *span = (*span).min(most));
    }
    tighten(&mut case, goal.admission).then_some(case)
}

fn same(test: Test, base: bool, constrained: bool, seed: u64, runs: u32) {
    let kind = Kind {
        base,
        constrained,
        ..Kind::PLAIN
    };
    let goal = sound(test, kind);
    let mut rng = Rng::new(seed);
    let mut engine = Engine::default();
    let (mut compared, mut tied, mut jobs, mut swapping) = (0, 0, 0, 0);
    while compared < runs {
        let Some(case) = comparable(&mut rng, &goal) else {
            continue;
        };
        let mut residency = after_loading(&mut engine, &case, &goal.rules);
        let outcome = engine.run_from(&case, &goal.rules, &mut residency);
        assert!(!outcome.stuck, "{case:#?}");
        if outcome.tied {
            tied += 1;
            assert!(
                tied < runs / 10 + 10,
                "too much happens at the same instant"
            );
            continue;
        }
        let scenario = scenario(&case, test, Objective::Time, 1);
        let real = run(&scenario).unwrap_or_else(|error| panic!("{error}\n{case:#?}"));
        assert!(real.refused.is_empty(), "{:?}\n{case:#?}", real.refused);
        assert_eq!(real.finished, engine.finished, "run {compared}: {case:#?}");
        compared += 1;
        jobs += real.finished.len();
        swapping += u32::from(case.tasks.iter().any(|task| task.volume > 0));
    }
    assert!(jobs > 2 * runs as usize);
    assert!(swapping > runs / 4);
}

#[test]
fn sequential() {
    same(Test::Demand, false, false, 1, 1_500);
}

#[test]
fn sequential_with_bases_and_deadlines_before_the_period() {
    same(Test::Demand, true, true, 2, 1_500);
    same(Test::Theorem1, true, true, 3, 500);
}

#[test]
fn pipelined() {
    same(Test::Pipelined, false, false, 4, 1_500);
}

#[test]
fn pipelined_with_bases_and_deadlines_before_the_period() {
    same(Test::Pipelined, true, true, 5, 1_500);
}
