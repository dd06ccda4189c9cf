//! TENSILE's tables, one file each.

pub(crate) mod across;
pub(crate) mod dynamic;
pub(crate) mod ratios;

use anyhow::Result;
use rtswap_eval::tensile::measure::Effort;

use crate::report::Report;

/// Computes one of them in so many noisy runs.
pub(crate) type Compute = fn(u64) -> Result<Report>;

fn effort(runs: u64) -> Effort {
    Effort {
        runs,
        ..Effort::FULL
    }
}

fn percent(part: f64) -> f64 {
    100.0 * part
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}
