//! What one GPU's scheduler is told at its start.

use crate::admission::{Platform, Test};
use crate::assign::Objective;
use crate::cost::SwapCost;
use crate::units::{Bytes, Nanos, Ppm};

/// Which jobs may hold the GPU at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// One job at a time.
    #[default]
    Exclusive,
    /// One realtime job at a time; best-effort jobs that are wholly resident run beside it and
    /// each other (C must be measured so). Their memory moves only while no realtime job waits or
    /// runs. When one comes and the free memory does not cover what ready tasks lack, best-effort
    /// leaves the GPU as in `Exclusive`.
    Shared,
    /// `Shared` while no task is realtime, `Exclusive` from the registration of one on: nothing of what is
    /// promised to it depends on programs beside it.
    Auto,
}

/// What happens to a realtime job past its WCET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overrun {
    /// It goes on: the others' guarantee is void for this busy period.
    #[default]
    Continue,
    /// Its task becomes best-effort and is revoked: that costs one drain.
    Demote,
}

/// What follows where a best-effort job does not leave the GPU within the drain bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undrained {
    /// Others go on beside it: while it computes or holds memory that was to leave, no promise holds.
    #[default]
    Beside,
    /// The shell kills it. Others go on once it is gone, or after this much time.
    Kill(Nanos),
}

/// The configuration of one GPU's scheduler. It holds while a task is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// mᴰ at the start: what may be handed out. What dies with a detached task must not be
    /// subtracted from it: the scheduler counts that itself until `Event::Released`.
    pub capacity: Bytes,
    /// δ, not zero.
    pub chunk: Bytes,
    /// The measured cost of swapping: with the other copy engine idle for the test `Pipelined`, and loaded for the
    /// others.
    pub swap_cost: SwapCost,
    /// What the plan leaves to best-effort memory that cannot be swapped.
    pub best_effort_reserve: Bytes,
    /// The drain bound S: the time from `Revoke` or `Abort` until others go on. A best-effort job or
    /// swap operation ends within it; others do not wait longer for one that does not. At least the time
    /// of one chunk and one base of the slower direction. With zero the admission tests promise nothing
    /// while a best-effort task runs, a task loads or the set of tasks changes.
    pub drain: Nanos,
    /// What follows where a best-effort job does not leave the GPU within `drain`.
    pub undrained: Undrained,
    /// Which jobs may hold the GPU at the same time.
    pub sharing: Sharing,
    /// ε, added to each C.
    pub dispatch_latency: Nanos,
    /// What happens to a job past C + ε.
    pub overrun: Overrun,
    /// The part of the time that best-effort programs which compute without end may lose to swapping,
    /// while `longest_wait` allows it.
    pub swap_share: Ppm,
    /// How long a best-effort job waits at most for its turn, the time of realtime jobs not counted; longer
    /// only where so many wait that the swaps alone take it.
    pub longest_wait: Nanos,
    /// How long an undeclared job must be idle before its agent reports it as complete. The rest of a revoked
    /// job is requested sooner than that.
    pub idle_gap: Nanos,
    /// What the volumes minimise.
    pub objective: Objective,
    /// The admission test. `Pipelined` also lets evictions and the swap-in that they are for
    /// overlap.
    pub test: Test,
    /// ρ of the test `Pipelined`: the loaded rate of a copy engine over its unloaded rate.
    pub duplex: Ppm,
}

impl Config {
    /// How long a best-effort job or swap operation may hold the GPU or a copy engine once it is to leave:
    /// what the admission tests charge.
    pub fn blocking(&self) -> Nanos {
        match self.undrained {
            Undrained::Beside => self.drain,
            Undrained::Kill(bound) => self.drain + bound,
        }
    }

    /// What the admission tests assume of this GPU.
    pub fn platform(&self) -> Platform {
        Platform {
            cost: self.swap_cost,
            chunk: self.chunk,
            drain: self.blocking(),
            dispatch_latency: self.dispatch_latency,
            duplex: self.duplex,
        }
    }
}
