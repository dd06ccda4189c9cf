//! What was measured of a program, as JSON.

use std::path::PathBuf;

use rtswap_policy::units::Ppm;
use rtswap_taskset::profile::{self, Profile};
use serde::Serialize;

use super::Outcome;

/// The JSON of `profile`, version 1.
#[derive(Debug, Serialize)]
pub(super) struct Answer<'a> {
    version: u32,
    /// None where it is not whole.
    command: Option<&'a str>,
    gpu: Gpu<'a>,
    whole: Measured<'a>,
    named: Vec<Measured<'a>>,
    rare: &'a [String],
    long: &'a [String],
    loading_jobs: usize,
    other_processes: usize,
}

#[derive(Debug, Serialize)]
struct Gpu<'a> {
    uuid: &'a str,
    name: Option<&'a str>,
    chunk_bytes: u64,
}

/// A profile.
#[derive(Debug, Serialize)]
struct Measured<'a> {
    name: &'a str,
    file: Option<String>,
    jobs: &'static str,
    footprint_bytes: u64,
    swappable_bytes: u64,
    period_median_ns: u64,
    period_shortest_ns: u64,
    wcet_ns: u64,
    alone: Execution,
    loaded: Execution,
    allocations: Vec<Allocation>,
}

#[derive(Debug, Serialize)]
struct Execution {
    count: u64,
    median_ns: u64,
    high: f64,
    high_ns: u64,
    max_ns: u64,
    quantile: f64,
    confidence: f64,
}

#[derive(Debug, Serialize)]
struct Allocation {
    bytes: u64,
    count: u64,
    kind: &'static str,
}

impl<'a> Answer<'a> {
    pub(super) fn new(outcome: &'a Outcome) -> Self {
        let folded = &outcome.folded;
        let whole = &folded.whole;
        let named = folded.named.iter().zip(&outcome.named);
        Self {
            version: 1,
            command: whole.command(),
            gpu: Gpu {
                uuid: &whole.gpu,
                name: whole.gpu_name.as_deref(),
                chunk_bytes: whole.chunk.0,
            },
            whole: Measured::new(whole, Some(&outcome.path)),
            named: named
                .map(|(profile, file)| Measured::new(profile, file.as_ref()))
                .collect(),
            rare: &folded.rare,
            long: &folded.long,
            loading_jobs: folded.loading,
            other_processes: outcome.others,
        }
    }
}

impl<'a> Measured<'a> {
    fn new(profile: &'a Profile, file: Option<&'a PathBuf>) -> Self {
        let (median, shortest) = profile.period;
        let allocations = profile.allocations.iter();
        Self {
            name: &profile.name,
            file: file.map(|path| path.display().to_string()),
            jobs: profile.jobs.name(),
            footprint_bytes: profile.memory.footprint.0,
            swappable_bytes: profile.memory.swappable.0,
            period_median_ns: median.0,
            period_shortest_ns: shortest.0,
            wcet_ns: profile.wcet.0,
            alone: Execution::new(&profile.alone),
            loaded: Execution::new(&profile.loaded),
            allocations: allocations
                .map(|it| Allocation {
                    bytes: it.bytes.0,
                    count: it.count,
                    kind: it.kind.name(),
                })
                .collect(),
        }
    }
}

impl Execution {
    fn new(seen: &profile::Execution) -> Self {
        let share = |share: Ppm| f64::from(share.0) / f64::from(Ppm::ONE.0);
        Self {
            count: seen.count,
            median_ns: seen.median.0,
            high: share(seen.high.0),
            high_ns: seen.high.1.0,
            max_ns: seen.max.0,
            quantile: share(seen.quantile),
            confidence: share(seen.confidence),
        }
    }
}
