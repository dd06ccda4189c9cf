//! A set of tasks with all that decides one run of it: what the search varies and both engines
//! take. Times are integers without a unit, memory is counted in chunks.

use rtswap_policy::admission::{Candidate, Platform};
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::task::Timing;
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use serde::{Deserialize, Serialize};

/// What moving chunks in one direction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Once per operation.
    pub base: i64,
    /// Once per chunk, at least one.
    pub chunk: i64,
}

/// When a task is there, in a case whose set changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stay {
    /// From the beginning to the end.
    Throughout,
    /// Until the change.
    Departs,
    /// From the instant at which the new plan takes effect.
    Arrives,
}

/// One realtime task and its jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// T.
    pub period: i64,
    /// D ≤ T.
    pub deadline: i64,
    /// C ≤ D.
    pub wcet: i64,
    /// m.
    pub footprint: i64,
    /// x ≤ m.
    pub volume: i64,
    /// x under the plan after the change.
    pub volume_after: i64,
    /// Out at the beginning.
    pub swapped: i64,
    /// Its last eligible time + T at the beginning; at most `first`.
    pub ready: i64,
    /// When its first job is released; counted from the effect of the change for who arrives.
    pub first: i64,
    /// For each further job, by how much more than a period it is later than the one before.
    pub gaps: Vec<i64>,
    /// For each job, what it runs less than C.
    pub shorter: Vec<i64>,
    /// When it is there.
    pub stay: Stay,
}

/// A best-effort task. The first of a case always has a job waiting; the others only hold memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BestEffort {
    /// All it takes.
    pub footprint: i64,
    /// Of it, what can be swapped.
    pub swappable: i64,
    /// Out at the beginning.
    pub swapped: i64,
    /// How long each of its jobs runs if it is let.
    pub runs: i64,
    /// How long it takes to leave the GPU; at most the drain bound.
    pub leaves: i64,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// mᴰ.
    pub capacity: i64,
    /// Of swapping out.
    pub out: Cost,
    /// Of swapping in.
    pub in_: Cost,
    /// The best-effort drain bound.
    pub drain: i64,
    /// The set.
    pub tasks: Vec<Task>,
    /// Best-effort beside it.
    pub best_effort: Vec<BestEffort>,
    /// When the set changes.
    pub change: Option<i64>,
    /// Of things that happen at the same instant, releases come first.
    pub releases_first: bool,
}

impl Cost {
    /// One operation of `chunks`.
    pub fn span(&self, chunks: i64) -> i64 {
        if chunks == 0 {
            return 0;
        }
        self.base + chunks * self.chunk
    }
}

impl Task {
    /// Of its job of that number, counted from 0.
    pub fn execution(&self, job: usize) -> i64 {
        self.wcet - self.shorter.get(job).copied().unwrap_or(0)
    }

    /// When its jobs are released if none is late.
    pub fn releases(&self) -> impl Iterator<Item = i64> + '_ {
        let later = self.gaps.iter().scan(self.first, |at, gap| {
            *at += self.period + gap;
            Some(*at)
        });
        core::iter::once(self.first).chain(later)
    }

    /// The last of them.
    pub fn last_release(&self) -> i64 {
        self.first + self.gaps.iter().map(|gap| gap + self.period).sum::<i64>()
    }

    /// How many jobs it has.
    pub fn jobs(&self) -> usize {
        self.gaps.len() + 1
    }
}

impl Case {
    /// The set before the change, or the only one, as the admission tests see it.
    pub fn before(&self) -> Vec<Candidate> {
        let there = self.tasks.iter().filter(|t| t.stay != Stay::Arrives);
        there.map(|t| candidate(t, t.volume)).collect()
    }

    /// The set after the change.
    pub fn after(&self) -> Vec<Candidate> {
        let there = self.tasks.iter().filter(|t| t.stay != Stay::Departs);
        there.map(|t| candidate(t, t.volume_after)).collect()
    }

    /// Everybody, each with the larger volume: what must pass for a change at once.
    pub fn union(&self) -> Vec<Candidate> {
        self.tasks
            .iter()
            .map(|t| match t.stay {
                Stay::Throughout => candidate(t, t.volume.max(t.volume_after)),
                Stay::Departs => candidate(t, t.volume),
                Stay::Arrives => candidate(t, t.volume_after),
            })
            .collect()
    }

    /// The platform of the admission tests: chunks of one byte, a unit of time is a nanosecond.
    pub fn platform(&self) -> Platform {
        // A chunk takes a nanosecond even at this bandwidth.
        let direction = |cost: &Cost| DirectionCost {
            base: nanos(cost.base),
            per_chunk: nanos(cost.chunk - 1),
            bytes_per_second: u64::MAX,
        };
        Platform {
            cost: SwapCost {
                out: direction(&self.out),
                in_: direction(&self.in_),
            },
            chunk: Bytes(1),
            drain: nanos(self.drain),
            dispatch_latency: Nanos::ZERO,
            duplex: Ppm::ONE,
        }
    }

    /// How many jobs it has in all.
    pub fn jobs(&self) -> usize {
        self.tasks.iter().map(Task::jobs).sum()
    }
}

fn candidate(task: &Task, volume: i64) -> Candidate {
    Candidate {
        timing: Timing {
            period: nanos(task.period),
            deadline: nanos(task.deadline),
            wcet: nanos(task.wcet),
        },
        volume: Bytes(volume.max(0) as u64),
    }
}

/// Times of cases are not negative.
pub(crate) fn nanos(span: i64) -> Nanos {
    Nanos(span.max(0) as u64)
}

impl Case {
    /// Whether the plan after the change fits, with `left` still held by who has departed.
    pub fn room_after(&self, left: i64) -> bool {
        let there = || self.tasks.iter().filter(|t| t.stay != Stay::Departs);
        let most = there().map(|t| t.volume_after).max().unwrap_or(0);
        let needs: i64 = there().map(|t| t.footprint - t.volume_after).sum();
        needs + most + left + self.fixed() <= self.capacity
    }

    /// The same for the plan before it; who arrives is loaded already.
    pub fn room_before(&self) -> bool {
        let there = || self.tasks.iter().filter(|t| t.stay != Stay::Arrives);
        let arrives = self.tasks.iter().filter(|t| t.stay == Stay::Arrives);
        let most = there().map(|t| t.volume).max().unwrap_or(0);
        let needs: i64 = there().map(|t| t.footprint - t.volume).sum();
        let loaded: i64 = arrives.map(|t| t.footprint - t.volume_after).sum();
        needs + most + loaded + self.fixed() <= self.capacity
    }

    /// What of best-effort cannot leave.
    fn fixed(&self) -> i64 {
        let fixed = |t: &BestEffort| t.footprint - t.swappable;
        self.best_effort.iter().map(fixed).sum()
    }
}
