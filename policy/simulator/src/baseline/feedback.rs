//! Nixie's feedback queues (Xu et al., OSDI 2026, arXiv 2601.11743). The paper calls its scheduler inspired
//! by multi-level feedback queues; the numbers are those of its repository (github.com/XOR-op/Nixie, commit
//! f31cbec, src/daemon/src/runtime/schedule/policy.rs and src/sidecar/src/schedule/mod.rs):
//!
//! - One program has the GPU. A new one begins at the highest of four levels and sinks by one whenever
//!   it has computed for more than 8, 16 or 32 s there; at the lowest, of 64 s, it stays. (A fifth level
//!   is only for programs that an administrator puts there.)
//! - A program of a higher level takes the GPU at once. One of the same level takes it once the holder has
//!   had it for the time of the level, and for three times what its migration took at 16 GB/s. One of a
//!   lower level waits until the holder sinks or is idle.
//! - A program that is idle rises by one level after half the time of its level and what it had computed
//!   there, and twice the time of its level after the last change.
//! - A program is idle when it has launched nothing for 100 to 300 ms, by the kind of call.
//!
//! Assumed: idle after 200 ms, that of CUDA graphs. The time of the last change of level is taken to be the
//! end of the last job, so that a program rises somewhat later. A program that waits does not rise; in Nixie
//! it does after more than two minutes at the lowest level. Nixie's look at its queue every 100 ms, and the
//! 10 s that it lets a program stay at a level at least, are left out. Its prefetch fills host memory from
//! disk, which is not modelled.

use rtswap_policy::scheduler::{Discipline, Manners, Moment, Rank, Standing};
use rtswap_policy::units::{Nanos, Time};

use super::PLAIN;

const SECOND: u64 = 1_000_000_000;

/// The computation after which a program sinks from each level.
const TIMES: [Nanos; 4] = [
    Nanos(8 * SECOND),
    Nanos(16 * SECOND),
    Nanos(32 * SECOND),
    Nanos(64 * SECOND),
];

/// How long a program without a job keeps the GPU.
const IDLE: Nanos = Nanos(SECOND / 5);

/// Nixie's queues.
#[derive(Clone, Copy, Debug, Default)]
pub struct Feedback;

/// The level of a program, and how long it has computed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    number: usize,
    had: Nanos,
}

impl Level {
    /// As of the end of the last job, or of the grant of the one under way. The virtual time of a task
    /// counts here what it has computed at its level.
    fn of(task: &Standing) -> Self {
        let scaled = u128::from(task.virtual_time.0) * u128::from(task.weight.get()) / 100;
        let had = Nanos(u64::try_from(scaled).unwrap_or(u64::MAX));
        let number = usize::from(task.rank.level).min(TIMES.len() - 1);
        Self { number, had }.sunk()
    }

    fn time(self) -> Nanos {
        TIMES[self.number]
    }

    fn sunk(mut self) -> Self {
        while self.had > self.time() {
            self.had -= self.time();
            self.number = (self.number + 1).min(TIMES.len() - 1);
        }
        self
    }

    /// After `idle` without a job.
    fn risen(mut self, idle: Nanos) -> Self {
        let mut changed = Nanos::ZERO;
        while self.number > 0 {
            let settled = changed + self.time() + self.time();
            let idle_enough = self.had + Nanos(self.time().0 / 2);
            if idle <= settled.max(idle_enough) {
                break;
            }
            changed = settled.max(idle_enough);
            self.number -= 1;
            self.had = Nanos::ZERO;
        }
        self
    }

    /// How long it computes until it is at the level `number`, or lower.
    fn sinks_to(self, number: usize) -> Nanos {
        if number <= self.number {
            return Nanos::ZERO;
        }
        let through: Nanos = TIMES[self.number..number].iter().copied().sum();
        through.saturating_sub(self.had)
    }
}

impl Discipline for Feedback {
    fn manners(&self) -> Manners {
        Manners {
            overlaps: true,
            ..PLAIN
        }
    }

    fn rank(&self, task: &mut Standing, _: Nanos, _: &Moment) -> Rank {
        let level = if task.idle == Nanos::MAX {
            Level {
                number: 0,
                had: Nanos::ZERO,
            }
        } else {
            Level::of(task).risen(task.idle)
        };
        let scaled = u128::from(level.had.0) * 100 / u128::from(task.weight.get());
        task.virtual_time = Nanos(u64::try_from(scaled).unwrap_or(u64::MAX));
        Rank {
            level: level.number as u8,
            place: task.requested.0,
        }
    }

    fn turn_ends(&self, holder: &Standing, other: &Standing, moment: &Moment) -> Time {
        let (level, wanted) = (Level::of(holder), usize::from(other.rank.level));
        let migration = Nanos(moment.change.0.saturating_mul(3));
        let cooled = moment.since + level.time().max(migration);
        let equal = (moment.granted + level.sinks_to(wanted)).max(cooled);
        if wanted < level.number {
            return moment.granted;
        }
        if wanted + 1 < TIMES.len() {
            equal.min(moment.granted + level.sinks_to(wanted + 1))
        } else {
            equal
        }
    }

    fn keeps(&self, _: &Standing, _: &Moment) -> Nanos {
        IDLE
    }

    fn presses(&self, _: &Standing, _: &Moment) -> Time {
        Time::MAX
    }

    fn changed(&self, _: &mut Standing, _: Option<&mut Standing>, _: Nanos) {}

    /// Programs of higher levels may come without end.
    fn longest_wait(&self, _: &Moment) -> Nanos {
        Nanos::MAX
    }
}
