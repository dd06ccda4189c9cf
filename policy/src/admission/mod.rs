//! Whether every deadline will be met: one file per test, all under the same scheduler.
//!
//! Each test returns its whole reasoning, so that a refusal can say what binds. `blocking` is
//! what they share.

mod blocking;
pub mod theorem1;

pub use blocking::{Blocking, BlockingTerm};

use alloc::vec::Vec;

use crate::cost::SwapCost;
use crate::task::Timing;
use crate::units::{Bytes, Nanos};

/// What the tests assume of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The measured cost of swapping.
    pub cost: SwapCost,
    /// δ.
    pub chunk: Bytes,
    /// Within this a best-effort job has left the GPU; zero if there is none beside realtime.
    pub drain: Nanos,
    /// ε: from a decision to its effect, added to each C.
    pub dispatch_latency: Nanos,
}

/// One task with its swap volume, as the tests see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// T, D and C.
    pub timing: Timing,
    /// x, a multiple of δ.
    pub volume: Bytes,
}

/// What one task brings to the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskLoad {
    /// Oᴼᵘᵗ(x), three bases included.
    pub swap_out: Nanos,
    /// Oᴵⁿ(x), one base included.
    pub swap_in: Nanos,
    /// E = Oᴼᵘᵗ(x) + Oᴵⁿ(x) + C + ε.
    pub demand: Nanos,
    /// U = E/T.
    pub utilization: f64,
}

/// A verdict and how it came about. Ratios are for people; the verdict was reached in integers.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// Whether no deadline can be missed.
    pub schedulable: bool,
    /// How long a job can be held up by what is due later, and by what.
    pub blocking: Blocking,
    /// In the order of the candidates.
    pub tasks: Vec<TaskLoad>,
    /// ΣU.
    pub utilization: f64,
    /// The left side of the inequality.
    pub demand: f64,
    /// The right side of it.
    pub bound: f64,
    /// `bound - demand`; negative where the test fails.
    pub slack: f64,
}

impl Platform {
    /// C + ε.
    pub(crate) fn execution(&self, timing: &Timing) -> Nanos {
        timing.wcet + self.dispatch_latency
    }

    /// Oᴼᵘᵗ with its three bases. Evictions are counted over busy periods, not per job: N jobs
    /// that swap cause at most 2N−1 partial and n+N−1 exhausting ones.
    pub(crate) fn swap_out(&self, chunks: u64) -> Nanos {
        self.cost.out.chunks(chunks, self.chunk, 3)
    }

    /// Oᴵⁿ with its one base.
    pub(crate) fn swap_in(&self, chunks: u64) -> Nanos {
        self.cost.in_.chunks(chunks, self.chunk, 1)
    }

    /// What `candidate` brings.
    pub(crate) fn load(&self, candidate: &Candidate) -> TaskLoad {
        let chunks = candidate.volume.chunks(self.chunk);
        let (swap_out, swap_in) = (self.swap_out(chunks), self.swap_in(chunks));
        let demand = swap_out + swap_in + self.execution(&candidate.timing);
        TaskLoad {
            swap_out,
            swap_in,
            demand,
            utilization: demand.0 as f64 / candidate.timing.period.0 as f64,
        }
    }
}
