//! Amounts of time over the last one to two minutes.

use crate::units::{Nanos, Ppm, Time};

/// The length of the present part, and of the one before.
const PART: Nanos = Nanos(60_000_000_000);

/// What a task had of something in the present part and in the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    /// When the present part began.
    since: Time,
    now: Nanos,
    /// None before the first part has ended.
    before: Option<Nanos>,
}

impl Recent {
    /// Counted from `since` on.
    pub(crate) fn from(since: Time) -> Self {
        Self {
            since,
            ..Self::default()
        }
    }

    /// As it is at `now`.
    fn at(self, now: Time) -> Self {
        let parts = (now - self.since).0 / PART.0;
        let since = self.since + Nanos(parts.saturating_mul(PART.0));
        match parts {
            0 => self,
            1 => Self {
                since,
                now: Nanos::ZERO,
                before: Some(self.now),
            },
            _ => Self {
                since,
                now: Nanos::ZERO,
                before: Some(Nanos::ZERO),
            },
        }
    }

    /// It had `span` more, which ends `now`.
    pub(crate) fn add(&mut self, now: Time, span: Nanos) {
        *self = self.at(now);
        let ended = span.min(now - self.since);
        self.now += ended;
        if let Some(before) = &mut self.before {
            *before += (span.saturating_sub(ended)).min(PART);
        }
    }

    /// It had `span`, of which the longest counts.
    pub(crate) fn note(&mut self, now: Time, span: Nanos) {
        *self = self.at(now);
        self.now = self.now.max(span);
    }

    /// The part of the time until `now` that it had.
    pub(crate) fn share(self, now: Time) -> Ppm {
        let this = self.at(now);
        let before = this.before.map_or(Nanos::ZERO, |_| PART);
        let time = u128::from((now - this.since + before).0.max(1));
        let had = u128::from((this.now + this.before.unwrap_or_default()).0);
        let share = (had * u128::from(Ppm::ONE.0) / time).min(u128::from(Ppm::ONE.0));
        Ppm(share as u32)
    }

    /// The longest that was noted.
    pub(crate) fn longest(self, now: Time) -> Nanos {
        let this = self.at(now);
        this.now.max(this.before.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn time(seconds: u64) -> Time {
        Time(seconds * SECOND)
    }

    #[test]
    fn a_share_is_of_the_time_that_there_was() {
        let mut recent = Recent::from(time(100));
        recent.add(time(110), Nanos(5 * SECOND));
        assert_eq!(recent.share(time(110)), Ppm(500_000));
        assert_eq!(recent.share(time(120)), Ppm(250_000));
        // The first part has ended, with 5 s in 60.
        assert_eq!(recent.share(time(160)), Ppm(83_333));
        recent.add(time(180), Nanos(15 * SECOND));
        assert_eq!(recent.share(time(180)), Ppm(250_000));
        assert_eq!(recent.share(time(400)), Ppm(0));
    }

    #[test]
    fn what_began_before_the_present_part_counts_for_the_one_before() {
        let mut recent = Recent::from(time(0));
        recent.add(time(610), Nanos(605 * SECOND));
        assert_eq!(recent.share(time(610)), Ppm(1_000_000));
        assert_eq!(recent.share(time(640)), Ppm(700_000), "70 s of 100");
        assert_eq!(recent.share(time(670)), Ppm(142_857), "10 s of 70");
    }

    #[test]
    fn the_longest_is_forgotten_after_two_parts() {
        let mut recent = Recent::from(time(0));
        recent.note(time(10), Nanos(7));
        recent.note(time(20), Nanos(3));
        assert_eq!(recent.longest(time(119)), Nanos(7));
        assert_eq!(recent.longest(time(120)), Nanos(0));
    }
}
