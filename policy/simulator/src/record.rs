//! Observers of a run, for traces and statistics. Records are made only if an observer watches.

use alloc::string::String;

use rtswap_policy::scheduler::{Direction, JobAccount, SwapOutcome, SwapSeq, ViolationKind};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};

/// Swapping on behalf of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Swap operations that ended between the job's request and its end.
    pub operations: u32,
    /// What they moved.
    pub bytes: Bytes,
}

/// One job that ended: the scheduler's account of it, and what was swapped for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where its time went.
    pub account: JobAccount,
    /// Evictions of others made for it.
    pub out: Moved,
    /// Its own swap-ins.
    pub in_: Moved,
}

/// What a best-effort program did between two pauses of its user: one job or several, each in as
/// many parts as it was revoked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The task of the program.
    pub task: TaskId,
    /// When its first job was requested.
    pub requested: Time,
    /// When its last job had executed to its end, or the run ended.
    pub ended: Time,
    /// The executions of its jobs together.
    pub work: Nanos,
    /// How long it takes with the GPU to itself: its work, ε for each job, and the pauses between them.
    pub alone: Nanos,
    /// How often one of its jobs was granted the GPU.
    pub parts: u32,
    /// Whether all of it has executed.
    pub complete: bool,
}

/// One swap operation that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapRecord {
    /// The task that the moved memory belongs to.
    pub task: TaskId,
    /// The operation's number within the task.
    pub op: SwapSeq,
    /// Whether chunks left the GPU or came back.
    pub direction: Direction,
    /// The task with the job that the operation served; none for one that a capacity drop or a new
    /// plan required.
    pub beneficiary: Option<TaskId>,
    /// When the scheduler gave the command.
    pub started: Time,
    /// When the agent acknowledged its end.
    pub ended: Time,
    /// How many bytes it moved.
    pub bytes: Bytes,
    /// How it ended.
    pub outcome: SwapOutcome,
}

/// A change of the set of tasks or of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// This task registered and was admitted.
    Admitted(TaskId),
    /// This task registered and was refused.
    Refused(TaskId),
    /// This realtime task is ready: from now on its jobs have deadlines.
    Ready(TaskId),
    /// The process of this task died.
    Departed(TaskId),
    /// mᴰ is this now.
    Capacity(Bytes),
}

/// What the scheduler reported as broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When the scheduler reported it.
    pub at: Time,
    /// The task that it is about.
    pub task: TaskId,
    /// Which promise was broken.
    pub kind: ViolationKind,
    /// What was observed and what was allowed, in words and numbers.
    pub detail: String,
}

/// Watches a run from its start on: all is told in the order of time, with times of the run's
/// own clock. `()` watches nothing and costs nothing.
pub trait Observer {
    /// Whether the observer needs records at all; otherwise they are not made.
    const WATCHES: bool = true;
    /// The start: from here offsets count and jobs are reported.
    fn start(&mut self, _now: Time) {}
    /// A job ended.
    fn job(&mut self, _record: &Record) {}
    /// A burst of a best-effort program ended.
    fn burst(&mut self, _burst: &Burst) {}
    /// A swap operation ended.
    fn swap(&mut self, _record: &SwapRecord) {}
    /// The set of tasks or the capacity changed.
    fn change(&mut self, _now: Time, _change: Change) {}
    /// The scheduler reported something as broken.
    fn violation(&mut self, _violation: &Violation) {}
    /// Whether it has seen enough: the run ends before its end then.
    fn enough(&self) -> bool {
        false
    }
}

impl Observer for () {
    const WATCHES: bool = false;
}

/// Watches what the one inside watches, if there is one.
impl<O: Observer> Observer for Option<O> {
    const WATCHES: bool = O::WATCHES;
    fn start(&mut self, now: Time) {
        if let Some(inner) = self {
            inner.start(now);
        }
    }
    fn job(&mut self, record: &Record) {
        if let Some(inner) = self {
            inner.job(record);
        }
    }
    fn burst(&mut self, burst: &Burst) {
        if let Some(inner) = self {
            inner.burst(burst);
        }
    }
    fn swap(&mut self, record: &SwapRecord) {
        if let Some(inner) = self {
            inner.swap(record);
        }
    }
    fn change(&mut self, now: Time, change: Change) {
        if let Some(inner) = self {
            inner.change(now, change);
        }
    }
    fn violation(&mut self, violation: &Violation) {
        if let Some(inner) = self {
            inner.violation(violation);
        }
    }
    fn enough(&self) -> bool {
        self.as_ref().is_some_and(O::enough)
    }
}

/// Tells both observers, the first one first. The run ends when either has seen enough.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const WATCHES: bool = A::WATCHES || B::WATCHES;
    fn start(&mut self, now: Time) {
        self.0.start(now);
        self.1.start(now);
    }
    fn job(&mut self, record: &Record) {
        self.0.job(record);
        self.1.job(record);
    }
    fn burst(&mut self, burst: &Burst) {
        self.0.burst(burst);
        self.1.burst(burst);
    }
    fn swap(&mut self, record: &SwapRecord) {
        self.0.swap(record);
        self.1.swap(record);
    }
    fn change(&mut self, now: Time, change: Change) {
        self.0.change(now, change);
        self.1.change(now, change);
    }
    fn violation(&mut self, violation: &Violation) {
        self.0.violation(violation);
        self.1.violation(violation);
    }
    fn enough(&self) -> bool {
        self.0.enough() || self.1.enough()
    }
}
