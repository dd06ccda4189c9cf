//! What the scheduler is told.

use crate::scheduler::EventError;
use crate::task::TaskId;
use crate::units::{Bytes, Nanos};

/// No GPU has so much; larger sizes are lies, and would overflow sums.
pub(super) const IMPOSSIBLE: Bytes = Bytes(1 << 50);

/// Counts the jobs of one task as its agent does: the n-th request has number n, from 1, wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobSeq(pub u32);

/// Counts the swap operations of one task on one GPU, from 1, wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwapSeq(pub u32);

/// Counts an agent's requests for more budget, from 1, wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WantSeq(pub u32);

/// Where the bytes of a task are, as its agent reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// On the GPU now, everything counted: arena chunks, what cannot be swapped, the context.
    pub resident: Bytes,
    /// In the backing store now; a multiple of the chunk size.
    pub swapped: Bytes,
    /// The part of `resident` and `swapped` together that lies in the arena.
    pub arena: Bytes,
}

impl Usage {
    /// Whether it can be true of `task`: at most `swapped` in a store of `backing` bytes, in whole
    /// chunks of `chunk` bytes.
    ///
    /// # Errors
    ///
    /// [`EventError::Impossible`] says what cannot be.
    pub fn check(
        &self,
        task: TaskId,
        swapped: Bytes,
        backing: Bytes,
        chunk: Bytes,
    ) -> Result<(), EventError> {
        let wrong = |what, bytes| Err(EventError::Impossible { task, what, bytes });
        if self.resident > IMPOSSIBLE {
            return wrong("resident, more than any GPU has", self.resident);
        }
        if self.swapped > swapped || self.swapped > backing {
            return wrong("swapped, more than ever left", self.swapped);
        }
        if self.swapped.round_down(chunk) != self.swapped {
            return wrong("swapped, not a multiple of the chunk size", self.swapped);
        }
        if self.swapped > self.arena || self.arena > self.resident + self.swapped {
            return wrong(
                "in the arena, against what is resident and swapped",
                self.arena,
            );
        }
        Ok(())
    }
}

/// How a job came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// The program said so (`rtswap_job_begin`).
    Declared,
    /// GPU work after idleness.
    Implicit,
}

/// How a swap operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapOutcome {
    /// The target is reached.
    Done,
    /// Stopped at a chunk boundary, as asked.
    Aborted,
    /// The GPU had no memory for a chunk within the agent's retry bound.
    OutOfMemory,
    /// The gate could not be drained within its bound: nothing more left, and the task loses
    /// its realtime class.
    Undrainable,
    /// The driver failed; the agent says how in its log.
    Failed,
}

/// A job that an agent had open when it attached again (after a daemon's restart).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenJob {
    /// Its number.
    pub job: JobSeq,
    /// Whether it had been granted: it runs now.
    pub running: bool,
    /// How it came to be.
    pub kind: JobKind,
}

/// One thing that happened, other than a registration (`Scheduler::register`). Every event carries
/// all it needs; the time comes beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The registration ends. Its memory stays counted until `Detach`.
    Unregister {
        /// Which.
        task: TaskId,
    },
    /// The task is realtime no more: its shell has found out that what it says cannot be relied on.
    /// It is best-effort until it is registered again; for one that is already nothing changes.
    Demote {
        /// Which.
        task: TaskId,
    },
    /// A process of the task said Hello: its memory and jobs are now known.
    Attach {
        /// Which.
        task: TaskId,
        /// Its truth.
        usage: Usage,
        /// The pinned size of its backing store.
        backing: Bytes,
        /// A job it had open.
        open: Option<OpenJob>,
    },
    /// The task's process is gone; what it held on the GPU is dying until `Released`.
    Detach {
        /// Which.
        task: TaskId,
    },
    /// What several processes of the task have together is not what was said: one is gone, silent or
    /// back, or cannot use the store that another one has. No answer to `SetVolume`.
    Regrouped {
        /// Which.
        task: TaskId,
        /// What those that are gone held or might hold on the GPU: of the budget that much is dying
        /// until `Released`.
        dying: Bytes,
        /// What the others have.
        usage: Usage,
        /// As much of it can be in their backing stores.
        backing: Bytes,
    },
    /// The GPU shows the memory of a task's dead processes gone.
    Released {
        /// Which.
        task: TaskId,
    },
    /// The session ended but the process lives: its memory stays counted, its jobs end with a reason.
    Lost {
        /// Which.
        task: TaskId,
    },
    /// A job asks to run.
    JobRequested {
        /// Whose.
        task: TaskId,
        /// Its number.
        job: JobSeq,
        /// How it came to be.
        kind: JobKind,
    },
    /// A granted job ended (of itself, or because it was revoked).
    JobCompleted {
        /// Whose.
        task: TaskId,
        /// Its number.
        job: JobSeq,
    },
    /// Chunks of a running swap operation moved.
    SwapProgress {
        /// Whose.
        task: TaskId,
        /// The operation.
        op: SwapSeq,
        /// What is in the backing store now.
        swapped: Bytes,
    },
    /// A swap operation ended.
    SwapEnded {
        /// Whose.
        task: TaskId,
        /// The operation.
        op: SwapSeq,
        /// What is in the backing store now.
        swapped: Bytes,
        /// The agent's own measure of it.
        took: Nanos,
        /// How.
        outcome: SwapOutcome,
    },
    /// The agent needs more budget for an allocation. Answered by `SetBudget` with this number,
    /// with the budget unchanged if refused.
    Want {
        /// Whose.
        task: TaskId,
        /// The question's number.
        want: WantSeq,
        /// The budget it needs in all.
        bytes: Bytes,
    },
    /// The agent's usage changed outside a swap operation (allocation, free).
    Usage {
        /// Whose.
        task: TaskId,
        /// Now.
        usage: Usage,
    },
    /// A `SetBudget` took effect. `bytes` is more than was asked where the agent had taken the
    /// memory already.
    BudgetSet {
        /// Whose.
        task: TaskId,
        /// What holds now.
        bytes: Bytes,
    },
    /// The backing store was grown (or could not be): this much is pinned.
    Backing {
        /// Whose.
        task: TaskId,
        /// Pinned now.
        bytes: Bytes,
    },
    /// mᴰ changed.
    Capacity {
        /// Now.
        bytes: Bytes,
    },
    /// The instant asked for by `poll_timeout` has come.
    Timer,
}
