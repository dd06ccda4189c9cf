//! What one job of a task occupies, under each test.

use super::{Candidate, Platform, Test};
use crate::task::Timing;
use crate::units::Nanos;

/// What one task brings to the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskLoad {
    /// Oᴼᵘᵗ(x), its bases included.
    pub swap_out: Nanos,
    /// Oᴵⁿ(x), one base included.
    pub swap_in: Nanos,
    /// E: their sum and C + ε; for `Pipelined` less by what overlaps.
    pub demand: Nanos,
    /// U = E/T.
    pub utilization: f64,
}

impl Platform {
    /// As the tests charge it. How many evictions a job causes is bounded by the realtime tasks
    /// only where there are no others: beside best-effort each chunk may come from another victim,
    /// so the base of an eviction is part of every chunk.
    pub(crate) fn charged(&self) -> Self {
        let mut charged = *self;
        if self.drain > Nanos::ZERO {
            let out = &mut charged.cost.out;
            out.per_chunk += out.base;
            out.base = Nanos::ZERO;
        }
        charged
    }

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

    /// The time of a pipelined region before its execution, in a set of `tasks`: at most as many
    /// evictions as there are other tasks or chunks, all chunks at the pace of the slower
    /// direction, and one chunk more to fill the pipeline.
    pub(crate) fn overlapped(&self, chunks: u64, tasks: u64) -> Nanos {
        if chunks == 0 {
            return Nanos::ZERO;
        }
        let (out, in_) = (&self.cost.out, &self.cost.in_);
        let (a, b) = (out.chunk_time(self.chunk), in_.chunk_time(self.chunk));
        let copies = Nanos(a.max(b).0.saturating_mul(chunks)) + a.min(b);
        let evictions = tasks.saturating_sub(1).min(chunks);
        copies.slowed(self.duplex) + Nanos(out.base.0.saturating_mul(evictions)) + in_.base
    }

    /// What each chunk adds to E at least.
    pub(crate) fn pace(&self, test: Test) -> Nanos {
        let out = self.cost.out.chunk_time(self.chunk);
        let in_ = self.cost.in_.chunk_time(self.chunk);
        match test {
            Test::Theorem1 | Test::Demand => out + in_,
            Test::Pipelined => out.max(in_).slowed(self.duplex).saturating_sub(Nanos(1)),
        }
    }

    /// What `candidate` brings to `test` in a set of `tasks`.
    pub(crate) fn load(&self, test: Test, tasks: u64, candidate: &Candidate) -> TaskLoad {
        let chunks = candidate.volume.chunks(self.chunk);
        let (swap_in, execution) = (self.swap_in(chunks), self.execution(&candidate.timing));
        let (swap_out, demand) = match test {
            Test::Theorem1 | Test::Demand => {
                let swap_out = self.swap_out(chunks);
                (swap_out, swap_out + swap_in + execution)
            }
            Test::Pipelined => {
                let evictions = tasks.saturating_sub(1).min(chunks);
                let swap_out = self.cost.out.chunks(chunks, self.chunk, evictions);
                (swap_out, self.overlapped(chunks, tasks) + execution)
            }
        };
        TaskLoad {
            swap_out,
            swap_in,
            demand,
            utilization: demand.0 as f64 / candidate.timing.period.0 as f64,
        }
    }
}
