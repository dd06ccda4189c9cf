//! What the scheduler wants done.

use alloc::string::String;

use crate::scheduler::event::{JobKind, JobSeq, SwapSeq, WantSeq};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos, Time};

/// Which way a swap operation moves chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the GPU to the backing store.
    Out,
    /// Back.
    In,
}

/// What became of a question for more budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The question.
    pub want: WantSeq,
    /// Whether the budget is what was asked for; else it is unchanged.
    pub granted: bool,
}

/// One effect that the shell carries out, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The job may run.
    Grant {
        /// Whose.
        task: TaskId,
        /// Which.
        job: JobSeq,
    },
    /// A best-effort job must end at its next launch boundary; its agent asks again.
    Revoke {
        /// Whose.
        task: TaskId,
        /// Which.
        job: JobSeq,
    },
    /// Start a swap operation. The agent stops when exactly `target` is in the backing store.
    Swap {
        /// Whose.
        task: TaskId,
        /// Its number.
        op: SwapSeq,
        /// Which way.
        direction: Direction,
        /// What is in the backing store when it is done.
        target: Bytes,
    },
    /// Stop that operation at the next chunk.
    Abort {
        /// Whose.
        task: TaskId,
        /// Which.
        op: SwapSeq,
    },
    /// Set the budget. The shell answers with `Event::BudgetSet`.
    SetBudget {
        /// Whose.
        task: TaskId,
        /// The bytes it may hold.
        bytes: Bytes,
        /// The question that this answers, and how.
        answers: Option<Answer>,
    },
    /// The backing store must hold this much. The agent answers with `Event::Backing`.
    SetVolume {
        /// Whose.
        task: TaskId,
        /// x.
        bytes: Bytes,
    },
    /// A job ended: its account.
    Account(JobAccount),
    /// A promise was broken, or a declaration turned out false.
    Violation {
        /// Whose.
        task: TaskId,
        /// What.
        kind: ViolationKind,
        /// In words and numbers.
        detail: String,
    },
}

/// What can be violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// A job ran past its WCET.
    Overrun,
    /// A swap operation was not acknowledged within its bound.
    SwapOverdue,
    /// A task holds more than its budget.
    OverBudget,
    /// The gate could not be drained.
    Undrainable,
    /// Volume beyond the plan had to leave after unmanaged growth, or memory that the plan
    /// promises was not there.
    Emergency,
    /// The backing store that the plan needs could not be pinned.
    Backing,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// It ran to completion.
    Completed,
    /// It was revoked (best-effort).
    Revoked,
    /// Its task went before it was done.
    TaskGone,
}

/// Where the time of one job went. Its four spans add up to end − eligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobAccount {
    /// Whose.
    pub task: TaskId,
    /// Its number.
    pub job: JobSeq,
    /// How it came to be.
    pub kind: JobKind,
    /// When it was asked for.
    pub requested: Time,
    /// max(requested, previous eligible + T): the deadline counts from here.
    pub eligible: Time,
    /// The absolute deadline; none for best-effort.
    pub deadline: Option<Time>,
    /// When it was granted.
    pub granted: Option<Time>,
    /// When it ended.
    pub ended: Time,
    /// How.
    pub end: JobEnd,
    /// Waiting for others.
    pub queue: Nanos,
    /// Waiting for evictions made for it.
    pub swap_out: Nanos,
    /// Waiting for its own swap-in.
    pub swap_in: Nanos,
    /// From grant to end.
    pub execution: Nanos,
    /// Who held the GPU for the longest part of `queue`.
    pub blocked_by: Option<TaskId>,
}

impl JobAccount {
    /// By how much the deadline was missed; zero if it was met or there is none.
    pub fn lateness(&self) -> Nanos {
        self.deadline.map_or(Nanos::ZERO, |due| self.ended - due)
    }
}
