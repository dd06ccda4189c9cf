//! How much strangers may make the daemon write into its log.

use rtswap_policy::units::{Nanos, Time};

/// Lines in one [`SPAN`].
const LINES: u32 = 20;

const SPAN: Nanos = Nanos(1_000_000_000);

/// Lines about strangers. What is above is not written, but counted in the next span's first line.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    since: Time,
    used: u32,
}

impl Quota {
    /// Whether one more line may be written at `now`.
    pub(crate) fn allows(&mut self, now: Time) -> bool {
        if now - self.since >= SPAN {
            let unsaid = self.used.saturating_sub(LINES);
            if unsaid > 0 {
                tracing::warn!(unsaid, "more of the same");
            }
            *self = Self {
                since: now,
                used: 0,
            };
        }
        self.used = self.used.saturating_add(1);
        self.used <= LINES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_the_next_span_is_free() {
        let mut quota = Quota::default();
        let start = Time(5_000_000_000);
        let said = (0..1000)
            .filter(|at| quota.allows(Time(start.0 + at)))
            .count();
        assert_eq!(said, LINES as usize);
        assert!(quota.allows(start + SPAN));
    }
}
