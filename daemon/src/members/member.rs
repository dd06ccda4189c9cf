//! One process.

use rtswap_policy::scheduler::{JobKind, JobSeq, SwapOutcome, SwapSeq, Usage, WantSeq};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::MemberId;

/// How far a process counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is talked to.
    Present,
    /// It lives, its agent is silent: what it may hold is counted and left alone.
    Away,
    /// It is back, with memory that is taken in at the next quiet instant.
    Returning,
}

/// Its part in a job of the task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// As it counts them.
    pub(super) seq: JobSeq,
    pub(super) kind: JobKind,
    /// Asked for, and then granted.
    pub(super) since: Time,
    pub(super) granted: bool,
    pub(super) revoked: bool,
}

/// Its part in a swap operation of the task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) seq: SwapSeq,
    pub(super) from: Bytes,
    pub(super) target: Bytes,
    /// How it ended.
    pub(super) ended: Option<(SwapOutcome, Nanos)>,
}

/// Its question for more budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) seq: WantSeq,
    /// Resident and swapped together.
    pub(super) total: Bytes,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) state: State,
    pub(super) usage: Usage,
    /// What its page allows; of one that is not present, what counts for it.
    pub(super) budget: Bytes,
    /// Its page is new, and says nothing yet of what it may hold.
    pub(super) new_page: bool,
    pub(super) backing: Bytes,
    /// The store that it was asked for, and the most that it could pin.
    pub(super) backing_asked: Option<Bytes>,
    pub(super) backing_most: Option<Bytes>,
    pub(super) job: Option<Job>,
    /// It has run in this job of the task.
    pub(super) served: bool,
    pub(super) part: Option<Part>,
    pub(super) want: Option<Want>,
}

impl Member {
    pub(super) fn new(id: MemberId) -> Self {
        Self {
            id,
            state: State::Away,
            usage: Usage::default(),
            budget: Bytes::ZERO,
            new_page: false,
            backing: Bytes::ZERO,
            backing_asked: None,
            backing_most: None,
            job: None,
            served: false,
            part: None,
            want: None,
        }
    }

    /// What the scheduler counts of it. Of a process that is silent that is what it may hold. None of
    /// it can be moved now, for it counts no backing store; but it may be back or gone soon, so that
    /// it is no memory that never leaves. What lies in its backing store concerns nobody.
    pub(super) fn share(&self) -> Usage {
        match self.state {
            State::Present => self.usage,
            State::Away | State::Returning => Usage {
                resident: self.budget,
                swapped: Bytes::ZERO,
                arena: self.budget,
            },
        }
    }

    /// Resident and in the arena.
    pub(super) fn arena_resident(&self) -> Bytes {
        let arena = self.usage.arena.saturating_sub(self.usage.swapped);
        arena.min(self.usage.resident)
    }

    /// Whether a job of it is on the GPU.
    pub(super) fn runs(&self) -> bool {
        self.job.is_some_and(|job| job.granted)
    }

    /// Whether it waits to run.
    pub(super) fn waits(&self) -> bool {
        self.job.is_some_and(|job| !job.granted)
    }

    /// Whether it moves memory now.
    pub(super) fn moves(&self) -> bool {
        self.part.is_some_and(|part| part.ended.is_none())
    }
}
