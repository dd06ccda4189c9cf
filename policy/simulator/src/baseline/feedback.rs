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
//!   there, and twice the time of its level after the last change. One that waits rises too, at a third of
//!   that pace where it shares its level with one other at most.
//! - A program is idle when it has launched nothing for 100 to 300 ms, by the kind of call.
//!
//! Assumed: idle is after 200 ms, that of CUDA graphs, and a program that waits shares its level with one
//! other. A program that rose while it waited is where it was before with its next job. Nixie's look at its
//! queue every 100 ms, and the 10 s that it lets a running program stay at a level at least, are left out.
//! Its prefetch fills host memory from disk, which is not modelled.

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

/// How much slower a program rises while it waits.
const WAITING: u64 = 3;

/// Nixie's queues.
#[derive(Clone, Copy, Debug, Default)]
pub struct Feedback;

/// Where a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    number: usize,
    /// How long it has computed there.
    had: Nanos,
    /// Since when.
    since: Time,
}

/// The virtual time of a task keeps what its level lacks: the lower bits what it has computed there, which the
/// scheduler adds to, the others since when.
const HAD: u64 = (1 << 38) - 1;
/// The unit of the latter.
const TENTH: u64 = SECOND / 10;

impl Level {
    const TOP: Self = Self {
        number: 0,
        had: Nanos::ZERO,
        since: Time::ZERO,
    };

    /// That of a task which last computed until `end`.
    fn of(task: &Standing, end: Time) -> Self {
        let packed = task.virtual_time.0;
        let had = (packed & HAD) * u64::from(task.weight.get()) / 100;
        let level = Self {
            number: usize::from(task.rank.level).min(TIMES.len() - 1),
            had: Nanos(had),
            since: Time((packed >> HAD.count_ones()) * TENTH),
        };
        level.sunk(end)
    }

    fn packed(self, task: &Standing) -> Nanos {
        let had = (self.had.0 * 100 / u64::from(task.weight.get())).min(HAD);
        Nanos(((self.since.0 / TENTH) << HAD.count_ones()) | had)
    }

    fn time(self) -> Nanos {
        TIMES[self.number]
    }

    /// It has computed until `end` without a break.
    fn sunk(mut self, end: Time) -> Self {
        while self.had > self.time() {
            self.had -= self.time();
            self.since = Time((end - Time::ZERO).saturating_sub(self.had).0);
            self.number = (self.number + 1).min(TIMES.len() - 1);
        }
        self
    }

    /// The levels that it rises to, each from when on. It is rested after the time that `rests` says for
    /// what it takes.
    fn rises(self, rests: impl Fn(Nanos) -> Time) -> impl Iterator<Item = Self> {
        core::iter::successors(Some(self), move |level| {
            let rested = rests(level.had + Nanos(level.time().0 / 2));
            let settled = level.since + level.time() + level.time();
            Some(Self {
                number: level.number.checked_sub(1)?,
                had: Nanos::ZERO,
                since: settled.max(rested),
            })
        })
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

/// When `holder` gives the GPU to a program of the level `wanted`.
fn yields(holder: Level, wanted: usize, moment: &Moment) -> Time {
    if wanted < holder.number {
        return moment.granted;
    }
    let migration = Nanos(moment.change.0.saturating_mul(3));
    let cooled = moment.since + holder.time().max(migration);
    let same = (moment.granted + holder.sinks_to(wanted)).max(cooled);
    if wanted + 1 < TIMES.len() {
        same.min(moment.granted + holder.sinks_to(wanted + 1))
    } else {
        same
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
        let now = task.requested;
        let level = if task.idle == Nanos::MAX {
            Level {
                since: now,
                ..Level::TOP
            }
        } else {
            let end = Time((now - Time::ZERO).saturating_sub(task.idle).0);
            let rises = Level::of(task, end).rises(|rest| end + rest);
            let risen = rises.skip(1).take_while(|level| level.since <= now);
            risen.last().unwrap_or(Level::of(task, end))
        };
        task.virtual_time = level.packed(task);
        Rank {
            level: level.number as u8,
            place: now.0,
        }
    }

    fn turn_ends(&self, holder: &Standing, other: &Standing, moment: &Moment) -> Time {
        let holder = Level::of(holder, moment.granted);
        let slower = |rest: Nanos| Nanos(rest.saturating_sub(other.idle).0 * WAITING);
        let waits = Level::of(other, other.requested);
        let rises = waits.rises(|rest| other.requested + slower(rest)).skip(1);
        let risen = rises.map(|level| level.since.max(yields(holder, level.number, moment)));
        let before = yields(holder, waits.number, moment);
        risen.min().map_or(before, |risen| risen.min(before))
    }

    fn keeps(&self, _: &Standing, _: &Moment) -> Nanos {
        IDLE
    }

    fn longest_wait(&self) -> Option<Nanos> {
        None
    }

    fn delay(&self, _: Nanos) -> Nanos {
        Nanos::ZERO
    }

    fn changed(&self, _: &mut Standing, _: Option<&mut Standing>, _: Nanos) {}
}
