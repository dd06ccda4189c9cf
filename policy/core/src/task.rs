//! Tasks: what the user declares, and what the plan gives.

use alloc::string::String;

use crate::units::{Bytes, Nanos};

/// Names a task for the life of the daemon; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// What a task may expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Has a deadline, passed admission, lives on one GPU.
    Realtime(Timing),
    /// Shares what is left.
    BestEffort,
}

/// The timing of a realtime task: 0 < C ≤ D ≤ T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// T, the least time between two releases.
    pub period: Nanos,
    /// D, relative to the release.
    pub deadline: Nanos,
    /// C, from grant to completion with both copy engines loaded, CPU work included.
    pub wcet: Nanos,
}

impl Timing {
    /// The timing of a task that may release its jobs as either says: it demands at least as much as each.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self {
            period: self.period.min(other.period),
            deadline: self.deadline.min(other.deadline),
            wcet: self.wcet.max(other.wcet),
        }
    }
}

/// The GPU memory of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryProfile {
    /// m: everything on the GPU, the context included.
    pub footprint: Bytes,
    /// mˢ ≤ m: the part in the arena.
    pub swappable: Bytes,
}

/// How much of the GPU a best-effort task gets beside others that want it as well, relative to theirs:
/// from 1 to [`Weight::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// The largest weight.
    pub const MOST: u32 = 10_000;

    /// The weight `weight`; none if it is 0 or above [`Weight::MOST`].
    pub const fn new(weight: u32) -> Option<Self> {
        match weight {
            1..=Self::MOST => Some(Self(weight)),
            _ => None,
        }
    }

    /// As a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// 100, as the weights of control groups have it.
impl Default for Weight {
    fn default() -> Self {
        Self(100)
    }
}

/// The shortest [`TaskSpec::idle_after`]: between jobs that follow each other so closely no memory has to move.
pub const SHORTEST_IDLE: Nanos = Nanos(100_000_000);

/// One registered task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Unique per user; for messages and traces.
    pub name: String,
    /// Its class with the timing of a realtime task.
    pub class: Class,
    /// Its memory. A best-effort task may declare zeros: it takes what it is given.
    pub memory: MemoryProfile,
    /// Its part of what realtime leaves, while it is treated as best-effort.
    pub weight: Weight,
    /// A best-effort task without a job for so long leaves the GPU; none if it stays until others need its memory.
    pub idle_after: Option<Nanos>,
}
