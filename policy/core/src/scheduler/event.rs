//! The events that the scheduler handles, and the values in them.

use crate::scheduler::EventError;
use crate::task::TaskId;
use crate::units::{Bytes, Nanos, Time};

/// More bytes than any GPU has: larger sizes are rejected, because they would overflow sums.
pub(super) const IMPOSSIBLE: Bytes = Bytes(1 << 50);

/// The number of a job within its task, given by the agent: the n-th request has number n, from 1,
/// wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobSeq(pub u32);

/// The number of a swap operation of one task on one GPU, given by the scheduler, from 1, wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwapSeq(pub u32);

/// The number of a request for more budget, given by the agent, from 1, wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetRequestSeq(pub u32);

/// Where the bytes of a task are, as its agent reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes on the GPU now, everything counted: arena chunks, unswappable memory and the context.
    pub resident: Bytes,
    /// Bytes in the backing store now, a multiple of the chunk size.
    pub swapped: Bytes,
    /// Bytes of `resident` and `swapped` together that lie in the arena.
    pub arena: Bytes,
}

impl Usage {
    /// Checks a report of `task` for contradictions: at most `swapped` bytes can be in its backing
    /// store, which has `backing` bytes, and those are whole chunks of `chunk` bytes.
    ///
    /// # Errors
    ///
    /// [`EventError::Impossible`] names the size that cannot be true.
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

/// Whether the program declared a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// The program declared it (`rtswap_job_begin`).
    Declared,
    /// The agent inferred it from GPU work after an idle period.
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
    /// GPU work was still running when the drain bound expired: no further chunk left, and the task
    /// loses its realtime class.
    Undrainable,
    /// The driver returned an error, which is in the agent's log.
    Failed,
}

/// A job that an agent had open when it attached again (after a daemon's restart).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenJob {
    /// The job's number within its task.
    pub job: JobSeq,
    /// Whether it had been granted, and so runs now.
    pub running: bool,
    /// Whether the program declared the job.
    pub kind: JobKind,
}

/// Something that happened, other than a registration (`Scheduler::register`). The time of the event
/// is a separate argument of `Scheduler::handle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Event {
    /// The registration of `task` ends. The task's memory stays counted until `Detach`.
    Unregister { task: TaskId },
    /// `task` loses its realtime class, because the shell has found its reports unreliable. It stays
    /// best-effort until it is registered again. Without effect on a best-effort task.
    Demote { task: TaskId },
    /// `task` gets nothing as best-effort before `until` while there are realtime tasks, because its owner's
    /// processes do not leave the GPU when they must. If it is admitted and loads, only a bar `while_loading`
    /// holds for it: without what it loads it keeps no deadline.
    Bar {
        task: TaskId,
        until: Time,
        while_loading: bool,
    },
    /// `task` leaves the GPU and stays away: its open job is revoked, or completes if it is realtime, jobs and
    /// requests for memory wait, and all that may be swapped out leaves. It keeps its place in the plan. Without
    /// effect on a parked task.
    Park { task: TaskId },
    /// `task` is parked no more: what waited is served. Without effect on a task that is not parked.
    Resume { task: TaskId },
    /// No process of `task` that runs a job or moves memory can go on: they are stopped (SIGSTOP, a
    /// debugger). Others do not wait for it any longer.
    Stopped { task: TaskId },
    /// A process of `task` said Hello and reported `usage`, a backing store of `backing` pinned bytes
    /// and the job that it has `open`, if any.
    Attach {
        task: TaskId,
        usage: Usage,
        backing: Bytes,
        open: Option<OpenJob>,
    },
    /// The process of `task` is gone. The memory that it held on the GPU is dying until `Released`.
    Detach { task: TaskId },
    /// The processes of `task` together have other memory than was reported, because one of them is
    /// gone, silent or back, or cannot use the store that another one has. Processes that are gone held
    /// at most `dying` bytes on the GPU, which leave the budget and are dying until `Released`; the
    /// others use `usage`, of which `backing` bytes can be in their backing stores. This does not
    /// answer `SetBackingStore`.
    Regrouped {
        task: TaskId,
        dying: Bytes,
        usage: Usage,
        backing: Bytes,
    },
    /// The driver has released the memory of the dead processes of `task`.
    Released { task: TaskId },
    /// The agent of `task` is silent, but its process lives. Its memory stays counted; its job ends as
    /// `JobEnd::TaskGone`.
    Lost { task: TaskId },
    /// The agent of `task` requests a grant for `job`.
    JobRequested {
        task: TaskId,
        job: JobSeq,
        kind: JobKind,
    },
    /// The granted `job` of `task` ended, by itself or because it was revoked.
    JobCompleted { task: TaskId, job: JobSeq },
    /// Swap operation `op` of `task` moved chunks: `swapped` bytes are in the backing store now.
    SwapProgress {
        task: TaskId,
        op: SwapSeq,
        swapped: Bytes,
    },
    /// Swap operation `op` of `task` ended with `outcome`, after `took` by the agent's clock: `swapped`
    /// bytes are in the backing store now.
    SwapEnded {
        task: TaskId,
        op: SwapSeq,
        swapped: Bytes,
        took: Nanos,
        outcome: SwapOutcome,
    },
    /// The agent of `task` needs a budget of `bytes` in all for an allocation. A later request replaces
    /// an open one. The scheduler answers by a `SetBudget` that names `want`, with the budget unchanged
    /// if the request is refused.
    BudgetRequested {
        task: TaskId,
        want: BudgetRequestSeq,
        bytes: Bytes,
    },
    /// The usage of `task` changed outside a swap operation (allocation, free).
    Usage { task: TaskId, usage: Usage },
    /// A `SetBudget` for `task` took effect: its budget is `bytes` now. That is more than the command
    /// said if the agent had taken the memory already.
    BudgetSet { task: TaskId, bytes: Bytes },
    /// The backing store of `task` has `bytes` of pinned memory, after an attempt to resize it that may
    /// have failed.
    Backing { task: TaskId, bytes: Bytes },
    /// The capacity of the GPU, mᴰ, is `bytes` now.
    Capacity { bytes: Bytes },
    /// The host's memory is short, or is no longer. To be repeated while it is: each time one idle best-effort task
    /// gives back what of its backing store holds nothing.
    HostMemory { short: bool },
    /// The host has room for a larger backing store of `task`, which did not get all that was asked for.
    HostRoom { task: TaskId },
    /// The instant returned by `poll_timeout` has come.
    Timer,
}
