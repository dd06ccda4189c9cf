//! One search per objective over the largest volume M and the blocking bound.
//!
//! A lower blocking bound only tightens the box, so the time spent moving chunks rises as the
//! bound falls. Whatever blocking passes must therefore fit in what the moving at a higher one
//! leaves: jumping there skips nothing, and the first bound that passes is the highest.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::fill::Problem;
use super::{Assignment, Demand, Infeasible, Objective};
use crate::admission::{Blocking, Platform, Test, left_side};
use crate::fraction::{ONE, fixed};
use crate::units::{Bytes, Nanos};

pub(super) fn run(
    test: Test,
    platform: &Platform,
    capacity: Bytes,
    demands: &[Demand],
    objective: Objective,
) -> Result<Assignment, Infeasible> {
    let problem = Problem::new(platform, capacity, demands);
    let found = match objective {
        _ if test != Test::Theorem1 => match problem.least_moving(&problem.swappable) {
            Some(volumes) if test.holds(platform, &problem.candidates(&volumes)) => Ok(volumes),
            other => Err(other),
        },
        Objective::Time => descend(&problem, |caps| problem.least_moving(caps)),
        Objective::Volume => least_volume(&problem),
    };
    let tested = |volumes: Vec<u64>| Assignment {
        chunk: platform.chunk,
        analysis: test.analyse(platform, &problem.candidates(&volumes)),
        volumes: volumes.iter().map(|&k| problem.bytes(k)).collect(),
    };
    match found {
        Ok(volumes) => Ok(tested(volumes)),
        Err(Some(volumes)) => Err(Infeasible::NotSchedulable(Box::new(tested(volumes)))),
        Err(None) => {
            let sum: u64 = problem
                .swappable
                .iter()
                .fold(0, |a, b| a.saturating_add(*b));
            let most = problem.swappable.iter().copied().max().unwrap_or(0);
            Err(Infeasible::NotSwappable {
                overflow: problem.bytes(problem.overflow),
                swappable: problem.bytes(sum - most.min(sum)),
            })
        }
    }
}

/// From the highest blocking bound downwards, the first volumes of `best` that pass. Otherwise
/// the last that were tried, or none if the memory cannot be had at all.
fn descend(
    problem: &Problem<'_>,
    best: impl Fn(&[u64]) -> Option<Vec<u64>>,
) -> Result<Vec<u64>, Option<Vec<u64>>> {
    let platform = problem.platform;
    let none = alloc::vec![0; problem.demands.len()];
    // What blocks without any swapping stays at every bound.
    let floor = Blocking::over(Test::Theorem1, platform, &problem.candidates(&none));
    let floor = floor.total.saturating_sub(floor.bases);
    let shortest = problem.demands.iter().map(|d| d.timing.deadline.0).min();
    let running = problem
        .demands
        .iter()
        .map(|d| fixed(platform.execution(&d.timing).0, d.timing.deadline.0))
        .fold(0, u128::saturating_add);
    let (mut level, mut tried) = (highest(problem), None);
    loop {
        let Some(volumes) = best(&problem.caps(level)) else {
            return Err(tried);
        };
        if Test::Theorem1.holds(platform, &problem.candidates(&volumes)) {
            return Ok(volumes);
        }
        let left = ONE.saturating_sub(running.saturating_add(problem.moving(&volumes)));
        tried = Some(volumes);
        let room = (left.min(ONE - 1) * u128::from(shortest.unwrap_or(0))) >> 64;
        // The room was rounded down by less than a nanosecond.
        let next = Nanos(u64::try_from(room).unwrap_or(u64::MAX)) + Nanos(1);
        if level <= floor || left == 0 {
            return Err(tried);
        }
        level = next.min(level.saturating_sub(Nanos(1)));
    }
}

/// The bound at which nothing is tightened.
fn highest(problem: &Problem<'_>) -> Nanos {
    problem
        .demands
        .iter()
        .zip(&problem.swappable)
        .map(|(demand, &chunks)| {
            let region =
                problem.platform.swap_in(chunks) + problem.platform.execution(&demand.timing);
            region.max(problem.platform.swap_out(chunks))
        })
        .max()
        .unwrap_or(Nanos::ZERO)
}

/// Least Σk = w + M, then the least left side of Eq. (3).
fn least_volume(problem: &Problem<'_>) -> Result<Vec<u64>, Option<Vec<u64>>> {
    let (least, most) = problem.range(&problem.swappable).ok_or(None)?;
    let mut tried = None;
    for largest in least..=most {
        let fill = |caps: &[u64]| {
            let room: u64 = caps.iter().map(|cap| (*cap).min(largest)).sum();
            (room >= problem.overflow + largest).then(|| problem.fill(caps, largest))
        };
        match descend(problem, fill) {
            Ok(volumes) => return Ok(least_left_side(problem, largest, volumes, fill)),
            Err(last) => tried = last.or(tried),
        }
    }
    Err(tried)
}

/// Of all volumes with this largest one, those with the least left side: a lower blocking bound
/// can be worth more than the longer deadlines that it gives up.
fn least_left_side(
    problem: &Problem<'_>,
    largest: u64,
    found: Vec<u64>,
    fill: impl Fn(&[u64]) -> Option<Vec<u64>>,
) -> Vec<u64> {
    let platform = problem.platform;
    let side = |volumes: &[u64]| left_side(platform, &problem.candidates(volumes));
    let mut levels: Vec<_> = (0..=largest)
        .flat_map(|chunks| {
            let regions = problem
                .demands
                .iter()
                .map(move |d| platform.swap_in(chunks) + platform.execution(&d.timing));
            regions.chain([platform.swap_out(chunks)])
        })
        .collect();
    levels.sort_unstable();
    levels.dedup();
    let (mut least, mut best) = (side(&found), found);
    for level in levels {
        if let Some(volumes) = fill(&problem.caps(level)) {
            let here = side(&volumes);
            if here < least {
                (least, best) = (here, volumes);
            }
        }
    }
    best
}
