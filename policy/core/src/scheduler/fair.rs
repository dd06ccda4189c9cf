//! The policy of the product. Each task gets GPU time by its weight, counted as virtual time, in turns
//! that are long enough to pay for the memory that they move.
//!
//! - A task that computes on and on is batch: its turn lasts until moving memory takes at most `swap_share` of the
//!   time, twice and four times as long when its last turns were too short for it.
//! - One that comes after idleness and has had less than its part is *urgent*: it is served at once. It
//!   pays for the change there and back in virtual time, so that it cannot have more than its part. The first
//!   job of a task never is, or a program that is started again and again would have the GPU.
//! - One that has waited for nearly `longest_wait` goes first, the longest waiting before the others. Where
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
        let wanted = Nanos(
            rest(moment.change, self.swap_share)
                .0
                .saturating_mul(doubled),
        );
        let changes = Nanos((moment.price + self.drain).0.saturating_mul(moment.waiting));
        let turns = self
            .longest_wait
            .saturating_sub(changes + self.delay(moment.price));
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
        task.virtual_time += virtual_time(task.kept, task.weight);
        let is_new = task.idle == Nanos::MAX;
        let has_credit = task.virtual_time <= floor;
        let there_and_back = moment.change + moment.change;
        let was_idle = !is_new && task.idle > there_and_back.max(SHORT);
        // It keeps what it has not had yet, but not for ever.
        let kept = if is_new {
            Nanos::ZERO
        } else {
            Nanos(self.longest_wait.0 / 2)
        };
        task.virtual_time = task.virtual_time.max(floor.saturating_sub(kept));
        let urgent = has_credit && was_idle;
        Rank {
            level: if urgent { Rank::AT_ONCE } else { Rank::IN_TURN },
            place: task.virtual_time.0,
        }
    }

    fn turn_ends(&self, holder: &Standing, other: &Standing, moment: &Moment) -> Time {
        let ahead = other.virtual_time.saturating_sub(holder.virtual_time);
        let fair = moment.granted + real(ahead, holder.weight);
        let least = moment.since + Self::least(moment.change);
        let pressed = moment.presses.max(least);
        if other.rank.level == Rank::AT_ONCE && holder.rank.level != Rank::AT_ONCE {
            return fair.max(least).min(pressed);
        }
        if moment.change == Nanos::ZERO {
            return fair.max(moment.granted + SLICE).min(pressed);
        }
        let paid = self
            .pays(holder, other, moment)
            .saturating_sub(moment.settled);
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
        // One that has its memory may run meanwhile, and leave.
        let beside = SLICE + self.drain;
        change + Self::least(change) + self.drain + beside
    }

    fn changed(&self, task: &mut Standing, former: Option<&mut Standing>, took: Nanos) {
        if task.rank.level == Rank::AT_ONCE {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    const FAIR: Fair = Fair {
        swap_share: Ppm(100_000),
        longest_wait: Nanos(15 * SECOND),
        drain: Nanos::ZERO,
    };

    /// A change of 400 ms, everything included, for the only other task; the holder has just begun.
    fn moment() -> Moment {
        Moment {
            since: Time(100 * SECOND),
            granted: Time(100 * SECOND),
            settled: Nanos::ZERO,
            change: Nanos(400 * MS),
            price: Nanos(400 * MS),
            waiting: 1,
            presses: Time::MAX,
        }
    }

    fn batch(weight: u32) -> Standing {
        Standing {
            weight: Weight::new(weight).unwrap(),
            rank: Rank {
                level: Rank::IN_TURN,
                place: 0,
            },
            ..Standing::default()
        }
    }

    fn turn(holder: &Standing, other: &Standing, moment: &Moment) -> u64 {
        (FAIR.turn_ends(holder, other, moment) - moment.granted).0 / MS
    }

    #[test]
    fn a_turn_lasts_until_its_change_is_the_share_and_doubles_up_to_what_the_wait_allows() {
        let mut holder = batch(100);
        assert_eq!(turn(&holder, &batch(100), &moment()), 3_600);
        // 15 s less a change and what a pressing one needs, for two.
        let most = (15_000 - 400 - (400 + 200 + 50)) / 2;
        for (cuts, millis) in [(1, most.min(7_200)), (2, most), (9, most)] {
            holder.cuts = cuts;
            assert_eq!(turn(&holder, &batch(100), &moment()), millis);
        }
        let settled = Nanos(3_000 * MS);
        let later = Moment {
            settled,
            ..moment()
        };
        assert_eq!(turn(&batch(100), &batch(100), &later), 600);
    }

    #[test]
    fn the_lighter_one_has_the_shorter_turns() {
        let waits = Nanos(5 * SECOND);
        let fair = Fair {
            longest_wait: waits,
            ..FAIR
        };
        let ends = |holder: u32, other: u32| {
            let (holder, other) = (batch(holder), batch(other));
            (fair.turn_ends(&holder, &other, &moment()) - moment().granted).0 / MS
        };
        let most = (5_000 - 400 - 650) / 2;
        assert_eq!(
            [ends(100, 100), ends(200, 100), ends(100, 200)],
            [most, most, most / 2]
        );
    }

    #[test]
    fn weights_are_parts_of_the_gpu() {
        // The heavier one goes on until both have had as much by their weights.
        let other = Standing {
            virtual_time: Nanos(5 * SECOND),
            ..batch(100)
        };
        assert_eq!(turn(&batch(200), &other, &moment()), 10_000);
    }

    #[test]
    fn only_a_task_that_was_idle_and_has_credit_is_urgent() {
        let floor = Nanos(50 * SECOND);
        let level = |idle: u64, had: u64| {
            let mut task = Standing {
                idle: Nanos(idle * MS),
                virtual_time: Nanos(had * SECOND),
                ..Standing::default()
            };
            FAIR.rank(&mut task, floor, &moment()).level
        };
        assert_eq!(level(801, 50), Rank::AT_ONCE);
        assert_eq!(
            level(800, 50),
            Rank::IN_TURN,
            "there and back takes as long"
        );
        assert_eq!(level(801, 51), Rank::IN_TURN);
    }

    #[test]
    fn an_urgent_one_comes_at_once_and_pays_there_and_back() {
        let mut urgent = batch(100);
        urgent.rank.level = Rank::AT_ONCE;
        assert_eq!(
            turn(&batch(100), &urgent, &moment()),
            200,
            "a turn has just begun"
        );
        let later = Moment {
            since: Time(99 * SECOND),
            ..moment()
        };
        assert_eq!(turn(&batch(100), &urgent, &later), 0);
        assert_eq!(turn(&urgent, &urgent.clone(), &moment()), 3_600);
        FAIR.changed(&mut urgent, None, Nanos(400 * MS));
        assert_eq!(urgent.virtual_time, Nanos(800 * MS));
    }

    #[test]
    fn credit_is_kept_for_half_the_longest_wait() {
        let mut task = batch(100);
        FAIR.rank(&mut task, Nanos(100 * SECOND), &moment());
        assert_eq!(task.virtual_time, Nanos(92_500 * MS));
    }

    #[test]
    fn a_new_task_has_neither_credit_nor_urgency() {
        let mut task = Standing {
            idle: Nanos::MAX,
            ..batch(100)
        };
        let rank = FAIR.rank(&mut task, Nanos(100 * SECOND), &moment());
        assert_eq!(rank.level, Rank::IN_TURN);
        assert_eq!(task.virtual_time, Nanos(100 * SECOND));
    }

    #[test]
    fn one_that_presses_ends_a_turn_once_it_has_lasted_the_least() {
        let presses = Time(90 * SECOND);
        let moment = Moment {
            presses,
            ..moment()
        };
        assert_eq!(turn(&batch(100), &batch(100), &moment), 200);
    }

    #[test]
    fn the_gpu_is_kept_for_those_that_come_back_soon() {
        let keeps = |pause: Option<u64>| {
            let pause = pause.map(|millis| Nanos(millis * MS));
            let holder = Standing {
                pause,
                ..batch(100)
            };
            FAIR.keeps(&holder, &moment()).0 / MS
        };
        assert_eq!(
            [
                keeps(None),
                keeps(Some(0)),
                keeps(Some(20)),
                keeps(Some(300))
            ],
            [0, 5, 80, 400]
        );
    }
}
