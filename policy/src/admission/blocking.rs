//! B: how long a job can be held up by work that is due later.

use alloc::format;
use alloc::string::String;

use super::{Candidate, Platform};
use crate::units::Nanos;

/// Which of the terms is the largest. Numbers are places in the list of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockingTerm {
    /// A best-effort job leaving the GPU.
    Drain,
    /// An eviction made for this task: Oᴼᵘᵗ(x).
    SwapOut(usize),
    /// The region of this task: Oᴵⁿ(x) + C.
    Region(usize),
    /// The runs of two tasks, the second swapped in behind the first: C + C′.
    TwoRuns(usize, usize),
    /// The run of this task, with best-effort still to leave: C + drain.
    RunAndDrain(usize),
}

/// The blocking bound and how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocking {
    /// The bound, evictions' bases included.
    pub total: Nanos,
    /// What set it.
    pub term: BlockingTerm,
    /// The part of it that is (n−1)·base_out: one exhausting eviction of each other task in a
    /// busy period that no job is charged for.
    pub bases: Nanos,
}

impl Blocking {
    /// B over all `candidates`: the paper's Eq. (2) with best-effort's drain.
    pub(crate) fn over<'a, I>(platform: &Platform, candidates: I) -> Self
    where
        I: Iterator<Item = &'a Candidate> + Clone,
    {
        let (mut largest, mut term) = (platform.drain, BlockingTerm::Drain);
        let mut consider = |span: Nanos, what: BlockingTerm| {
            if span > largest {
                (largest, term) = (span, what);
            }
        };
        let (mut count, mut longest, mut second) = (0_u64, None, None);
        for (place, candidate) in candidates.enumerate() {
            count += 1;
            let chunks = candidate.volume.chunks(platform.chunk);
            let run = platform.execution(&candidate.timing);
            consider(platform.swap_out(chunks), BlockingTerm::SwapOut(place));
            consider(platform.swap_in(chunks) + run, BlockingTerm::Region(place));
            consider(run + platform.drain, BlockingTerm::RunAndDrain(place));
            if longest.is_none_or(|(other, _)| run > other) {
                second = longest;
                longest = Some((run, place));
            } else if second.is_none_or(|(other, _)| run > other) {
                second = Some((run, place));
            }
        }
        if let (Some((first, one)), Some((next, other))) = (longest, second) {
            consider(first + next, BlockingTerm::TwoRuns(one, other));
        }
        let bases = Nanos(
            platform
                .cost
                .out
                .base
                .0
                .saturating_mul(count.saturating_sub(1)),
        );
        Self {
            total: largest + bases,
            term,
            bases,
        }
    }

    /// In words, with the tasks' names from `name`.
    pub fn describe<'a>(&self, name: impl Fn(usize) -> &'a str) -> String {
        let what = match self.term {
            BlockingTerm::Drain => String::from("a best-effort job leaving the GPU"),
            BlockingTerm::SwapOut(task) => format!("the evictions made for {}", name(task)),
            BlockingTerm::Region(task) => format!("swap-in and execution of {}", name(task)),
            BlockingTerm::TwoRuns(one, other) => {
                format!("the executions of {} and {}", name(one), name(other))
            }
            BlockingTerm::RunAndDrain(task) => {
                format!("the execution of {} and best-effort's drain", name(task))
            }
        };
        format!("{} ({what})", self.total)
    }
}
