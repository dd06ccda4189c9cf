//! SwapAdvisor's tables and figures, one file each.

pub(crate) mod inference;
pub(crate) mod progress;
pub(crate) mod serving;
pub(crate) mod settings;
pub(crate) mod shares;
pub(crate) mod sizes;

use std::thread::available_parallelism;

use anyhow::Result;
use rtswap_eval::advisor::search::Effort;

use crate::report::Report;

/// How much is searched.
#[derive(Clone, Copy)]
pub(crate) struct Searches {
    /// Generations of our search.
    pub(crate) ours: u32,
    /// Generations of SwapAdvisor's own.
    pub(crate) paper: u32,
}

/// The seed of all searches.
const SEED: u64 = 1;

impl Searches {
    fn effort(generations: u32) -> Effort {
        Effort {
            generations,
            threads: available_parallelism().map_or(1, Into::into),
            seed: SEED,
        }
    }

    fn ours(self) -> Effort {
        Self::effort(self.ours)
    }

    fn paper(self) -> Effort {
        Self::effort(self.paper)
    }
}

/// Computes one of them.
pub(crate) type Compute = fn(Searches) -> Result<Report>;

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
