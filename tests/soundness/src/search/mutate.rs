//! Small changes of a case.

use rtswap_simulator::Rng;

use super::generate::number;
use super::{Kind, settle};
use crate::case::{Case, Stay, Task};

/// Changes one to three things of `case`. `instants` is when something happened in its latest
/// run: releases and the change like to come just then.
pub fn mutate(case: &mut Case, rng: &mut Rng, kind: Kind, instants: &[i64]) {
    for _ in 0..rng.within(1, 3) {
        match rng.within(0, 9) {
            0..=2 => timing(case, rng, instants),
            3 | 4 => jobs(case, rng, instants),
            5 => gpu(case, rng, instants),
            6 => people(case, rng, kind),
            _ => task(case, rng),
        }
    }
    settle(case, kind);
}

/// A little more or less, or something else altogether.
fn nudge(rng: &mut Rng, value: i64) -> i64 {
    match rng.within(0, 7) {
        0 => value + 1,
        1 => value - 1,
        2 => value * 2,
        3 => value / 2,
        4 => 0,
        5 => number(rng, 0, 60),
        _ => value + number(rng, -value / 3 - 1, value / 3 + 1),
    }
}

fn instant(rng: &mut Rng, instants: &[i64]) -> i64 {
    if instants.is_empty() || rng.within(0, 3) == 0 {
        return number(rng, 0, 400);
    }
    let at = instants[rng.within(0, instants.len() as u64 - 1) as usize];
    at + number(rng, -1, 1)
}

fn any<'a>(rng: &mut Rng, tasks: &'a mut [Task]) -> &'a mut Task {
    let place = rng.within(0, tasks.len() as u64 - 1) as usize;
    &mut tasks[place]
}

/// Moves a release.
fn timing(case: &mut Case, rng: &mut Rng, instants: &[i64]) {
    let task = any(rng, &mut case.tasks);
    if rng.within(0, 1) == 0 || task.gaps.is_empty() {
        // The later jobs move with the first.
        task.first = match rng.within(0, 3) {
            0 => nudge(rng, task.first),
            _ => instant(rng, instants),
        };
        return;
    }
    // Only this job: the gap before it takes what the gap after it gives.
    let place = rng.within(0, task.gaps.len() as u64 - 1) as usize;
    let before: i64 = task.gaps[..place].iter().sum();
    let at = task.first + before + task.period * (place + 1).cast_signed() as i64;
    let to = match rng.within(0, 2) {
        0 => at + nudge(rng, task.gaps[place]),
        _ => instant(rng, instants),
    };
    let gap = (to - at).max(0);
    let by = gap - task.gaps[place];
    task.gaps[place] = gap;
    if let Some(next) = task.gaps.get_mut(place + 1) {
        *next -= by;
    }
}

/// Another number of jobs, or another execution.
fn jobs(case: &mut Case, rng: &mut Rng, instants: &[i64]) {
    let task = any(rng, &mut case.tasks);
    match rng.within(0, 5) {
        0 if task.gaps.len() < 9 => task.gaps.push(0),
        1 => {
            task.gaps.pop();
        }
        2 => {
            // Drop the first job.
            if !task.gaps.is_empty() {
                task.first += task.period + task.gaps.remove(0);
            }
        }
        3 => task.ready = task.first - number(rng, 0, task.period),
        4 => {
            let job = rng.within(0, task.gaps.len() as u64) as usize;
            task.shorter.resize(job.max(task.shorter.len()) + 1, 0);
            task.shorter[job] = match rng.within(0, 1) {
                0 => 0,
                _ => number(rng, 0, task.wcet),
            };
        }
        _ => task.first = instant(rng, instants),
    }
}

/// The GPU, best-effort, the change.
fn gpu(case: &mut Case, rng: &mut Rng, instants: &[i64]) {
    match rng.within(0, 9) {
        0 => case.out.chunk = nudge(rng, case.out.chunk),
        1 => case.in_.chunk = nudge(rng, case.in_.chunk),
        2 => case.out.base = nudge(rng, case.out.base),
        3 => case.in_.base = nudge(rng, case.in_.base),
        4 => case.capacity = nudge(rng, case.capacity),
        5 => case.releases_first = !case.releases_first,
        6 => case.drain = nudge(rng, case.drain),
        _ => {
            if case.change.is_some() && rng.within(0, 1) == 0 {
                case.change = Some(instant(rng, instants));
            }
            let drain = case.drain;
            let count = case.best_effort.len() as u64;
            if count == 0 {
                return;
            }
            if rng.within(0, 5) == 0 {
                if count > 1 && rng.within(0, 1) == 0 {
                    case.best_effort.pop();
                } else if count < 8 {
                    let twin = case.best_effort[0];
                    case.best_effort.push(twin);
                }
                return;
            }
            let place = rng.within(0, count - 1) as usize;
            if let Some(task) = case.best_effort.get_mut(place) {
                match rng.within(0, 4) {
                    0 => task.footprint = nudge(rng, task.footprint),
                    1 => task.swappable = nudge(rng, task.swappable),
                    2 => task.swapped = nudge(rng, task.swapped),
                    3 => task.runs = nudge(rng, task.runs),
                    _ => task.leaves = drain,
                }
            }
        }
    }
}

/// One task's demand.
fn task(case: &mut Case, rng: &mut Rng) {
    let constrained = rng.within(0, 1) == 0;
    let task = any(rng, &mut case.tasks);
    match rng.within(0, 7) {
        0 | 1 => task.wcet = nudge(rng, task.wcet),
        2 => {
            task.period = nudge(rng, task.period).max(task.wcet);
            if !constrained {
                task.deadline = task.period;
            }
        }
        3 => task.deadline = nudge(rng, task.deadline).min(task.period),
        4 => task.volume = nudge(rng, task.volume),
        5 => task.volume_after = nudge(rng, task.volume_after),
        6 => task.footprint = nudge(rng, task.footprint).min(20),
        _ => task.swapped = number(rng, 0, task.volume),
    }
}

/// Who is there, and in which order.
fn people(case: &mut Case, rng: &mut Rng, kind: Kind) {
    let count = case.tasks.len();
    match rng.within(0, 3) {
        0 if count as u64 > kind.least => {
            let place = rng.within(0, count as u64 - 1) as usize;
            if case.tasks[place].stay == Stay::Throughout {
                case.tasks.remove(place);
            }
        }
        1 if (count as u64) < kind.tasks => {
            let other = any(rng, &mut case.tasks);
            let mut twin = other.clone();
            twin.wcet = nudge(rng, twin.wcet);
            twin.first = nudge(rng, twin.first);
            case.tasks.push(twin);
        }
        2 if kind.change => {
            let task = any(rng, &mut case.tasks);
            task.stay = match rng.within(0, 2) {
                0 => Stay::Throughout,
                1 => Stay::Departs,
                _ => Stay::Arrives,
            };
        }
        _ => {
            let (one, other) = (
                rng.within(0, count as u64 - 1),
                rng.within(0, count as u64 - 1),
            );
            case.tasks.swap(one as usize, other as usize);
        }
    }
}
