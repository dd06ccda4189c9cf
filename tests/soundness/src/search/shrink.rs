//! Makes a counterexample small: fewer tasks, fewer jobs, smaller numbers, as long as it is
//! admitted and late.

use super::{Kind, settle};
use crate::case::{Case, Stay};

/// With more numbers than this they are not changed in pairs: there are too many.
const MOST_PAIRED: usize = 64;

/// How much there is to read in a case.
pub(crate) fn size(case: &Case) -> (usize, usize, i64) {
    let mut sum = case.capacity + case.out.base + case.out.chunk + case.in_.base + case.in_.chunk;
    sum += case.drain + case.change.unwrap_or(0);
    for task in &case.tasks {
        sum += task.period + task.deadline + task.wcet + task.footprint;
        sum += task.volume + task.volume_after + task.swapped + task.first + task.ready.abs();
        sum += task.gaps.iter().chain(&task.shorter).sum::<i64>();
        sum += task.shorter.len().cast_signed() as i64;
    }
    for task in &case.best_effort {
        sum += 1;
        sum += task.footprint + task.swappable + task.swapped + task.runs + task.leaves;
    }
    (case.tasks.len() + case.best_effort.len(), case.jobs(), sum)
}

/// A case that still `fails` and that no single step makes smaller; `thorough` tries numbers in
/// pairs too, which takes long.
pub fn shrink(
    kind: Kind,
    case: &Case,
    thorough: bool,
    mut fails: impl FnMut(&Case) -> bool,
) -> Case {
    let mut best = case.clone();
    for pairs in [false, true] {
        if pairs && !thorough {
            break;
        }
        loop {
            let before = size(&best);
            for mut next in steps(&best, pairs) {
                settle(&mut next, kind);
                if size(&next) < size(&best) && fails(&next) {
                    best = next;
                }
            }
            if size(&best) == before {
                break;
            }
        }
    }
    best
}

/// Each number of the case, in a fixed order.
fn numbers(case: &mut Case) -> Vec<&mut i64> {
    let mut all = vec![
        &mut case.capacity,
        &mut case.out.base,
        &mut case.out.chunk,
        &mut case.in_.base,
        &mut case.in_.chunk,
        &mut case.drain,
    ];
    all.extend(case.change.iter_mut());
    for task in &mut case.tasks {
        all.extend([
            &mut task.period,
            &mut task.deadline,
            &mut task.wcet,
            &mut task.footprint,
            &mut task.volume,
            &mut task.volume_after,
            &mut task.swapped,
            &mut task.ready,
            &mut task.first,
        ]);
        all.extend(task.gaps.iter_mut().chain(task.shorter.iter_mut()));
    }
    for task in &mut case.best_effort {
        all.extend([
            &mut task.footprint,
            &mut task.swappable,
            &mut task.swapped,
            &mut task.runs,
            &mut task.leaves,
        ]);
    }
    all
}

fn steps(case: &Case, pairs: bool) -> Vec<Case> {
    let mut steps = Vec::new();
    let with = |change: &dyn Fn(&mut Case)| {
        let mut next = case.clone();
        change(&mut next);
        next
    };
    if case.tasks.len() > 1 {
        for place in 0..case.tasks.len() {
            steps.push(with(&|c| {
                c.tasks.remove(place);
            }));
        }
    }
    for place in 0..case.best_effort.len() {
        steps.push(with(&|c| {
            c.best_effort.remove(place);
        }));
    }
    for place in 0..case.tasks.len() {
        steps.push(with(&|c| {
            c.tasks[place].gaps.pop();
        }));
        steps.push(with(&|c| {
            let task = &mut c.tasks[place];
            if !task.gaps.is_empty() {
                task.first += task.period + task.gaps.remove(0);
                if !task.shorter.is_empty() {
                    task.shorter.remove(0);
                }
            }
        }));
        steps.push(with(&|c| c.tasks[place].shorter.clear()));
        steps.push(with(&|c| c.tasks[place].stay = Stay::Throughout));
        // Everything one earlier.
        for by in [1, 10] {
            steps.push(with(&|c| {
                for task in &mut c.tasks {
                    task.first -= by;
                    task.ready -= by;
                }
                c.change = c.change.map(|at| at - by);
            }));
        }
    }
    let count = numbers(&mut case.clone()).len();
    for place in 0..count {
        let value = *numbers(&mut case.clone())[place];
        let less = [
            0,
            value / 2,
            value * 3 / 4,
            value * 9 / 10,
            value - 1,
            value + 1,
        ];
        for to in less {
            if to != value {
                steps.push(with(&|c| *numbers(c)[place] = to));
            }
        }
        // Two numbers together: what one gives the other takes, or both go down.
        for other in 0..count {
            if other == place || !pairs || count > MOST_PAIRED {
                continue;
            }
            steps.push(with(&|c| {
                *numbers(c)[place] -= 1;
                *numbers(c)[other] -= 1;
            }));
        }
    }
    steps
}
