//! Commands of the scheduler: what the shell must carry out, and the account of a job that ended.

use alloc::string::String;

use crate::scheduler::event::{BudgetRequestSeq, JobKind, JobSeq, SwapSeq};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos, Time};

/// Which way a swap operation moves chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the GPU to the backing store.
    Out,
    /// From the backing store to the GPU.
    In,
}

/// The scheduler's reply to a request for more budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetAnswer {
    /// The request, by the number that the agent gave it.
    pub want: BudgetRequestSeq,
    /// Whether the budget was raised to what was requested; otherwise it is unchanged.
    pub granted: bool,
}

/// One effect of a decision. The shell carries commands out in the order in which it polls them.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Command {
    /// `job` of `task` may run.
    Grant { task: TaskId, job: JobSeq },
    /// `job` of `task`, a best-effort job, must end at its next launch boundary. Its agent requests
    /// a new job for the rest of the work.
    Revoke { task: TaskId, job: JobSeq },
    /// The agent of `task` starts swap operation `op`. It is done when exactly `target` bytes of the
    /// task are in the backing store.
    Swap {
        task: TaskId,
        op: SwapSeq,
        direction: Direction,
        target: Bytes,
    },
    /// Swap operation `op` of `task` must stop at the next chunk boundary.
    Abort { task: TaskId, op: SwapSeq },
    /// `task` may hold `bytes` on the GPU from now on; if `answers` is set, this is the reply to a
    /// request for more budget. The shell confirms with `Event::BudgetSet`.
    SetBudget {
        task: TaskId,
        bytes: Bytes,
        answers: Option<BudgetAnswer>,
    },
    /// The backing store of `task` must have `bytes`: its swap volume x, or for best-effort as much as
    /// must be able to leave. The agent answers with `Event::Backing`.
    SetBackingStore { task: TaskId, bytes: Bytes },
    /// A job ended: where its time went.
    Account(JobAccount),
    /// `job` of `task`, which was undeclared and revoked, was complete: the task's next request came too late to be
    /// for the rest of it.
    Whole { task: TaskId, job: JobSeq },
    /// `task` broke its declaration, or a guarantee that was given to it was broken. `detail` says in
    /// words and numbers what was observed and what was allowed.
    Violation {
        task: TaskId,
        kind: ViolationKind,
        detail: String,
    },
}

/// Which promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// A job ran past its WCET.
    Overrun,
    /// A swap operation was not acknowledged within its bound.
    SwapOverdue,
    /// A best-effort task moved nothing in two swap-outs that others wait for, and reports their ends.
    SwapFailed,
    /// A task holds more than its budget.
    OverBudget,
    /// The GPU work of a task did not end within the drain bound after its gate was closed.
    Undrainable,
    /// The processes of a task are stopped while others wait.
    Stopped,
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

/// Where the time of one job went. `queue`, `swap_out`, `swap_in` and `execution` add up to
/// `ended` − `eligible`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobAccount {
    /// The task that the job belongs to.
    pub task: TaskId,
    /// The job's number within its task, as given by the agent.
    pub job: JobSeq,
    /// Whether the program declared the job.
    pub kind: JobKind,
    /// When the agent requested it.
    pub requested: Time,
    /// max(requested, previous eligible + T): the deadline counts from here.
    pub eligible: Time,
    /// The absolute deadline; none for best-effort.
    pub deadline: Option<Time>,
    /// When it was granted; none if it ended in the queue.
    pub granted: Option<Time>,
    /// When it ended.
    pub ended: Time,
    /// Why it ended.
    pub end: JobEnd,
    /// Time spent waiting for other jobs.
    pub queue: Nanos,
    /// Time spent waiting for evictions that make room for the job.
    pub swap_out: Nanos,
    /// Time spent waiting for the task's own swap-in.
    pub swap_in: Nanos,
    /// Time from the grant to the end.
    pub execution: Nanos,
    /// The task that held the GPU for the longest part of `queue`.
    pub blocked_by: Option<TaskId>,
}

impl JobAccount {
    /// By how much the deadline was missed; zero if it was met or there is none.
    pub fn lateness(&self) -> Nanos {
        self.deadline.map_or(Nanos::ZERO, |due| self.ended - due)
    }
}
