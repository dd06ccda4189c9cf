//! How best-effort tasks take turns: what a policy is asked, and what it is told. The scheduler serves
//! the lowest rank first, moves memory and keeps rule 5; the policy says which task has its turn, and
//! for how long.
//!
//! A *turn* is the time in which a task runs one job after another. The task that has it is the
//! *holder*. `Fair` is the policy of the product; a simulation may bring others.

use core::fmt::Debug;

use crate::task::Weight;
use crate::units::{Nanos, Ppm, Time};

/// The place of a job among those that wait: the lowest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Before all jobs of a higher level.
    pub level: u8,
    /// Within the level.
    pub place: u64,
}

impl Rank {
    /// The level of jobs that are served at once. Their tasks do not count for the floor while they wait.
    pub const AT_ONCE: u8 = 0;
    /// The level of jobs that wait for their turn.
    pub const IN_TURN: u8 = 1;
}

impl Default for Rank {
    fn default() -> Self {
        Self {
            level: Self::IN_TURN,
            place: 0,
        }
    }
}

/// What is known of how a best-effort task uses the GPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// Its weight, as registered.
    pub weight: Weight,
    /// When its open or last job was requested.
    pub requested: Time,
    /// The place of that job.
    pub rank: Rank,
    /// How long it had no job before that one; [`Nanos::MAX`] before the first.
    pub idle: Nanos,
    /// How much of that the GPU was kept for it while others waited.
    pub kept: Nanos,
    /// The pause that it usually makes between two jobs, pauses of more than a second not counted; none if
    /// it never made one.
    pub pause: Option<Nanos>,
    /// The GPU time that it has had, by its weight of 100.
    pub virtual_time: Nanos,
    /// How many turns in a row were ended for another before it was done.
    pub cuts: u32,
}

/// The state of the GPU when a policy is asked.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// When the turn began.
    pub since: Time,
    /// When the job of the holder that runs was granted, or now if none runs.
    pub granted: Time,
    /// The GPU time of best-effort, up to `granted`, since memory last moved for a turn, and the time that
    /// the GPU was kept for the next job.
    pub settled: Nanos,
    /// How long the GPU would stand still to give the other task its turn, by what such changes
    /// took until now; zero if all its memory is there.
    pub change: Nanos,
    /// How long it would stand still if all memory of that task had to come.
    pub price: Nanos,
    /// How many jobs of other tasks than the holder wait.
    pub waiting: u64,
    /// When the job of the other task goes before all others, because it has waited so long.
    pub presses: Time,
}

/// What a policy asks of the scheduler for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// Whether other tasks with all their memory on the GPU may run within a turn.
    pub shares_turns: bool,
    /// Whether the memory of the next task comes in as far as others than the holder have given it,
    /// before the turn ends.
    pub brings_ahead: bool,
    /// Whether chunks leave and come at the same time.
    pub overlaps: bool,
    /// Whether all of the former holder's memory leaves, needed or not.
    pub suspends: bool,
}

/// A policy for best-effort. It is told everything and keeps nothing.
pub trait Discipline: Debug + Send + Sync {
    /// What it asks of the scheduler.
    fn manners(&self) -> Manners;

    /// The place of the job that `task` requests now. The least virtual time of those that wait or run
    /// is `floor`, or was when one last did. May raise the task's virtual time.
    fn rank(&self, task: &mut Standing, floor: Nanos, moment: &Moment) -> Rank;

    /// When the turn of `holder` ends for `other`, which waits: an instant that may have passed, or
    /// [`Time::MAX`] if not before the holder is idle. `holder` is as of `moment.granted`, and `moment.change`
    /// is what giving the turn to `other` costs.
    fn turn_ends(&self, holder: &Standing, other: &Standing, moment: &Moment) -> Time;

    /// How long the GPU is kept for the next job of `holder`, when its last has ended and another waits
    /// for the turn.
    fn keeps(&self, holder: &Standing, moment: &Moment) -> Nanos;

    /// How long a job waits at most, while that can be had; none if it may wait for ever.
    fn longest_wait(&self) -> Option<Nanos>;

    /// How much longer the others wait for each one that goes before them because it has waited so long,
    /// if giving it its turn takes `change`.
    fn delay(&self, change: Nanos) -> Nanos;

    /// Memory has moved to give `task` its turn, and the GPU stood still for `took`. `former` had the turn
    /// before, if it still waits.
    fn changed(&self, task: &mut Standing, former: Option<&mut Standing>, took: Nanos);
}

/// The part `share` of a time is what `span` takes: the rest of it.
pub(crate) fn rest(span: Nanos, share: Ppm) -> Nanos {
    span.slowed(share).saturating_sub(span)
}
