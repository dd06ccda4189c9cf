//! What is known of one process.

use rtswap_policy::scheduler::{
    BudgetRequestSeq, Direction, JobKind, JobSeq, SwapOutcome, SwapSeq, Usage,
};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::ProcessId;

/// How far a process counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It takes orders.
    Present,
    /// It lives but its agent is silent: its budget stays counted and untouched.
    Missing,
    /// Its agent is back, with memory that is taken in at the next quiet instant.
    Returning,
}

/// Its job within a job of the task.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessJob {
    /// By its own count.
    pub(super) seq: JobSeq,
    pub(super) kind: JobKind,
    /// When it was requested or, once granted, when it was granted.
    pub(super) since: Time,
    pub(super) granted: bool,
    pub(super) revoked: bool,
}

/// Its part in a swap operation of the task.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwapPart {
    pub(super) seq: SwapSeq,
    /// The bytes in its backing store at the start, and those to reach.
    pub(super) from: Bytes,
    pub(super) target: Bytes,
    /// The credit that it was told last; none before the order to swap.
    pub(super) credit: Option<Bytes>,
    /// It was told to abort.
    pub(super) aborted: bool,
    /// How it ended, and what it took.
    pub(super) ended: Option<(SwapOutcome, Nanos)>,
}

impl SwapPart {
    pub(super) fn is_inward(&self) -> bool {
        self.target < self.from
    }

    /// Whether it ended without having moved anything outward, and without having been told to.
    pub(super) fn has_failed(&self, swapped: Bytes) -> bool {
        let outcome = self.ended.map(|(outcome, _)| outcome);
        let is_over = outcome.is_some_and(|outcome| outcome != SwapOutcome::Aborted);
        is_over && swapped <= self.from && self.from < self.target
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetRequest {
    /// None where the group asks, to cover what is unproven.
    pub(super) seq: Option<BudgetRequestSeq>,
    /// Resident and swapped bytes together, so that swapping does not change it.
    pub(super) total: Bytes,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessStore {
    /// The bytes pinned.
    pub(super) pinned: Bytes,
    /// The bytes that it was told to pin and has not answered.
    pub(super) asked: Option<Bytes>,
    /// The most that it could pin, known once it has pinned less than asked.
    pub(super) most: Option<Bytes>,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: ProcessId,
    pub(super) presence: Presence,
    pub(super) usage: Usage,
    /// What it says to use where its budget and the witnesses explain less; `usage` has what counts.
    pub(super) unproven: Option<Usage>,
    /// When it said Hello, if it has said so since.
    pub(super) brought: Option<Time>,
    /// The budget for it was refused, and it is to leave the GPU.
    pub(super) must_leave: bool,
    /// The most bytes that it holds by another witness than its agent.
    pub(super) shown: Bytes,
    /// The last confirmed budget; while not present, what is counted for the process.
    pub(super) budget: Bytes,
    /// The budget that it was ordered last.
    pub(super) ordered: Bytes,
    /// The budget that the former daemon gave it, until it is taken in.
    pub(super) inherited: Bytes,
    /// It has not been told a budget since its agent (re)appeared.
    pub(super) unbudgeted: bool,
    pub(super) store: ProcessStore,
    pub(super) job: Option<ProcessJob>,
    /// It has run in the task's current job.
    pub(super) served: bool,
    pub(super) part: Option<SwapPart>,
    pub(super) request: Option<BudgetRequest>,
    /// The request that it is to be told is refused.
    pub(super) denied: Option<BudgetRequestSeq>,
    /// What is unproven is not requested again before this.
    pub(super) retry_at: Time,
    /// The size that it was told first.
    pub(super) told: Option<ToldSize>,
}

/// What a process was told that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToldSize {
    pub(super) bytes: Bytes,
    /// It counts as taken.
    pub(super) is_reserved: bool,
}

impl Process {
    /// A missing process of which nothing is known.
    pub(super) fn new(id: ProcessId) -> Self {
        Self {
            id,
            presence: Presence::Missing,
            usage: Usage::default(),
            unproven: None,
            brought: None,
            must_leave: false,
            shown: Bytes::ZERO,
            budget: Bytes::ZERO,
            ordered: Bytes::ZERO,
            inherited: Bytes::ZERO,
            unbudgeted: false,
            store: ProcessStore::default(),
            job: None,
            served: false,
            part: None,
            request: None,
            denied: None,
            retry_at: Time::ZERO,
            told: None,
        }
    }

    pub(super) fn is_present(&self) -> bool {
        self.presence == Presence::Present
    }

    /// What the scheduler counts of the process: for one that is not present, its whole budget.
    ///
    /// None of that can be moved now, for no backing store is counted with it. It counts as arena all
    /// the same, because silence is mostly the first sign of a death: it is not memory that never leaves.
    /// The bytes in its backing store are not on the GPU, so they count for nothing.
    pub(super) fn counted(&self) -> Usage {
        match self.presence {
            Presence::Present => self.usage,
            Presence::Missing | Presence::Returning => Usage {
                resident: self.budget,
                swapped: Bytes::ZERO,
                arena: self.budget,
            },
        }
    }

    /// The resident and swapped bytes together.
    pub(super) fn total(&self) -> Bytes {
        self.usage.resident + self.usage.swapped
    }

    /// The most it holds or may take.
    pub(super) fn held(&self) -> Bytes {
        self.budget.max(self.counted().resident)
    }

    /// Whether its job is on the GPU.
    pub(super) fn runs(&self) -> bool {
        self.job.is_some_and(|job| job.granted)
    }

    /// Whether it waits to run. With unproven memory it may not: nobody has made room for that.
    pub(super) fn waits(&self) -> bool {
        self.unproven.is_none() && self.job.is_some_and(|job| !job.granted)
    }

    /// Whether it moves memory now.
    pub(super) fn moves(&self) -> bool {
        self.part.is_some_and(|part| part.ended.is_none())
    }

    /// The most bytes in its backing store that its usage or its swap operation explains.
    pub(super) fn most_swapped(&self) -> Bytes {
        let part = self.part;
        let moving = part.map_or(Bytes::ZERO, |part| part.from.max(part.target));
        self.usage.swapped.max(moving)
    }

    /// What it can move, in whole swap chunks of `chunk` bytes.
    pub(super) fn movable(&self, direction: Direction, chunk: Bytes) -> Bytes {
        let swapped = self.usage.swapped;
        match direction {
            Direction::In => swapped,
            Direction::Out => {
                let arena = self.usage.arena.saturating_sub(swapped);
                let room = self.store.pinned.saturating_sub(swapped);
                arena.min(self.usage.resident).min(room).round_down(chunk)
            }
        }
    }

    /// Takes in that `swapped` bytes are in the backing store. The rest of the usage is inferred
    /// until the next report.
    pub(super) fn record_swapped(&mut self, swapped: Bytes) {
        let before = self.unproven.unwrap_or(self.usage);
        let left = swapped.saturating_sub(before.swapped);
        let came = if self.part.is_some_and(|part| part.is_inward()) {
            before.swapped.saturating_sub(swapped)
        } else {
            // What disappears from the store during a swap-out was freed; nothing came in.
            Bytes::ZERO
        };
        let mut resident = (before.resident + came).saturating_sub(left);
        if self.unproven.is_none() && !self.unbudgeted {
            resident = resident.min(self.budget);
        }
        self.take_usage(Usage {
            resident,
            swapped,
            arena: before.arena.max(swapped).min(resident + swapped),
        });
    }
}
