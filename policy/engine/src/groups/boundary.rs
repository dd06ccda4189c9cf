//! What crosses between a process and its group, one type for each direction.

use rtswap_policy::scheduler::{
    BudgetAnswer, BudgetRequestSeq, Direction, Event, JobKind, JobSeq, SwapOutcome, SwapSeq, Usage,
};
use rtswap_policy::units::{Bytes, Nanos};

/// The most processes of one task: 64 workers of a data loader and their parent are an ordinary one.
pub const MAX_PROCESSES: usize = 128;

/// Names a process of a task: the number of its first connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u64);

/// What one process reports (process → group).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Report {
    /// It asks to run `job`, which it numbers itself.
    JobRequested { job: JobSeq, kind: JobKind },
    /// Its granted `job` has ended, by itself or because it was revoked.
    JobCompleted { job: JobSeq },
    /// Its swap operation `op` has moved chunks: `swapped` bytes are in its backing store now.
    SwapProgress { op: SwapSeq, swapped: Bytes },
    /// Its swap operation `op` has ended with `outcome`, after `took` by its own clock: `swapped` bytes
    /// are in its backing store now.
    SwapEnded {
        op: SwapSeq,
        swapped: Bytes,
        took: Nanos,
        outcome: SwapOutcome,
    },
    /// It needs a budget of `bytes` in all. The request `want` replaces its previous one.
    BudgetRequested {
        want: BudgetRequestSeq,
        bytes: Bytes,
    },
    /// The bytes it uses, outside a swap operation.
    Usage(Usage),
    /// The bytes pinned as its backing store.
    Backing(Bytes),
}

/// What one process is told (group → process).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Order {
    /// `job` may run.
    Grant { job: JobSeq },
    /// `job` must end at its next launch boundary.
    Revoke { job: JobSeq },
    /// Start swap operation `op`, which is done when `target` bytes are in the backing store. A swap-in
    /// may bring them down to `credit` for now; of a swap-out that is `target`.
    Swap {
        op: SwapSeq,
        direction: Direction,
        target: Bytes,
        credit: Bytes,
    },
    /// The swap-in `op`, which is under way, may bring the backing store's bytes down to `credit`, less
    /// than before.
    SetCredit { op: SwapSeq, credit: Bytes },
    /// Swap operation `op` must stop at the next chunk.
    Abort { op: SwapSeq },
    /// The process may hold `bytes` now, which `answers` its request. Call
    /// [`super::ProcessGroup::confirm_budget`] before the next effect: it may hold more already.
    SetBudget {
        bytes: Bytes,
        answers: Option<BudgetAnswer>,
    },
    /// The backing store must have `bytes`; the process answers by [`Report::Backing`].
    SetBackingStore { bytes: Bytes },
}

/// What follows, to be carried out in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The scheduler of the group's GPU is told.
    Tell(Event),
    /// A process is told.
    Order(ProcessId, Order),
}
