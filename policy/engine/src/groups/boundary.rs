//! What crosses between a process and its group, one type for each direction.

use rtswap_policy::scheduler::{
    Answer, Direction, Event, JobKind, JobSeq, SwapOutcome, SwapSeq, Usage, WantSeq,
};
use rtswap_policy::units::{Bytes, Nanos};

use super::ProcessId;

/// What one process reports (process → group).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It asks to run the job with this number, its own count.
    JobRequested {
        /// The job's number.
        job: JobSeq,
        /// How the job came to be.
        kind: JobKind,
    },
    /// Its granted job has ended, by itself or because it was revoked.
    JobCompleted {
        /// The job's number.
        job: JobSeq,
    },
    /// Its swap operation has moved chunks.
    SwapProgress {
        /// The operation's number.
        op: SwapSeq,
        /// The bytes in its backing store now.
        swapped: Bytes,
    },
    /// Its swap operation has ended.
    SwapEnded {
        /// The operation's number.
        op: SwapSeq,
        /// The bytes in its backing store now.
        swapped: Bytes,
        /// From start to end, by its own clock.
        took: Nanos,
        /// How the operation ended.
        outcome: SwapOutcome,
    },
    /// It needs more budget; this replaces its previous request.
    BudgetRequested {
        /// The request's number.
        want: WantSeq,
        /// The budget it needs in total.
        bytes: Bytes,
    },
    /// The bytes it uses, outside a swap operation.
    Usage(Usage),
    /// The bytes pinned as its backing store.
    Backing(Bytes),
}

/// What one process is told (group → process).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The job may run.
    Grant {
        /// The job's number.
        job: JobSeq,
    },
    /// The job must end at its next launch boundary.
    Revoke {
        /// The job's number.
        job: JobSeq,
    },
    /// Start a swap operation.
    Swap {
        /// The operation's number.
        op: SwapSeq,
        /// Where chunks go.
        direction: Direction,
        /// The bytes in the backing store when the operation is done.
        target: Bytes,
        /// How low a swap-in may bring the backing store's bytes for now; `target` for a swap-out.
        credit: Bytes,
    },
    /// Lets the swap-in under way go on down to `credit`, which is lower than before.
    SetCredit {
        /// The operation's number.
        op: SwapSeq,
        /// How low it may bring the backing store's bytes for now.
        credit: Bytes,
    },
    /// The swap operation must stop at the next chunk.
    Abort {
        /// The operation's number.
        op: SwapSeq,
    },
    /// The budget is `bytes` now. Call [`super::ProcessGroup::confirm_budget`] before the next
    /// effect: the process may hold more already.
    SetBudget {
        /// The bytes it may hold.
        bytes: Bytes,
        /// The budget request that this answers.
        answers: Option<Answer>,
    },
    /// The backing store must have `bytes`; answered by [`Report::Backing`].
    SetBackingStore {
        /// The bytes to pin.
        bytes: Bytes,
    },
}

/// What follows, to be carried out in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The scheduler of the group's GPU is told.
    Tell(Event),
    /// A process is told.
    Order(ProcessId, Order),
}
