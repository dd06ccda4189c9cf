//! Random cases.

use rtswap_simulator::Rng;

use super::settle;
use crate::case::{BestEffort, Case, Cost, Stay, Task};

/// What kind of cases to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// At least so many tasks.
    pub least: u64,
    /// At most so many.
    pub tasks: u64,
    /// Memory moves.
    pub swaps: bool,
    /// D < T.
    pub constrained: bool,
    /// Operations have a base cost.
    pub base: bool,
    /// A best-effort task beside.
    pub best_effort: bool,
    /// Tasks arrive and depart, and volumes change.
    pub change: bool,
    /// If so, nobody arrives or departs.
    pub volumes_alone: bool,
    /// Many small tasks, all released together and then every period.
    pub crowd: bool,
}

impl Kind {
    /// Realtime tasks that swap, with D = T and without bases.
    pub const PLAIN: Self = Self {
        least: 2,
        tasks: 5,
        swaps: true,
        constrained: false,
        base: false,
        best_effort: false,
        change: false,
        volumes_alone: false,
        crowd: false,
    };
}

/// One of the numbers from `least` to `most`.
pub(crate) fn number(rng: &mut Rng, least: i64, most: i64) -> i64 {
    let most = most.max(least);
    least + rng.within(0, (most - least) as u64).cast_signed()
}

/// A possible case, its periods and deadlines not yet fit to any test.
pub fn draw(rng: &mut Rng, kind: Kind) -> Case {
    if kind.crowd {
        return crowd(rng, kind);
    }
    let count = rng.within(kind.least, kind.tasks);
    let long = [8, 20, 60][rng.within(0, 2) as usize];
    let heavy = [1, 4, 12][rng.within(0, 2) as usize];
    let base = if kind.base { 60 } else { 0 };
    let mut cost = || Cost {
        base: number(rng, 0, base),
        chunk: number(rng, 1, heavy),
    };
    let (out, in_) = (cost(), cost());
    let synchronous = rng.within(0, 2) == 0;
    let spread = number(rng, 0, 200);
    let mut tasks: Vec<Task> = (0..count)
        .map(|_| {
            let footprint = number(rng, 1, 8);
            let period = number(rng, 10, 300);
            let volume = |rng: &mut Rng| {
                if kind.swaps {
                    number(rng, 0, footprint)
                } else {
                    0
                }
            };
            let (volume, volume_after) = (volume(rng), volume(rng));
            let jobs = number(rng, 1, 4) as usize;
            Task {
                period,
                deadline: if kind.constrained {
                    number(rng, period / 3, period)
                } else {
                    period
                },
                wcet: number(rng, 1, long),
                footprint,
                volume,
                volume_after: if kind.change { volume_after } else { volume },
                swapped: number(rng, 0, volume),
                ready: -number(rng, 0, period),
                first: if synchronous {
                    0
                } else {
                    number(rng, 0, spread)
                },
                gaps: (1..jobs).map(|_| gap(rng)).collect(),
                shorter: Vec::new(),
                stay: Stay::Throughout,
            }
        })
        .collect();
    if kind.change {
        tasks[0].stay = Stay::Departs;
        if rng.within(0, 4) > 0
            && let Some(last) = tasks.last_mut()
        {
            last.stay = Stay::Arrives;
        }
    }
    let many = rng.within(0, 2) == 0;
    let holders = match rng.within(0, 2) {
        _ if many => number(rng, 4, 10),
        0 => number(rng, 2, 6),
        _ => 1,
    };
    let best_effort = (0..if kind.best_effort { holders } else { 0 }).map(|_| {
        let footprint = if many { 1 } else { number(rng, 1, 6) };
        let swappable = if many { 1 } else { number(rng, 0, footprint) };
        BestEffort {
            footprint,
            swappable,
            swapped: if many { 0 } else { number(rng, 0, swappable) },
            runs: number(rng, 1, 100),
            // Above all bounds: many take all the time that they have.
            leaves: number(rng, 0, 240),
        }
    });
    let best_effort = best_effort.collect();
    if many && kind.best_effort {
        // Best-effort has all the memory, in small pieces.
        for task in &mut tasks {
            task.volume = task.footprint;
            task.swapped = task.footprint;
        }
    }
    let mut case = Case {
        capacity: number(rng, 0, 40),
        out,
        in_,
        drain: number(rng, 0, 80),
        tasks,
        best_effort,
        change: kind.change.then(|| number(rng, 0, 200)),
        releases_first: rng.within(0, 1) == 1,
    };
    settle(&mut case, kind);
    case
}

/// A few kinds of tasks, each several times.
fn crowd(rng: &mut Rng, kind: Kind) -> Case {
    let mut case = draw(
        rng,
        Kind {
            crowd: false,
            tasks: 4,
            ..kind
        },
    );
    let kinds = core::mem::take(&mut case.tasks);
    for mut task in kinds {
        task.wcet = 1;
        task.period = number(rng, 8, 32);
        task.deadline = number(rng, task.period / 2, task.period);
        for _ in 0..rng.within(1, 9) {
            case.tasks.push(task.clone());
        }
    }
    case.tasks.truncate(kind.tasks as usize);
    settle(&mut case, kind);
    case
}

/// Mostly none.
fn gap(rng: &mut Rng) -> i64 {
    match rng.within(0, 3) {
        0 => number(rng, 0, 60),
        _ => 0,
    }
}
