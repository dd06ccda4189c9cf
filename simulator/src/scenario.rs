//! What to simulate.

use alloc::vec::Vec;

use rtswap_policy::scheduler::Config;
use rtswap_policy::task::TaskSpec;
use rtswap_policy::units::Nanos;

/// When a task's jobs are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Every period, from `offset` on.
    Periodic {
        /// After all tasks are ready.
        offset: Nanos,
    },
    /// A period and up to `jitter` more after the request before, from `offset` on.
    Sporadic {
        /// After all tasks are ready.
        offset: Nanos,
        /// The most that is added to a period.
        jitter: Nanos,
    },
    /// Best-effort: always, as soon as the job before has ended.
    Greedy,
}

/// One task with its behaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimTask {
    /// What it registers as. A best-effort task takes its footprint, of which the swappable part
    /// lies in the arena.
    pub spec: TaskSpec,
    /// When its jobs are asked for.
    pub arrivals: Arrivals,
    /// The shortest execution of a job; the longest is its WCET. A greedy job takes this.
    pub shortest: Nanos,
}

/// One run on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The GPU. Swapping takes exactly what `swap_cost` says, a drain up to `drain`.
    pub config: Config,
    /// The tasks, in the order in which they register and load.
    pub tasks: Vec<SimTask>,
    /// How long jobs are asked for, from the instant at which all realtime tasks are ready.
    pub duration: Nanos,
    /// For jitter, executions and drains.
    pub seed: u64,
}
