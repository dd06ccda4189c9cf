//! Keeps a case possible, whatever was done to it.

use super::Kind;
use crate::case::{Case, Cost, Stay};

/// Free memory beyond what the plan needs, in chunks.
const SPARE: i64 = 2;

/// How late a job is released at most after the one before.
const LATEST: i64 = 5_000;

/// Moves every number to the nearest that is possible with the others.
pub fn settle(case: &mut Case, kind: Kind) {
    for cost in [&mut case.out, &mut case.in_] {
        cost.chunk = cost.chunk.max(1);
        cost.base = if kind.base { cost.base.max(0) } else { 0 };
    }
    for task in &mut case.tasks {
        if kind.volumes_alone {
            task.stay = Stay::Throughout;
        }
        task.wcet = task.wcet.max(1);
        task.deadline = task.deadline.max(task.wcet);
        task.period = task.period.max(task.deadline);
        if !kind.constrained {
            task.deadline = task.period;
        }
        task.footprint = task.footprint.max(i64::from(kind.swaps));
        let most = if kind.swaps { task.footprint } else { 0 };
        task.volume = task.volume.clamp(0, most);
        task.volume_after = if kind.change {
            task.volume_after.clamp(0, most)
        } else {
            task.volume
        };
        task.swapped = task.swapped.clamp(0, task.volume);
        task.first = task.first.clamp(0, LATEST);
        task.ready = task.ready.clamp(-task.period, task.first);
        for gap in &mut task.gaps {
            *gap = (*gap).clamp(0, LATEST);
        }
        task.shorter.truncate(task.gaps.len() + 1);
        for shorter in &mut task.shorter {
            *shorter = (*shorter).clamp(0, task.wcet - 1);
        }
    }
    if kind.crowd {
        let longest = case.tasks.iter().map(|task| task.period).max().unwrap_or(1);
        for task in &mut case.tasks {
            task.first = 0;
            task.shorter.clear();
            task.gaps.clear();
            task.gaps.resize((2 * longest / task.period) as usize, 0);
        }
    }
    if kind.best_effort || kind.change {
        let least = |cost: &Cost| cost.base + cost.chunk;
        case.drain = case.drain.max(least(&case.out)).max(least(&case.in_));
    } else {
        case.drain = 0;
    }
    for task in &mut case.best_effort {
        task.footprint = task.footprint.max(1);
        task.swappable = task.swappable.clamp(0, task.footprint);
        task.swapped = task.swapped.clamp(0, task.swappable);
        task.runs = task.runs.max(1);
        task.leaves = task.leaves.clamp(0, case.drain);
    }
    case.change = case.change.map(|at| at.clamp(0, LATEST));
    fit(case);
}

/// Capacity for the plans, and a beginning within it.
fn fit(case: &mut Case) {
    let wanted = case.capacity;
    case.capacity = 0;
    while !(case.room_before() && case.room_after(0)) {
        case.capacity += 1;
    }
    case.capacity = wanted.clamp(case.capacity, case.capacity + SPARE);
    // What best-effort can have when everybody else is out as far as may be.
    let mut left = case.capacity;
    for task in &case.tasks {
        left -= match task.stay {
            Stay::Arrives => task.footprint - task.volume_after,
            Stay::Throughout | Stay::Departs => task.footprint - task.volume,
        };
    }
    for task in &case.best_effort {
        left -= task.footprint - task.swappable;
    }
    for task in &mut case.best_effort {
        let over = (task.swappable - left).clamp(0, task.swappable);
        task.swappable -= over;
        task.footprint -= over;
        task.swapped = task.swapped.min(task.swappable);
    }
    let mut over = -case.capacity;
    for task in &case.tasks {
        over += match task.stay {
            Stay::Arrives => task.footprint - task.volume_after,
            Stay::Throughout | Stay::Departs => task.footprint - task.swapped,
        };
    }
    for task in &case.best_effort {
        over += task.footprint - task.swapped;
    }
    for task in &mut case.best_effort {
        let leaves = over.clamp(0, task.swappable - task.swapped);
        task.swapped += leaves;
        over -= leaves;
    }
    let there = case.tasks.iter_mut().filter(|t| t.stay != Stay::Arrives);
    for task in there.rev() {
        let leaves = over.clamp(0, task.volume - task.swapped);
        task.swapped += leaves;
        over -= leaves;
    }
}
