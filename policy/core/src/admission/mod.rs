//! Whether every deadline will be met: one file per test, all under the same scheduler.
//!
//! Each test returns its whole reasoning, so that a refusal can say what binds. `blocking` and
//! `load` are what they share, `processor` is what `demand` and `pipelined` share. docs/theory.md
//! has the proofs.

mod blocking;
mod load;
mod processor;
#[cfg(test)]
mod tests;
mod theorem1;

pub use blocking::{Blocking, BlockingTerm};
pub use load::TaskLoad;

use alloc::vec::Vec;

use crate::cost::SwapCost;
use crate::task::Timing;
use crate::units::{Bytes, Nanos, Ppm};

/// An admission test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Test {
    /// The paper's Theorem 1, Eq. (2) and (3): B/min D + Σ E/D ≤ 1.
    Theorem1,
    /// Processor demand at every deadline. It accepts all that `Theorem1` accepts.
    #[default]
    Demand,
    /// As `Demand`, for a scheduler that lets evictions and the swap-in that they are for overlap
    /// chunk by chunk.
    Pipelined,
}

/// What the tests assume of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The measured cost of swapping: with the other copy engine idle for `Test::Pipelined`, which charges
    /// `duplex` itself, and for the other tests [`SwapCost::loaded`].
    pub cost: SwapCost,
    /// Chunk size δ in bytes.
    pub chunk: Bytes,
    /// The time within which a revoked best-effort job leaves the GPU; zero if no best-effort job runs
    /// beside realtime.
    pub drain: Nanos,
    /// ε: from a decision to its effect, added to each C.
    pub dispatch_latency: Nanos,
    /// ρ: the rate of a copy engine while the other one copies too over its rate alone, of the
    /// direction that suffers more. Only `Test::Pipelined` uses it.
    pub duplex: Ppm,
}

/// One task with its swap volume, as the tests see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// T, D and C.
    pub timing: Timing,
    /// x, a multiple of δ.
    pub volume: Bytes,
}

/// A verdict and how it came about. Ratios are for people; the verdict was reached in integers.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// The test that was applied.
    pub test: Test,
    /// Whether no deadline can be missed.
    pub schedulable: bool,
    /// Whether the test came to its end. If not, the times are too large or ΣU too close to one
    /// for it to be done within its bound on work, and the set counts as not schedulable.
    pub complete: bool,
    /// How long a job can be held up by what is due later, and by what: at `binding`, or at all
    /// for `Theorem1`.
    pub blocking: Blocking,
    /// In the order of the candidates.
    pub tasks: Vec<TaskLoad>,
    /// Total utilization ΣU, swapping included: at most 1 in a schedulable set.
    pub utilization: f64,
    /// The left side of the inequality over the right one: for `Theorem1` of Eq. (3), for the
    /// others the largest over all deadlines, or ΣU if that is no less or almost as much.
    pub demand: f64,
    /// What `demand` must not exceed.
    pub bound: f64,
    /// `bound - demand`; negative where the test fails.
    pub slack: f64,
    /// The time span L from a release to a deadline that binds; none if ΣU does, to within a
    /// hundredth, and for `Theorem1`.
    pub binding: Option<Nanos>,
}

impl Test {
    /// Its name in files and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Theorem1 => "theorem1",
            Self::Demand => "demand",
            Self::Pipelined => "pipelined",
        }
    }

    /// Tests `candidates` and says why. No candidates are schedulable.
    pub fn analyse(self, platform: &Platform, candidates: &[Candidate]) -> Analysis {
        let platform = &platform.charged();
        match self {
            Self::Theorem1 => theorem1::analyse(platform, candidates),
            Self::Demand | Self::Pipelined => processor::analyse(self, platform, candidates),
        }
    }

    /// The verdict alone.
    pub fn holds(self, platform: &Platform, candidates: &[Candidate]) -> bool {
        let platform = &platform.charged();
        match self {
            Self::Theorem1 => theorem1::holds(platform, candidates),
            Self::Demand | Self::Pipelined => processor::holds(self, platform, candidates),
        }
    }
}
