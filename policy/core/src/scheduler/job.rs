//! A job from its request to its account.

use crate::scheduler::command::{JobAccount, JobEnd};
use crate::scheduler::discipline::Rank;
use crate::scheduler::event::{JobKind, JobSeq};
use crate::task::{TaskId, Timing};
use crate::units::{Bytes, Nanos, Time};

/// Where an open job is; in exactly one place at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not eligible yet.
    Later,
    /// Eligible, but its memory could not be had: tried again soon.
    Aside,
    /// In the computation queue.
    Queue,
    /// Its swap-in has begun.
    Region,
    /// In the best-effort queue.
    BestEffort,
    /// It holds the GPU.
    Running,
    /// Its task is parked: it is in no queue.
    Parked,
    /// Revoked, but still on the GPU when the drain bound expired. It may compute on; other jobs do not
    /// wait for it any longer.
    Stray,
}

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// Evictions made for it.
    SwapOut,
    /// Its own swap-in.
    SwapIn,
}

/// One open job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) seq: JobSeq,
    pub(crate) kind: JobKind,
    pub(crate) place: Place,
    pub(crate) requested: Time,
    pub(crate) eligible: Time,
    /// When it enters a queue, in `Later` and `Aside`; in `BestEffort`, when it is tried again.
    pub(crate) wakes: Time,
    /// Realtime if there is one.
    pub(crate) deadline: Option<Time>,
    /// What its task was when it got its deadline: that bounds it, whatever its task is made meanwhile.
    pub(crate) timing: Option<Timing>,
    /// When its region opened: from then on nothing overtakes it.
    pub(crate) opened: Option<Time>,
    pub(crate) granted: Option<Time>,
    /// Since when it is to leave the GPU.
    pub(crate) revoked: Option<Time>,
    /// That is for other best-effort jobs alone.
    pub(crate) yields: bool,
    /// It ran already when its agent attached, or was granted while jobs ran side by side: others may run
    /// beside it.
    pub(crate) beside: bool,
    pub(crate) overrun: bool,
    /// It did not leave the GPU in time, and was said so.
    pub(crate) undrained: bool,
    /// It was put aside once, so that others overtook it.
    pub(crate) stalled: bool,
    pub(crate) swap_ins: u32,
    /// Swap-ins that failed.
    pub(crate) failures: u32,
    pub(crate) swap_out: Nanos,
    pub(crate) swap_in: Nanos,
    /// The task that held the GPU longest while the job waited.
    pub(crate) blocked: Option<TaskId>,
    /// The arena when it was granted.
    pub(crate) arena: Bytes,
    /// A swap-in for another task was ended for it, which is not done twice.
    pub(crate) cut_short: bool,
    /// Its place among best-effort jobs, once it had one.
    pub(crate) rank: Option<Rank>,
    /// What its turn takes at most, by the cost model.
    pub(crate) price: Nanos,
    /// Since when nothing could be done for it as best-effort.
    pub(crate) fails_since: Option<Time>,
    /// Nothing could be done for it, so that others go before it until then.
    pub(crate) passed_until: Option<Time>,
}

impl Job {
    /// What bounds it while it is realtime.
    pub(crate) fn bounds(&self) -> Option<Timing> {
        self.timing.filter(|_| self.deadline.is_some())
    }

    pub(crate) fn new(seq: JobSeq, kind: JobKind, now: Time) -> Self {
        Self {
            seq,
            kind,
            place: Place::BestEffort,
            requested: now,
            eligible: now,
            wakes: now,
            deadline: None,
            timing: None,
            opened: None,
            granted: None,
            revoked: None,
            yields: false,
            beside: false,
            overrun: false,
            undrained: false,
            stalled: false,
            swap_ins: 0,
            failures: 0,
            swap_out: Nanos::ZERO,
            swap_in: Nanos::ZERO,
            blocked: None,
            arena: Bytes::ZERO,
            cut_short: false,
            rank: None,
            price: Nanos::ZERO,
            fails_since: None,
            passed_until: None,
        }
    }

    /// Its account, ended `now`. The four spans add up to `now − eligible`.
    pub(crate) fn account(&self, task: TaskId, now: Time, end: JobEnd) -> JobAccount {
        let start = self.granted.unwrap_or(now);
        let queue = (start - self.eligible).saturating_sub(self.swap_out + self.swap_in);
        JobAccount {
            task,
            job: self.seq,
            kind: self.kind,
            requested: self.requested,
            eligible: self.eligible,
            deadline: self.deadline,
            granted: self.granted,
            ended: now,
            end,
            queue,
            swap_out: self.swap_out,
            swap_in: self.swap_in,
            execution: now - start,
            blocked_by: self.blocked.filter(|_| queue > Nanos::ZERO),
        }
    }
}
