//! The profile of a task: what `rtswapctl profile` saw of a program, as `rtswapctl plan` and `run` take it by name.
//! `record` reads the lines that the agent wrote, `fold` makes profiles of them, `read` knows the keys of the file and
//! their rules, `write` has its text.

mod fold;
mod read;
mod record;
#[cfg(test)]
mod tests;
mod write;

pub use fold::{About, FoldError, Folded, LEAST_JOBS, fold};
pub use read::parse;
pub use record::{Record, RecordError, SeenJob};

use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

/// The end of a command line that is not whole. One that is whole ends otherwise: a shell's word with this is quoted.
pub const CUT: char = '…';

/// What was seen of a task. [`parse`] checks that the times are above 0, C not below what was seen, and mˢ ≤ m.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name of the task.
    pub name: String,
    /// The time of the measurement, in seconds since 1970.
    pub measured: u64,
    /// The task of the whole process, where this is one of several jobs of that.
    pub process: Option<String>,
    /// The program and its arguments, for people; where they are too long or have characters that nobody sees, what is
    /// before that and [`CUT`].
    pub program: String,
    /// How its jobs began.
    pub jobs: Jobs,
    /// The UUID of the GPU or MIG instance.
    pub gpu: String,
    /// The product's name, for people.
    pub gpu_name: Option<String>,
    /// δ while it was measured, in bytes.
    pub chunk: Bytes,
    /// m and mˢ: the most that was seen.
    pub memory: MemoryProfile,
    /// The median and the least time between the requests of two jobs in a row.
    pub period: (Nanos, Nanos),
    /// C: the longest execution that was seen, or more where somebody wrote so.
    pub wcet: Nanos,
    /// Executions of the program by itself.
    pub alone: Execution,
    /// Executions beside a neighbor that loads both copy engines.
    pub loaded: Execution,
    /// The largest first; of each size and kind the most that were there at once.
    pub allocations: Vec<Allocation>,
}

/// How the jobs of a program begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// The program declares all of them.
    Declared,
    /// The program declares none: GPU work after an idle time begins one.
    Implicit,
    /// The program declares some, and there is GPU work between them.
    Mixed,
}

/// Execution times, from grant to completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The number of jobs.
    pub count: u64,
    /// Half of them took no longer.
    pub median: Nanos,
    /// A high quantile that so many jobs have, and the time in which that share of them was done.
    pub high: (Ppm, Nanos),
    /// The longest of them.
    pub max: Nanos,
    /// If executions are independent and alike, this share of all executions is no longer than `max`: that holds with the
    /// probability `confidence`, whatever their distribution.
    pub quantile: Ppm,
    /// The probability that `quantile` holds.
    pub confidence: Ppm,
}

/// Allocations of one size and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocation {
    /// As the program asked for it.
    pub bytes: Bytes,
    /// What it is to swapping.
    pub kind: AllocationKind,
    /// The most that were there at once.
    pub count: u64,
}

/// What an allocation is to swapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocationKind {
    /// It may be swapped.
    Arena,
    /// A context's own memory; it stays.
    Context,
    /// Memory of a call that the driver serves; it stays.
    Driver,
    /// A CUDA array; it stays.
    Array,
}

impl Jobs {
    const ALL: [Self; 3] = [Self::Declared, Self::Implicit, Self::Mixed];

    /// As the file has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Implicit => "implicit",
            Self::Mixed => "mixed",
        }
    }
}

impl AllocationKind {
    const ALL: [Self; 4] = [Self::Arena, Self::Context, Self::Driver, Self::Array];

    /// As the file has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arena => "arena",
            Self::Context => "context",
            Self::Driver => "driver",
            Self::Array => "array",
        }
    }
}

impl Profile {
    /// The program and its arguments, if they are whole: what is not must not be typed.
    pub fn command(&self) -> Option<&str> {
        Some(&*self.program).filter(|program| !program.ends_with(CUT))
    }

    /// The jobs of both runs.
    pub const fn count(&self) -> u64 {
        self.alone.count.saturating_add(self.loaded.count)
    }
}
