//! SwapNet's tables and figures, one file each.

pub(crate) mod ablation;
pub(crate) mod adaptation;
pub(crate) mod applications;
pub(crate) mod budgets;
pub(crate) mod distribution;
pub(crate) mod numbers;
pub(crate) mod profiling;
pub(crate) mod tables;

use anyhow::Result;

use crate::report::Report;

/// Computes one of them.
pub(crate) type Compute = fn() -> Result<Report>;
