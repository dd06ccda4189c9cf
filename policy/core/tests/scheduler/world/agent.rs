//! What an agent knows of itself, and what a test tells it to do.

use rtswap_policy::scheduler::{BudgetRequestSeq, Direction, JobAccount, JobSeq, SwapSeq, Usage};
use rtswap_policy::units::Bytes;

/// A swap operation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) seq: SwapSeq,
    pub(crate) direction: Direction,
    pub(crate) target: Bytes,
    pub(crate) aborted: bool,
    /// How often it had to wait for budget.
    pub(crate) pauses: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agent {
    pub(crate) attached: bool,
    pub(crate) usage: Usage,
    pub(crate) budget: Bytes,
    pub(crate) backing: Bytes,
    pub(crate) op: Option<Op>,
    /// Requested and not ended, by this process and by the one before it.
    pub(crate) job: Option<JobSeq>,
    pub(crate) former: Option<JobSeq>,
    pub(crate) revoked: bool,
    /// Of the last job that ended.
    pub(crate) account: Option<JobAccount>,
    /// Requested and not answered.
    pub(crate) want: Option<BudgetRequestSeq>,
    pub(crate) jobs: u32,
    pub(crate) wants: u32,
    pub(crate) refused: u32,
    /// How often it was asked for a backing store.
    pub(crate) asked_stores: u32,
    /// The most that it can pin.
    pub(crate) pinnable: Option<Bytes>,
    /// It never unpins.
    pub(crate) keeps: bool,
    /// It pins nothing for now.
    pub(crate) pins_late: bool,
}

impl Agent {
    /// An agent that uses `usage` and has pinned what is out.
    pub(crate) fn with(usage: Usage) -> Self {
        Self {
            usage,
            budget: usage.resident,
            backing: usage.swapped,
            ..Self::default()
        }
    }

    /// An agent that can pin `most` bytes.
    pub(crate) fn pinning(most: u64) -> Self {
        Self {
            pinnable: Some(Bytes(most)),
            ..Self::default()
        }
    }

    /// What is left of it for the next process of its task.
    pub(crate) fn successor(&self) -> Self {
        Self {
            former: self.job,
            jobs: self.jobs,
            wants: self.wants,
            account: self.account,
            ..Self::default()
        }
    }

    /// `swapped` bytes are out now.
    pub(crate) fn place(&mut self, swapped: Bytes) {
        let usage = &mut self.usage;
        usage.resident = (usage.resident + usage.swapped).saturating_sub(swapped);
        usage.swapped = swapped;
    }

    /// Pins or unpins, and says what is pinned then.
    pub(crate) fn pin(&mut self, bytes: Bytes) -> Bytes {
        let least = if self.keeps {
            self.backing
        } else {
            self.usage.swapped
        };
        self.backing = bytes.min(self.pinnable.unwrap_or(Bytes::MAX)).max(least);
        self.backing
    }
}
