//! One instance under one objective, solved twice.

use std::time::{Duration, Instant};

use rtswap_policy::admission::{Candidate, Test};
use rtswap_policy::assign::{Infeasible, Objective, assign};
use rtswap_policy::units::Bytes;

use crate::draw::Instance;
use crate::milp::{Answer, solve};
use crate::solver::{Solver, SolverError};

/// Optima are the same if they differ by at most this share of themselves.
const SAME: f64 = 1e-6;
/// HiGHS may err on a set whose left side of Eq. (3) is this near to one.
const EDGE: f64 = 1e-7;

/// How the two answers compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The same optimum.
    BothFeasible,
    /// Neither `assign` nor HiGHS finds volumes.
    BothInfeasible,
    /// The answers differ only by what HiGHS's tolerance allows; evaluated in integers, `assign` is
    /// right.
    WithinTolerance,
    /// HiGHS finds nothing, or nothing as good, although the volumes of `assign` are allowed when
    /// evaluated in integers, by more than a tolerance.
    Overruled,
    /// HiGHS ran out of time or gave up.
    Unknown,
    /// `assign` is wrong; the text says how.
    Disagree(String),
}

/// The outcome for one instance.
pub(crate) struct Comparison {
    /// How the answers compare.
    pub(crate) verdict: Verdict,
    /// Whether `assign` claims its optimum as proven.
    pub(crate) proven: bool,
    /// Wall time of `assign`.
    pub(crate) ours: Duration,
    /// Wall time of HiGHS, with the building of its model, but without the pipes to its process.
    pub(crate) highs: Duration,
}

/// Solves `instance` both ways.
pub(crate) fn compare(
    solver: &mut Solver,
    instance: &Instance,
    objective: Objective,
) -> Result<Comparison, SolverError> {
    let Instance {
        platform,
        capacity,
        demands,
    } = instance;
    let start = Instant::now();
    let plan = assign(Test::Theorem1, platform, *capacity, demands, objective);
    let ours = start.elapsed();
    let (answer, highs) = solve(solver, instance, objective, 1.0)?;
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
            return Ok(Comparison {
                verdict: Verdict::BothInfeasible,
                proven,
                ours,
                highs,
            });
        }
        Err(_) => None,
    };
    Ok(Comparison {
        verdict: judge(solver, instance, objective, found.as_deref(), &answer)?,
        proven,
        ours,
        highs,
    })
}

fn judge(
    solver: &mut Solver,
    instance: &Instance,
    objective: Objective,
    ours: Option<&[u64]>,
    answer: &Answer,
) -> Result<Verdict, SolverError> {
    let allowed = |volumes: &[u64]| allowed(instance, volumes);
    if let Some(volumes) = ours
        && !allowed(volumes)
    {
        let text = format!("assign gives {volumes:?}, which is not allowed");
        return Ok(Verdict::Disagree(text));
    }
    Ok(match (ours, answer) {
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
                overruled(solver, instance, objective, Some(here), theirs)?
            } else if side(instance, volumes) > 1.0 - EDGE {
                Verdict::WithinTolerance
            } else {
                Verdict::Overruled
            }
        }
        (None, Answer::Volumes(theirs)) => overruled(solver, instance, objective, None, theirs)?,
    })
}

/// HiGHS has better volumes than `assign`, if they are allowed. If not, HiGHS solves the instance
/// again with the bound lowered by its tolerance: then no volumes may be both better and allowed.
fn overruled(
    solver: &mut Solver,
    instance: &Instance,
    objective: Objective,
    here: Option<f64>,
    theirs: &[u64],
) -> Result<Verdict, SolverError> {
    if allowed(instance, theirs) {
        let text = format!("HiGHS has {theirs:?}, assign's costs {here:?}");
        return Ok(Verdict::Disagree(text));
    }
    let (answer, _) = solve(solver, instance, objective, 1.0 - EDGE)?;
    Ok(match answer {
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
    })
}

/// Whether `volumes`, in chunks, satisfy (1b), (1c) and (1d), evaluated in integers.
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

/// The left side of Eq. (3) for `volumes` in chunks.
pub(crate) fn side(instance: &Instance, volumes: &[u64]) -> f64 {
    Test::Theorem1
        .analyse(&instance.platform, &candidates(instance, volumes))
        .demand
}

/// The objective for `volumes` in chunks.
pub(crate) fn cost(instance: &Instance, objective: Objective, volumes: &[u64]) -> f64 {
    if objective == Objective::Volume {
        return volumes.iter().sum::<u64>() as f64;
    }
    let analysis = Test::Theorem1.analyse(&instance.platform, &candidates(instance, volumes));
    let tasks = instance.demands.iter().zip(&analysis.tasks);
    tasks
        .map(|(d, load)| (load.swap_out + load.swap_in).0 as f64 / d.timing.deadline.0 as f64)
        .sum()
}
