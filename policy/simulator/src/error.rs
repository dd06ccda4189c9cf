//! Runs that could not be made.

use alloc::string::String;

use rtswap_policy::scheduler::{EventError, InvariantError, MAX_TASKS};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Nanos, Time};

/// A scenario that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
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
    /// `shortest`, from `Scenario::shortest_drain`, is longer than `longest`, the bound
    /// `Config::drain`.
    #[error("the shortest drain, {shortest}, is longer than the longest, {longest}: swap them")]
    Drain { shortest: Nanos, longest: Nanos },
    /// Capacity changes go back in time.
    #[error("the capacity changes are not in the order of their instants: sort them")]
    CapacityOrder,
    /// Releases go back in time.
    #[error("{0}: the releases are not in order: sort them")]
    ReleaseOrder(String),
    /// A best-effort task has no period to come after.
    #[error("{0}: best-effort has no period: let it be greedy, or name its releases")]
    NoPeriod(String),
    /// The bursts of a task are empty, their ranges are upside down, or the task is realtime.
    #[error("{0}: a burst has no job, a range is upside down, or the task has deadlines")]
    Thinks(String),
    /// The execution times of a task are missing, zero or in the wrong order.
    #[error("{0}: no execution is given, one is zero, or the shortest is above the longest")]
    Execution(String),
    /// A best-effort task, or one that may become best-effort, has no script: what is left of a revoked job could not be asked
    /// for.
    #[error(
        "{0}: best-effort jobs cannot copy while they run, and this task is or may become best-effort: give its execution times"
    )]
    NoScript(String),
    /// The script of a task has no end.
    #[error(
        "{0}: its script never ends: steps wait for each other, or nothing is copied in a second"
    )]
    EndlessScript(String),
    /// A task departs before it arrives.
    #[error("{0}: it departs before it arrives: let it depart later")]
    GoneBefore(String),
}

/// A run that could not be made. All but the first and the last two would be bugs of scheduler or
/// simulator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum SimError {
    /// The scenario contradicts itself, so that there is no such run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scheduler refused an event at time `at`, although modelled agents send only valid ones.
    #[error("at {} ns the scheduler refused an event: {error}", .at.0)]
    Refused { at: Time, error: EventError },
    /// An invariant of the scheduler did not hold at time `at`.
    #[error("at {} ns: {error}", .at.0)]
    Invariant { at: Time, error: InvariantError },
    /// At time `at` the scheduler let the agent of `task` do something unsafe, which `what` names.
    #[error("at {} ns task {} {what}", .at.0, .task.0)]
    Unsafe {
        at: Time,
        task: TaskId,
        what: &'static str,
    },
    /// The run made `events` steps at one instant, `at`: it would never end.
    #[error("at {} ns {events} things happened and time stands still", .at.0)]
    Standstill { at: Time, events: usize },
    /// `task`, which is there from the beginning, was refused the memory that it loads.
    #[error("task {} is refused its memory: the others leave it too little", .task.0)]
    OutOfMemory { task: TaskId },
    /// `task` did not end its loading, or its last job, within `after`: the larger of a minute and
    /// twice what the periods, swaps and executions of the scenario can make it wait.
    #[error("task {} is stuck for {after}: the others leave it no memory or no time", .task.0)]
    Stuck { task: TaskId, after: Nanos },
}
