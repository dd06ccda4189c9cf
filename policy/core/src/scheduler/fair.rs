//! The policy of the product. Each task gets GPU time by its weight, counted as virtual time, in turns
//! that are long enough to pay for the memory that they move.
//!
//! - Who computes on and on is batch: its turn lasts until moving memory takes at most `swap_share` of the
//!   time, twice and four times as long when its last turns were too short for it.
//! - Who comes after idleness and has had less than its part is *urgent*: it is served at once. It
//!   pays for the change there and back in virtual time, so that it cannot have more than its part.
//! - Who has waited for nearly `longest_wait` goes first, the longest waiting before the others. Where
//!   so many wait that one change for each takes longer than that, the bound is that time instead.

use super::discipline::{Discipline, Manners, Moment, Rank, Standing, rest};
use crate::task::Weight;
use crate::units::{Nanos, Ppm, Time};

/// The shortest turn.
pub(crate) const SLICE: Nanos = Nanos(50_000_000);
/// The shortest pause after which a task may be urgent, and the time that the GPU is kept at least.
const SHORT: Nanos = Nanos(5_000_000);
/// How often a turn is doubled at most.
const DOUBLINGS: u32 = 2;
/// Of jobs that are urgent, and of all others.
const URGENT: u8 = 0;
const BATCH: u8 = 1;

/// The policy of the product.
#[derive(Clone, Copy, Debug)]
pub struct Fair {
    /// The most of the time that may go into moving memory.
    pub swap_share: Ppm,
    /// The most that a job waits, while that can be had.
    pub longest_wait: Nanos,
    /// How long a job may take to leave the GPU.
    pub drain: Nanos,
}

impl Fair {
    /// The least that a turn lasts when another presses.
    fn least(change: Nanos) -> Nanos {
        SLICE.max(Nanos(change.0 / 2))
    }

    /// How much GPU time pays for the change from `holder` to `other`, as far as the bound on waits allows it
    /// with as many as wait.
    fn pays(&self, holder: &Standing, other: &Standing, moment: &Moment) -> Nanos {
        let doubled = 1 << holder.cuts.min(DOUBLINGS);
        let wanted = Nanos(rest(moment.change, self.swap_share).0.saturating_mul(doubled));
        let changes = Nanos((moment.price + self.drain).0.saturating_mul(moment.waiting));
        let turns = self.longest_wait.saturating_sub(changes + self.delay(moment.price));
        // Two wait in turn for each other at least. The lighter one has the shorter turns.
        let most = Nanos(turns.0 / moment.waiting.max(2));
        let lighter = holder.weight.min(other.weight);
        let most = scaled(most, lighter.get(), other.weight.get());
        wanted.min(most).max(Self::least(moment.change))
    }
}

impl Discipline for Fair {
    fn manners(&self) -> Manners {
        Manners {
            shares_turns: true,
            brings_ahead: true,
            overlaps: true,
            suspends: false,
        }
    }

    fn rank(&self, task: &mut Standing, floor: Nanos, moment: &Moment) -> Rank {
        let has_credit = task.virtual_time <= floor;
        let there_and_back = moment.change + moment.change;
        let was_idle = task.idle > there_and_back.max(SHORT);
        // Who pauses keeps what it has not had yet, but not for ever.
        let kept = if was_idle { Nanos::ZERO } else { self.longest_wait };
        task.virtual_time = task.virtual_time.max(floor.saturating_sub(kept));
        let urgent = has_credit && was_idle;
        Rank {
            level: if urgent { URGENT } else { BATCH },
            place: task.virtual_time.0,
        }
    }

    fn turn_ends(&self, holder: &Standing, other: &Standing, moment: &Moment) -> Time {
        let ahead = other.virtual_time.saturating_sub(holder.virtual_time);
        let fair = moment.granted + real(ahead, holder.weight);
        let pressed = moment.presses.max(moment.since + Self::least(moment.change));
        if other.rank.level == URGENT && holder.rank.level != URGENT {
            return fair.min(pressed);
        }
        if moment.change == Nanos::ZERO {
            return fair.max(moment.granted + SLICE).min(pressed);
        }
        let paid = self.pays(holder, other, moment).saturating_sub(moment.settled);
        fair.max(moment.granted + paid).min(pressed)
    }

    fn keeps(&self, holder: &Standing, moment: &Moment) -> Nanos {
        let Some(pause) = holder.pause else {
            return Nanos::ZERO;
        };
        let usual = Nanos(pause.0.saturating_mul(4));
        usual.max(SHORT).min(moment.change)
    }

    fn longest_wait(&self) -> Option<Nanos> {
        Some(self.longest_wait)
    }

    fn delay(&self, change: Nanos) -> Nanos {
        change + Self::least(change) + self.drain
    }

    fn changed(&self, task: &mut Standing, former: Option<&mut Standing>, took: Nanos) {
        if task.rank.level == URGENT {
            task.virtual_time += virtual_time(took + took, task.weight);
        } else if let Some(former) = former {
            former.cuts = former.cuts.saturating_add(1);
        }
    }
}

/// `span` of GPU time as virtual time of a task of `weight`.
pub(crate) fn virtual_time(span: Nanos, weight: Weight) -> Nanos {
    scaled(span, Weight::default().get(), weight.get())
}

/// The GPU time in which a task of `weight` gets `span` of virtual time.
fn real(span: Nanos, weight: Weight) -> Nanos {
    scaled(span, weight.get(), Weight::default().get())
}

fn scaled(span: Nanos, by: u32, over: u32) -> Nanos {
    let scaled = u128::from(span.0) * u128::from(by) / u128::from(over);
    Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
}
