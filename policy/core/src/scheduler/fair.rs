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
    fn least(moment: &Moment) -> Nanos {
        SLICE.max(moment.change)
    }

    /// How long one change of turns may take for each of those that wait.
    fn round(&self, moment: &Moment) -> Nanos {
        let each = (Self::least(moment) + self.drain).0;
        moment.rounds + Nanos(each.saturating_mul(moment.waiting))
    }

    /// How much GPU time pays for the change that `moment` names.
    fn pays(&self, holder: &Standing, moment: &Moment) -> Nanos {
        let doubled = 1 << holder.cuts.min(DOUBLINGS);
        let wanted = Nanos(rest(moment.change, self.swap_share).0.saturating_mul(doubled));
        let changes = Nanos((moment.change + self.drain).0.saturating_mul(moment.waiting));
        // Two wait in turn for each other at least.
        let most = self.longest_wait.saturating_sub(changes).0 / moment.waiting.max(2);
        wanted.min(Nanos(most)).max(Self::least(moment))
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
        task.virtual_time = task.virtual_time.max(floor);
        let there_and_back = moment.change + moment.change;
        let urgent = has_credit && task.idle > there_and_back.max(SHORT);
        Rank {
            level: if urgent { URGENT } else { BATCH },
            place: task.virtual_time.0,
        }
    }

    fn turn_ends(&self, holder: &Standing, other: &Standing, moment: &Moment) -> Time {
        let ahead = other.virtual_time.saturating_sub(holder.virtual_time);
        let fair = moment.granted + real(ahead, holder.weight);
        let pressed = self.presses(other, moment).max(moment.since + Self::least(moment));
        if other.rank.level == URGENT && holder.rank.level != URGENT {
            return fair.min(pressed);
        }
        if moment.change == Nanos::ZERO {
            return fair.max(moment.granted + SLICE).min(pressed);
        }
        let paid = self.pays(holder, moment).saturating_sub(moment.settled);
        fair.max(moment.granted + paid).min(pressed)
    }

    fn keeps(&self, holder: &Standing, moment: &Moment) -> Nanos {
        if holder.pause == Nanos::ZERO {
            // It never came back soon.
            return Nanos::ZERO;
        }
        let usual = Nanos(holder.pause.0.saturating_mul(4));
        usual.max(SHORT).min(moment.change)
    }

    fn presses(&self, task: &Standing, moment: &Moment) -> Time {
        task.requested + self.longest_wait.saturating_sub(self.round(moment))
    }

    fn changed(&self, task: &mut Standing, former: Option<&mut Standing>, took: Nanos) {
        if task.rank.level == URGENT {
            task.virtual_time += virtual_time(took + took, task.weight);
        } else if let Some(former) = former {
            former.cuts = former.cuts.saturating_add(1);
        }
    }

    fn longest_wait(&self, moment: &Moment) -> Nanos {
        self.longest_wait.max(self.round(moment))
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
