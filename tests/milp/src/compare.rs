//! One instance under one objective, solved twice.

use std::time::{Duration, Instant};

use rtswap_policy::admission::{Candidate, Test};
use rtswap_policy::assign::{Infeasible, Objective, assign};
use rtswap_policy::units::Bytes;

use crate::draw::Instance;
use crate::milp::{Answer, solve};

/// Optima differ if they do by more than this share of themselves.
const SAME: f64 = 1e-6;
/// Sets whose left side of Eq. (3) is so near to one HiGHS may take for either.
const EDGE: f64 = 1e-7;

/// How the two answers compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same optimum.
    BothFeasible,
    /// Neither finds volumes.
    BothInfeasible,
    /// They differ only by what HiGHS's tolerance allows; evaluated in integers, `assign` is right.
    WithinTolerance,
    /// HiGHS finds nothing, or nothing as good, although the volumes of `assign` are allowed when
    /// evaluated in integers, and not by a tolerance.
    Overruled,
    /// HiGHS ran out of time.
    Unknown,
    /// What differs.
    Disagree(String),
}

/// What came of it and how long each took.
pub struct Comparison {
    /// Who is right.
    pub verdict: Verdict,
    /// `assign` claims its optimum as proven.
    pub proven: bool,
    /// `assign`.
    pub ours: Duration,
    /// HiGHS, with the building of its model.
    pub highs: Duration,
}

/// Solves `instance` both ways.
pub fn compare(instance: &Instance, objective: Objective) -> Comparison {
    let Instance {
        platform,
        capacity,
        demands,
    } = instance;
    let start = Instant::now();
    let plan = assign(Test::Theorem1, platform, *capacity, demands, objective);
    let ours = start.elapsed();
    let start = Instant::now();
    let answer = solve(instance, objective, 1.0);
    let highs = start.elapsed();
    let proven = plan.as_ref().is_ok_and(|plan| plan.gap <= 0.0);
    let found = match plan {
        Ok(plan) => Some(
            plan.volumes
                .iter()
                .map(|x| x.0 / platform.chunk.0)
                .collect::<Vec<_>>(),
        ),
        // HiGHS is not told that a task larger than the GPU never fits.
        Err(Infeasible::TooLarge { .. }) => {
            return Comparison {
                verdict: Verdict::BothInfeasible,
                proven,
                ours,
                highs,
            };
        }
        Err(_) => None,
    };
    let verdict = judge(instance, objective, found.as_deref(), &answer);
    Comparison {
        verdict,
        proven,
        ours,
        highs,
    }
}

fn judge(
    instance: &Instance,
    objective: Objective,
    ours: Option<&[u64]>,
    answer: &Answer,
) -> Verdict {
    let allowed = |volumes: &[u64]| allowed(instance, volumes);
    if let Some(volumes) = ours
        && !allowed(volumes)
    {
        return Verdict::Disagree(format!("assign gives {volumes:?}, which is not allowed"));
    }
    match (ours, answer) {
        (_, Answer::Unknown) => Verdict::Unknown,
        (None, Answer::Infeasible) => Verdict::BothInfeasible,
        (Some(volumes), Answer::Infeasible) if side(instance, volumes) > 1.0 - EDGE => {
            Verdict::WithinTolerance
        }
        (Some(_), Answer::Infeasible) => Verdict::Overruled,
        (Some(volumes), Answer::Volumes(theirs)) => {
            let (here, there) = (
                cost(instance, objective, volumes),
                cost(instance, objective, theirs),
            );
            if (here - there).abs() <= SAME * here.max(there) {
                Verdict::BothFeasible
            } else if here > there {
                overruled(instance, objective, Some(here), theirs)
            } else if side(instance, volumes) > 1.0 - EDGE {
                Verdict::WithinTolerance
            } else {
                Verdict::Overruled
            }
        }
        (None, Answer::Volumes(theirs)) => overruled(instance, objective, None, theirs),
    }
}

/// HiGHS has better volumes than `assign`, if they are allowed. If not, it is asked again with the
/// bound lowered by its tolerance: then nothing may be left that is better and allowed.
fn overruled(
    instance: &Instance,
    objective: Objective,
    here: Option<f64>,
    theirs: &[u64],
) -> Verdict {
    if allowed(instance, theirs) {
        return Verdict::Disagree(format!("HiGHS has {theirs:?}, assign's costs {here:?}"));
    }
    match solve(instance, objective, 1.0 - EDGE) {
        Answer::Unknown => Verdict::Unknown,
        Answer::Infeasible => Verdict::WithinTolerance,
        Answer::Volumes(again) => {
            let there = cost(instance, objective, &again);
            let better = here.is_none_or(|here| there < here * (1.0 - SAME));
            if better && allowed(instance, &again) {
                Verdict::Disagree(format!(
                    "HiGHS has {again:?} at {there}, assign's costs {here:?}"
                ))
            } else {
                Verdict::WithinTolerance
            }
        }
    }
}

/// (1b), (1c) and (1d), in integers.
fn allowed(instance: &Instance, volumes: &[u64]) -> bool {
    let chunk = instance.platform.chunk.0;
    let tasks = || instance.demands.iter().zip(volumes);
    let held: u64 = tasks()
        .map(|(d, _)| d.memory.footprint.0.div_ceil(chunk))
        .sum();
    let out: u64 = volumes.iter().sum();
    tasks().all(|(d, &k)| {
        k * chunk <= d.memory.swappable.0 && (held - (out - k)) * chunk <= instance.capacity.0
    }) && Test::Theorem1.holds(&instance.platform, &candidates(instance, volumes))
}

fn candidates(instance: &Instance, volumes: &[u64]) -> Vec<Candidate> {
    let of = |(d, &k): (&rtswap_policy::assign::Demand, &u64)| Candidate {
        timing: d.timing,
        volume: Bytes(k * instance.platform.chunk.0),
    };
    instance.demands.iter().zip(volumes).map(of).collect()
}

/// The left side of Eq. (3).
fn side(instance: &Instance, volumes: &[u64]) -> f64 {
    Test::Theorem1
        .analyse(&instance.platform, &candidates(instance, volumes))
        .demand
}

fn cost(instance: &Instance, objective: Objective, volumes: &[u64]) -> f64 {
    if objective == Objective::Volume {
        return volumes.iter().sum::<u64>() as f64;
    }
    let analysis = Test::Theorem1.analyse(&instance.platform, &candidates(instance, volumes));
    let tasks = instance.demands.iter().zip(&analysis.tasks);
    tasks
        .map(|(d, load)| (load.swap_out + load.swap_in).0 as f64 / d.timing.deadline.0 as f64)
        .sum()
}
