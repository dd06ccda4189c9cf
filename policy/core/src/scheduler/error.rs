//! Events that cannot be, and registrations that cannot stand.

use alloc::string::String;

use crate::scheduler::event::{BudgetRequestSeq, JobSeq, SwapSeq};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

/// An event that cannot have happened, from a confused or hostile sender. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum EventError {
    /// The scheduler of this GPU knows no task with this id.
    #[error("task {} is not known: register it first", .0.0)]
    UnknownTask(TaskId),
    /// The task's registration has ended.
    #[error("task {} is not registered any more", .0.0)]
    NotRegistered(TaskId),
    /// The task is not attached, so no agent can have sent the event.
    #[error("task {} is not attached: attach it first", .0.0)]
    NotAttached(TaskId),
    /// `Event::Released` came for a task that has no dying memory.
    #[error("task {} has no dying memory to release", .0.0)]
    NotDying(TaskId),
    /// `task` requested job `asked` while its job `open` has not ended: a task has one job at a time.
    #[error("task {} asks for job {} while its job {} is open", .task.0, .asked.0, .open.0)]
    JobOpen {
        task: TaskId,
        open: JobSeq,
        asked: JobSeq,
    },
    /// `task` requested `job` with the number of its previous job, which has ended.
    #[error("task {} asks for job {} again: it has ended", .task.0, .job.0)]
    JobEnded { task: TaskId, job: JobSeq },
    /// `job` of `task` was reported complete although it does not hold a grant.
    #[error("job {} of task {} completed without a grant", .job.0, .task.0)]
    JobNotGranted { task: TaskId, job: JobSeq },
    /// `task` reported on swap operation `op`, which is not under way.
    #[error("task {} reports on swap operation {}, which is not under way", .task.0, .op.0)]
    NoOperation { task: TaskId, op: SwapSeq },
    /// `task` sent budget request `want` a second time while it is still open.
    #[error("task {} asks its want {} twice", .task.0, .want.0)]
    BudgetRequestOpen {
        task: TaskId,
        want: BudgetRequestSeq,
    },
    /// `task` confirmed a budget of `bytes` that no outstanding `SetBudget` set.
    #[error("task {} confirms a budget of {bytes} that fits no question", .task.0)]
    UnexpectedBudget { task: TaskId, bytes: Bytes },
    /// `task` reported `bytes`, a size that contradicts what is known; `what` names the quantity and
    /// the contradiction.
    #[error("task {} reports {bytes} {what}", .task.0)]
    Impossible {
        task: TaskId,
        what: &'static str,
        bytes: Bytes,
    },
}

/// A registration that does not stand, with the reason in words and numbers. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The id is in use.
    #[error("task {} is known already: take a fresh id", .0.0)]
    KnownTask(TaskId),
    /// No task of this id is registered.
    #[error("task {} is not registered: register it first", .0.0)]
    UnknownTask(TaskId),
    /// The GPU has as many tasks as it can have.
    #[error("{tasks} tasks are known on this GPU, and it can have no more: unregister one first")]
    Full {
        /// How many it has.
        tasks: usize,
    },
    /// More is declared swappable than there is.
    #[error("{name}: swappable {swappable} is more than the footprint {footprint}")]
    Swappable {
        /// The task's name.
        name: String,
        /// mˢ as declared.
        swappable: Bytes,
        /// m as declared.
        footprint: Bytes,
    },
    /// The declared times contradict each other.
    #[error("{name}: 0 < WCET ≤ deadline ≤ period does not hold: {wcet}, {deadline}, {period}")]
    Timing {
        /// The task's name.
        name: String,
        /// C as declared.
        wcet: Nanos,
        /// D as declared.
        deadline: Nanos,
        /// T as declared.
        period: Nanos,
    },
    /// With this task no swap volumes satisfy memory and admission test.
    #[error(
        "not schedulable on this GPU ({capacity} for realtime, {reserve} reserved for \
         best-effort): {reason}"
    )]
    NotSchedulable {
        /// mᴰ less the reserve.
        capacity: Bytes,
        /// What the plan leaves to best-effort memory that cannot be swapped.
        reserve: Bytes,
        /// What binds, in words and numbers.
        reason: String,
    },
}
