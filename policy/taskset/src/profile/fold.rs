//! From what two runs of a program did to its profile: one of the whole process, and one of each job that has a name.

use std::collections::{BTreeMap, BTreeSet};

use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

use super::{Allocation, AllocationKind, CUT, Execution, Jobs, Profile, Record, SeenJob};
use crate::MAX_NAME;
use crate::error::unseen;

/// The fewest jobs of a run of which anything is said.
pub const LEAST_JOBS: usize = 20;

/// How sure `Execution::quantile` is.
const CONFIDENCE: Ppm = Ppm(950_000);
/// So many jobs have a 99th percentile; fewer have the 95th.
const HUNDRED: usize = 100;
/// The most bytes of a task's name.
const MOST_TASK_NAME: usize = 63;
/// The most allocations that a profile lists: the largest ones.
const MOST_ALLOCATIONS: usize = 1_000;
/// Times are rounded up to these.
const MICROSECOND: u64 = 1_000;
const WCET_STEP: u64 = 10 * MICROSECOND;

/// What a profile says beside the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The task's name.
    pub name: String,
    /// In seconds since 1970.
    pub measured: u64,
    /// The program and its arguments.
    pub program: String,
    /// The UUID of the GPU.
    pub gpu: String,
    /// The product's name.
    pub gpu_name: Option<String>,
}

/// The profiles of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// Of the process, which is one task: all jobs.
    pub whole: Profile,
    /// Of the jobs of each name, by itself. None if no job has a name.
    pub named: Vec<Profile>,
    /// Names of jobs that came too rarely in one of the runs.
    pub rare: Vec<String>,
    /// What the profiles of further jobs would be called, if a task's name could be so long.
    pub long: Vec<String>,
    /// Jobs of both runs that did not count, because the program was still loading.
    pub loading: usize,
}

/// Why there is no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// Too few jobs.
    #[error(
        "{alone} jobs were seen alone and {loaded} beside the neighbor, and fewer than {LEAST_JOBS} say nothing: \
         let the program run longer, or give --jobs with at least {LEAST_JOBS}; jobs while it loads do not count"
    )]
    TooFew {
        /// In the run by itself.
        alone: usize,
        /// In the run beside the neighbor.
        loaded: usize,
    },
}

/// Makes the profiles of a program that ran `alone` and `loaded`, beside a neighbor on both copy engines.
pub fn fold(about: &About, alone: &Record, loaded: &Record) -> Result<Folded, FoldError> {
    let all = |_: &SeenJob| true;
    let whole = profile(about, about.name.clone(), alone, loaded, all)?;
    let names: BTreeSet<_> = [alone, loaded]
        .iter()
        .flat_map(|record| record.counted())
        .filter_map(|job| job.name.clone())
        .collect();
    let (mut named, mut rare, mut long) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        let of_name = |job: &SeenJob| job.name.as_ref() == Some(&name);
        let task = format!("{}.{name}", about.name);
        match profile(about, task, alone, loaded, of_name) {
            Ok(profile) if profile.name.len() > MOST_TASK_NAME => long.push(profile.name),
            Ok(profile) => named.push(Profile {
                process: Some(about.name.clone()),
                ..profile
            }),
            Err(FoldError::TooFew { .. }) => rare.push(name),
        }
    }
    let loading = |record: &Record| record.jobs.len() - record.counted().len();
    Ok(Folded {
        whole,
        named,
        rare,
        long,
        loading: loading(alone) + loading(loaded),
    })
}

fn profile(
    about: &About,
    name: String,
    alone: &Record,
    loaded: &Record,
    counts: impl Fn(&SeenJob) -> bool,
) -> Result<Profile, FoldError> {
    let of = |record: &'_ Record| -> Vec<SeenJob> {
        let jobs = record.counted().iter();
        jobs.filter(|job| counts(job)).cloned().collect()
    };
    let [by_itself, beside] = [of(alone), of(loaded)];
    if by_itself.len().min(beside.len()) < LEAST_JOBS {
        return Err(FoldError::TooFew {
            alone: by_itself.len(),
            loaded: beside.len(),
        });
    }
    let [first, second] = [execution(&by_itself), execution(&beside)];
    let longest = first.max.max(second.max);
    let all = || by_itself.iter().chain(&beside);
    let declared = all().filter(|job| job.declared).count();
    Ok(Profile {
        name,
        measured: about.measured,
        process: None,
        program: plain(&about.program),
        jobs: match declared {
            0 => Jobs::Implicit,
            some if some == by_itself.len() + beside.len() => Jobs::Declared,
            _ => Jobs::Mixed,
        },
        gpu: about.gpu.clone(),
        gpu_name: about.gpu_name.clone(),
        chunk: loaded.chunk,
        memory: memory(alone, loaded),
        period: period(&[&by_itself, &beside]),
        wcet: up(longest, WCET_STEP),
        alone: first,
        loaded: second,
        allocations: allocations(alone, loaded),
    })
}

