//! One file a figure: what to compute, what to compare, what to show.

mod capacity;
mod case_study;
mod fragmentation;
mod resolution;
mod schedules;
mod swap_time;
mod tasks;

use anyhow::Result;
use rtswap_eval::figures::approach::Approach;
use rtswap_policy::admission::Test;
use rtswap_policy::units::{Bytes, Nanos};

use crate::report::Report;

/// The seeds of everything that is drawn; figures show the first.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Task sets of each kind, as in the paper.
const SETS: u32 = 100;

/// One of the paper's figures and tables.
#[derive(Clone, Copy)]
pub(crate) enum Figure {
    SwapTime,
    UnnecessarySwaps,
    Blocking,
    Tasks,
    Capacity,
    Resolution,
    Fragmentation,
    CaseStudy,
}

impl Figure {
    pub(crate) const ALL: [Self; 8] = [
        Self::SwapTime,
        Self::UnnecessarySwaps,
        Self::Blocking,
        Self::Tasks,
        Self::Capacity,
        Self::Resolution,
        Self::Fragmentation,
        Self::CaseStudy,
    ];

    /// Computes it; `test` where one matters.
    pub(crate) fn report(self, test: Test) -> Result<Report> {
        match self {
            Self::SwapTime => swap_time::report(),
            Self::UnnecessarySwaps => schedules::unnecessary_swaps(),
            Self::Blocking => schedules::blocking(),
            Self::Tasks => tasks::report(test),
            Self::Capacity => capacity::report(test),
            Self::Resolution => resolution::report(test),
            Self::Fragmentation => fragmentation::report(),
            Self::CaseStudy => case_study::report(test),
        }
    }
}

/// The columns of a table with one for each approach after the first.
fn approaches(first: &'static str) -> Vec<&'static str> {
    let mut columns = vec![first];
    columns.extend(Approach::ALL.map(Approach::name));
    columns
}

fn millis(span: Nanos) -> f64 {
    span.0 as f64 / 1e6
}

fn mebibytes(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 20)
}

fn gibibytes(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 30)
}
