//! How much strangers may make the daemon write into its log.

use rtswap_policy::units::{Nanos, Time};

/// Lines in one [`SPAN`].
const LINES: u32 = 20;

const SPAN: Nanos = Nanos(1_000_000_000);

/// Lines about strangers. Those beyond the limit are not written, but counted: the first line of
/// the next span tells their number.
#[derive(Clone, Debug, Default)]
pub struct Quota {
    since: Time,
    used: u32,
}

/// The permission for one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The lines of the span before that were not written.
    pub unsaid: u32,
}

impl Quota {
    /// Takes the permission for one more line at `now`; none where the span has had its lines.
    pub fn take(&mut self, now: Time) -> Option<Permit> {
        let mut unsaid = 0;
        if now - self.since >= SPAN {
            unsaid = self.used.saturating_sub(LINES);
            *self = Self {
                since: now,
                used: 0,
            };
        }
        self.used = self.used.saturating_add(1);
        (self.used <= LINES).then_some(Permit { unsaid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_the_next_span_is_free() {
        let mut quota = Quota::default();
        let start = Time(5_000_000_000);
        let permits = (0..1000).filter_map(|at| quota.take(Time(start.0 + at)));
        assert_eq!(permits.count(), LINES as usize);
        let next = quota.take(start + SPAN);
        assert_eq!(next, Some(Permit { unsaid: 980 }));
    }
}
