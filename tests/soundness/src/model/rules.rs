//! The scheduling rules of the model, and the refuted ones, which exist only here.

/// How a job's memory is had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All evictions first, then the swap-in, with which the region opens.
    #[default]
    Sequential,
    /// Chunk by chunk on both copy engines, all of it in the region.
    Pipelined,
}

/// For whom swap operations may start early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Early {
    /// Rule 1: for the head of the computation queue.
    #[default]
    Head,
    /// Refuted: evictions also for the first job in the queue that lacks memory.
    EvictionsForAny,
}

/// Whose computation may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// Rule 2: the open region's job, or else the head.
    #[default]
    RegionOrHead,
    /// Refuted: anybody whose memory is there, unless the head is being swapped.
    UnlessHeadIsSwapped,
    /// Refuted: anybody whose memory is there.
    Anybody,
}

/// When a pipelined region opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opens {
    /// Once every chunk it needs is free or can leave now.
    #[default]
    WhenAvailable,
    /// Refuted: when its job is the head.
    AtOnce,
}

/// How a new plan comes about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transition {
    /// At once if the union of both sets passes, else at a quiet instant with nobody out by more
    /// than the new plan allows.
    #[default]
    TwoPhase,
    /// Refuted: at once if the new set passes; who is out by more swaps in more.
    AtOnce,
    /// Refuted: at the last deadline of who has departed.
    LastDeadline,
}

/// All of them; the default are those of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How a job's memory is had.
    pub mode: Mode,
    /// Rule 1.
    pub early: Early,
    /// Rule 2.
    pub compute: Compute,
    /// Rule 3: how many regions may wait to execute; one.
    pub regions: usize,
    /// Rule 3, pipelined.
    pub opens: Opens,
    /// The change of plan.
    pub transition: Transition,
}

impl Default for Rules {
    fn default() -> Self {
        Self::strict(Mode::Sequential)
    }
}

impl Rules {
    /// The rules of the scheduler.
    pub fn strict(mode: Mode) -> Self {
        Self {
            mode,
            early: Early::Head,
            compute: Compute::RegionOrHead,
            regions: 1,
            opens: Opens::WhenAvailable,
            transition: Transition::TwoPhase,
        }
    }
}
