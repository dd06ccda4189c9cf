//! Events that cannot be, and registrations that cannot stand.

use alloc::string::String;

use crate::scheduler::event::{JobSeq, SwapSeq, WantSeq};
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

/// An event that cannot have happened, from a confused or hostile sender. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// No such task.
    #[error("task {} is not known: register it first", .0.0)]
    UnknownTask(TaskId),
    /// The task's registration has ended.
    #[error("task {} is not registered any more", .0.0)]
    NotRegistered(TaskId),
    /// No session: nothing can come from its agent.
    #[error("task {} has no session: attach it first", .0.0)]
    NotAttached(TaskId),
    /// Nothing of it is dying.
    #[error("task {} has no dying memory to release", .0.0)]
    NotDying(TaskId),
    /// A task has one job at a time.
    #[error("task {} asks for job {} while its job {} is open", .task.0, .asked.0, .open.0)]
    JobOpen {
        /// Whose.
        task: TaskId,
        /// Open.
        open: JobSeq,
        /// Asked for.
        asked: JobSeq,
    },
    /// The number was used by the job before.
    #[error("task {} asks for job {} again: it has ended", .task.0, .job.0)]
    JobEnded {
        /// Whose.
        task: TaskId,
        /// Which.
        job: JobSeq,
    },
    /// Only a granted job can complete.
    #[error("job {} of task {} completed without a grant", .job.0, .task.0)]
    JobNotGranted {
        /// Whose.
        task: TaskId,
        /// Which.
        job: JobSeq,
    },
    /// No such swap operation runs.
    #[error("task {} reports on swap operation {}, which is not under way", .task.0, .op.0)]
    NoOperation {
        /// Whose.
        task: TaskId,
        /// Which.
        op: SwapSeq,
    },
    /// The question is open already.
    #[error("task {} asks its want {} twice", .task.0, .want.0)]
    WantOpen {
        /// Whose.
        task: TaskId,
        /// Which.
        want: WantSeq,
    },
    /// An answer without a question.
    #[error("task {} confirms a budget of {bytes} that fits no question", .task.0)]
    UnexpectedBudget {
        /// Whose.
        task: TaskId,
        /// What it confirms.
        bytes: Bytes,
    },
    /// A size that contradicts what is known.
    #[error("task {} reports {bytes} {what}", .task.0)]
    Impossible {
        /// Whose.
        task: TaskId,
        /// What is wrong with it.
        what: &'static str,
        /// The size.
        bytes: Bytes,
    },
}

/// A registration that does not stand, with the reason in words and numbers. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The id is in use.
    #[error("task {} is known already: take a fresh id", .0.0)]
    KnownTask(TaskId),
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
