//! Runs that could not be made.

use alloc::string::String;

use rtswap_policy::scheduler::{EventError, InvariantError, MAX_TASKS};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Nanos, Time};

/// A scenario that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// There is nothing to simulate.
    #[error("no task is given: give at least one")]
    NoTasks,
    /// More than the daemon takes.
    #[error("{0} tasks are given: give at most {MAX_TASKS}")]
    TooManyTasks(usize),
    /// Nothing would be asked for.
    #[error("the duration is zero: give a longer one")]
    NoDuration,
    /// δ is zero.
    #[error("the chunk size is zero: give at least one byte")]
    NoChunk,
    /// ρ is not a share.
    #[error("the duplex rate is {0} ppm: give more than 0 and at most 1000000")]
    Duplex(u32),
    /// A drain that is longer than its bound.
    #[error("the shortest drain, {shortest}, is longer than the longest, {longest}: swap them")]
    Drain {
        /// `Scenario::shortest_drain`.
        shortest: Nanos,
        /// `Config::drain`.
        longest: Nanos,
    },
    /// Capacity changes go back in time.
    #[error("the capacity changes are not in the order of their instants: sort them")]
    CapacityOrder,
    /// Releases go back in time.
    #[error("{0}: the releases are not in order: sort them")]
    ReleaseOrder(String),
    /// A best-effort task has no period to come after.
    #[error("{0}: best-effort has no period: let it be greedy, or name its releases")]
    NoPeriod(String),
    /// Executions that are none.
    #[error("{0}: no execution is given, one is zero, or the shortest is above the longest")]
    Execution(String),
    /// A task that goes before it comes.
    #[error("{0}: it departs before it arrives: let it depart later")]
    GoneBefore(String),
}

/// A run that could not be made. All but the first and the last two would be bugs of scheduler or
/// simulator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// There is no such run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scheduler refused an event.
    #[error("at {} ns the scheduler refused an event: {error}", .at.0)]
    Refused {
        /// When.
        at: Time,
        /// Why.
        error: EventError,
    },
    /// An invariant does not hold.
    #[error("at {} ns: {error}", .at.0)]
    Invariant {
        /// When.
        at: Time,
        /// Which.
        error: InvariantError,
    },
    /// The scheduler let an agent do what it must not.
    #[error("at {} ns task {} {what}", .at.0, .task.0)]
    Unsafe {
        /// When.
        at: Time,
        /// Who.
        task: TaskId,
        /// What.
        what: &'static str,
    },
    /// Things happen for ever and time does not pass.
    #[error("at {} ns {events} things happened and time stands still", .at.0)]
    Standstill {
        /// When.
        at: Time,
        /// How many.
        events: usize,
    },
    /// A task that is there from the beginning was refused the memory that it loads.
    #[error("task {} is refused its memory: the others leave it too little", .task.0)]
    OutOfMemory {
        /// Who.
        task: TaskId,
    },
    /// A task did not come to the end of its loading, or of its last job, within a minute or twice
    /// what the periods, the swaps and the executions of the scenario can make it wait.
    #[error("task {} is stuck for {after}: the others leave it no memory or no time", .task.0)]
    Stuck {
        /// Who.
        task: TaskId,
        /// How long it had.
        after: Nanos,
    },
}
