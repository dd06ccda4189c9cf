//! B: how long a job can be held up by work that is due later.

use alloc::format;
use alloc::string::String;

use super::{Candidate, Platform, Test};
use crate::units::Nanos;

/// Which of the terms is the largest. Numbers are places in the list of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockingTerm {
    /// A best-effort job leaving the GPU.
    Drain,
    /// An eviction made for this task: Oᴼᵘᵗ(x).
    SwapOut(usize),
    /// The region of this task: Oᴵⁿ(x) + C, or E where evictions are part of it.
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
    /// The part of `total` that is (n−1)·base_out: in each busy period, one eviction of every other
    /// task is charged to no job. Zero for `Pipelined`, which charges each job for every eviction.
    pub bases: Nanos,
}

/// The longest executions of a set, with their places.
#[derive(Clone, Copy, Debug, Default)]
struct Longest {
    first: Option<(Nanos, usize)>,
    second: Option<(Nanos, usize)>,
}

impl Longest {
    fn of(platform: &Platform, candidates: &[Candidate]) -> Self {
        let mut longest = Self::default();
        for (place, candidate) in candidates.iter().enumerate() {
            let run = platform.execution(&candidate.timing);
            if longest.first.is_none_or(|(most, _)| run > most) {
                longest.second = longest.first;
                longest.first = Some((run, place));
            } else if longest.second.is_none_or(|(most, _)| run > most) {
                longest.second = Some((run, place));
            }
        }
        longest
    }

    /// The longest of all others than that at `place`.
    fn beside(&self, place: usize) -> Option<(Nanos, usize)> {
        match self.first {
            Some((_, first)) if first == place => self.second,
            first => first,
        }
    }
}

/// What the blocking by any subset of a set comes from.
pub(super) struct Blockers<'a> {
    test: Test,
    platform: &'a Platform,
    candidates: &'a [Candidate],
    longest: Longest,
}

impl<'a> Blockers<'a> {
    pub(super) fn new(test: Test, platform: &'a Platform, candidates: &'a [Candidate]) -> Self {
        Self {
            test,
            platform,
            candidates,
            longest: Longest::of(platform, candidates),
        }
    }

    /// By nothing but best-effort.
    pub(super) fn none(&self) -> Blocking {
        let others = (self.candidates.len() as u64).saturating_sub(1);
        let bases = match self.test {
            Test::Theorem1 | Test::Demand => {
                Nanos(self.platform.cost.out.base.0.saturating_mul(others))
            }
            Test::Pipelined => Nanos::ZERO,
        };
        Blocking {
            total: self.platform.drain + bases,
            term: BlockingTerm::Drain,
            bases,
        }
    }

    /// `blocking`, if the task at `place` can block too.
    pub(super) fn with(&self, blocking: Blocking, place: usize) -> Blocking {
        let candidate = &self.candidates[place];
        let platform = self.platform;
        let chunks = candidate.volume.chunks(platform.chunk);
        let run = platform.execution(&candidate.timing);
        let mut largest = (blocking.total - blocking.bases, blocking.term);
        let mut consider = |span: Nanos, term: BlockingTerm| {
            if span > largest.0 {
                largest = (span, term);
            }
        };
        match self.test {
            Test::Theorem1 | Test::Demand => {
                consider(platform.swap_out(chunks), BlockingTerm::SwapOut(place));
                consider(platform.swap_in(chunks) + run, BlockingTerm::Region(place));
            }
            Test::Pipelined => {
                let tasks = self.candidates.len() as u64;
                let region = platform.load(self.test, tasks, candidate).demand;
                consider(region, BlockingTerm::Region(place));
            }
        }
        consider(run + platform.drain, BlockingTerm::RunAndDrain(place));
        if let Some((other, beside)) = self.longest.beside(place) {
            consider(run + other, BlockingTerm::TwoRuns(place, beside));
        }
        Blocking {
            total: largest.0 + blocking.bases,
            term: largest.1,
            bases: blocking.bases,
        }
    }

    /// By any of them.
    pub(super) fn all(&self) -> Blocking {
        (0..self.candidates.len()).fold(self.none(), |blocking, place| self.with(blocking, place))
    }
}

impl Blocking {
    /// B over all `candidates`: the paper's Eq. (2) with best-effort's drain.
    pub(crate) fn over(test: Test, platform: &Platform, candidates: &[Candidate]) -> Self {
        Blockers::new(test, platform, candidates).all()
    }

    /// How long and by what, in words, with the tasks' names from `name`.
    pub fn describe<'a>(&self, name: impl Fn(usize) -> &'a str) -> String {
        format!("{} ({})", self.total, self.cause(name))
    }

    /// By what, in words.
    pub fn cause<'a>(&self, name: impl Fn(usize) -> &'a str) -> String {
        let bases = format!("{} of other tasks' eviction bases", self.bases);
        match (self.total == self.bases, self.bases) {
            (true, Nanos::ZERO) => String::from("nothing that is due later"),
            (true, _) => bases,
            (false, Nanos::ZERO) => self.longest(name),
            (false, _) => format!("{}, and {bases}", self.longest(name)),
        }
    }

    /// What set it, in words.
    fn longest<'a>(&self, name: impl Fn(usize) -> &'a str) -> String {
        match self.term {
            BlockingTerm::Drain => String::from("a best-effort job leaving the GPU"),
            BlockingTerm::SwapOut(task) => format!("the evictions made for {}", name(task)),
            BlockingTerm::Region(task) => format!("swap-in and execution of {}", name(task)),
            BlockingTerm::TwoRuns(one, other) => {
                format!("the executions of {} and {}", name(one), name(other))
            }
            BlockingTerm::RunAndDrain(task) => {
                format!("the execution of {} and best-effort's drain", name(task))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eviction_bases_are_named_beside_what_blocks() {
        let says = |total: u64, term, bases: u64| {
            let (total, bases) = (Nanos(total * 1_000_000), Nanos(bases * 1_000_000));
            let blocking = Blocking { total, term, bases };
            blocking.cause(|place| ["a", "b"][place])
        };
        let drain = BlockingTerm::Drain;
        assert_eq!(says(0, drain, 0), "nothing that is due later");
        assert_eq!(
            says(22, drain, 22),
            "22.000 ms of other tasks' eviction bases"
        );
        assert_eq!(says(5, drain, 0), "a best-effort job leaving the GPU");
        assert_eq!(
            says(30, BlockingTerm::Region(1), 22),
            "swap-in and execution of b, and 22.000 ms of other tasks' eviction bases"
        );
        assert_eq!(
            says(30, BlockingTerm::SwapOut(0), 0),
            "the evictions made for a"
        );
    }
}