/// The most of all: what stays when everything else is swapped is part of the footprint, too.
fn memory(alone: &Record, loaded: &Record) -> MemoryProfile {
    let jobs = || alone.jobs.iter().chain(&loaded.jobs);
    let most = |of: fn(&SeenJob) -> Bytes| jobs().map(of).max().unwrap_or_default();
    let swappable = most(|job| job.arena);
    MemoryProfile {
        footprint: most(|job| job.peak).max(swappable + most(|job| job.unswappable)),
        swappable,
    }
}

/// The median and the least distance of requests in a row, each cut to a microsecond.
fn period(runs: &[&[SeenJob]]) -> (Nanos, Nanos) {
    let mut gaps = Vec::new();
    for run in runs {
        let mut requests: Vec<_> = run.iter().map(|job| job.requested).collect();
        requests.sort_unstable();
        let of_run = requests.windows(2);
        gaps.extend(of_run.map(|pair| pair[1] - pair[0]));
    }
    gaps.sort_unstable();
    let down = |gap: u64| Nanos((gap / MICROSECOND).max(1) * MICROSECOND);
    let at = |place: usize| down(gaps.get(place).map_or(0, |gap| gap.0));
    (at(gaps.len() / 2), at(0))
}

fn execution(jobs: &[SeenJob]) -> Execution {
    let mut times: Vec<_> = jobs.iter().map(|job| job.execution).collect();
    times.sort_unstable();
    let count = times.len();
    let high = if count < HUNDRED {
        Ppm(950_000)
    } else {
        Ppm(990_000)
    };
    // The least number of jobs that are at least this share.
    let rank = |share: Ppm| (count * share.0 as usize).div_ceil(1_000_000);
    let at = |rank: usize| up(times[rank.clamp(1, count) - 1], MICROSECOND);
    Execution {
        count: count as u64,
        median: at(rank(Ppm(500_000))),
        high: (high, at(rank(high))),
        max: at(count),
        quantile: bound(count),
        confidence: CONFIDENCE,
    }
}

/// The share of all executions that are surely no longer than the longest of `count`, with [`CONFIDENCE`], in
/// thousandths rounded down: all of them are below the q-quantile with the probability qⁿ.
fn bound(count: usize) -> Ppm {
    let doubt = 1.0 - f64::from(CONFIDENCE.0) / 1e6;
    let share = (doubt.ln() / count as f64).exp();
    Ppm((share * 1_000.0).floor() as u32 * 1_000)
}

fn allocations(alone: &Record, loaded: &Record) -> Vec<Allocation> {
    let mut most: BTreeMap<(Bytes, AllocationKind), u64> = BTreeMap::new();
    for seen in alone.allocations.iter().chain(&loaded.allocations) {
        let count = most.entry((seen.bytes, seen.kind)).or_default();
        *count = (*count).max(seen.count);
    }
    let largest = most.into_iter().rev().take(MOST_ALLOCATIONS);
    largest
        .map(|((bytes, kind), count)| Allocation { bytes, kind, count })
        .collect()
}

/// At least one step.
fn up(time: Nanos, step: u64) -> Nanos {
    Nanos(time.0.max(1).div_ceil(step).saturating_mul(step))
}

/// What a file can say of a command line.
fn plain(program: &str) -> String {
    // The last is what stood for bytes that are no text.
    let is_odd = |c: char| unseen(c) || c == char::REPLACEMENT_CHARACTER;
    let plain = || program.chars().take_while(|c| !is_odd(*c));
    if plain().count() == program.chars().count() && plain().nth(MAX_NAME).is_none() {
        return program.to_owned();
    }
    plain().take(MAX_NAME - 1).chain([CUT]).collect()
}
