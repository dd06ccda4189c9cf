//! How late the host ran a thread that wanted to run again and again: it made its processes as late.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

const DAY: Duration = Duration::from_hours(24);

/// The lateness of a thread that slept window after window.
pub struct Stalls {
    /// Stalls within this time add up: each chunk that is swapped in it waits for a processor again.
    span: Duration,
    /// The ends of the windows as times of the day (UTC), and the lateness of each.
    windows: Vec<(Duration, Duration)>,
}

impl Stalls {
    /// No stall yet.
    #[must_use]
    pub const fn new(span: Duration) -> Self {
        let windows = Vec::new();
        Self { span, windows }
    }

    /// Notes that a window has just ended, this much too late.
    pub fn record(&mut self, late: Duration) {
        // A clock before 1970 is as good as any: both ends read it.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.windows
            .push((time_of_day(now.unwrap_or_default()), late));
    }

    /// The lateness in the span that ended at this time of the day, and shortly after: a consequence may be
    /// logged before the thread that measures runs again.
    #[must_use]
    pub fn before(&self, time: Duration) -> Duration {
        let slack = self.span / 8;
        let is_near = |end: Duration| {
            let until = time + slack + DAY;
            time_of_day(until.saturating_sub(end)) <= self.span + slack
        };
        let near = self.windows.iter().filter(|(end, _)| is_near(*end));
        near.map(|(_, late)| *late).sum()
    }

    /// How many windows were recorded.
    #[cfg(test)]
    pub(crate) fn windows(&self) -> usize {
        self.windows.len()
    }

    /// The lateness in the worst span.
    #[must_use]
    pub fn worst(&self) -> Duration {
        let ends = self.windows.iter().map(|(end, _)| self.before(*end));
        ends.max().unwrap_or_default()
    }
}

impl fmt::Debug for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (worst, span) = (self.worst(), self.span);
        write!(f, "{worst:?} in the worst {span:?}")
    }
}

fn time_of_day(since: Duration) -> Duration {
    Duration::new(since.as_secs() % DAY.as_secs(), since.subsec_nanos())
}

/// The time of the day (UTC) at which the daemon logged a line: `2026-01-31T23:59:59.123456Z  WARN …`.
///
/// # Errors
/// The line begins otherwise.
pub fn logged_at(line: &str) -> Result<Duration> {
    let parse = || {
        let (_, time) = line.split_once('T')?;
        let (time, _) = time.split_once('Z')?;
        let mut parts = time.split(':');
        let mut next = || parts.next()?.parse::<f64>().ok();
        let (hours, minutes, seconds) = (next()?, next()?, next()?);
        Duration::try_from_secs_f64(hours * 3600.0 + minutes * 60.0 + seconds).ok()
    };
    parse().with_context(|| format!("no time at the beginning of {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SPAN: Duration = Duration::from_millis(400);

    fn stalls(windows: &[(Duration, Duration)]) -> Stalls {
        Stalls {
            span: SPAN,
            windows: windows.to_vec(),
        }
    }

    #[test]
    fn stalls_of_one_span_add_up() {
        let noon = DAY / 2;
        let stalls = stalls(&[
            (noon + 10 * MS, 30 * MS),
            (noon + 200 * MS, 20 * MS),
            (noon + 900 * MS, 40 * MS),
        ]);
        assert_eq!(stalls.before(noon + 300 * MS), 50 * MS);
        assert_eq!(stalls.before(noon + 700 * MS), Duration::ZERO);
        assert_eq!(stalls.before(noon + 900 * MS), 40 * MS);
        assert_eq!(stalls.before(noon), 30 * MS, "logged first");
        assert_eq!(stalls.worst(), 50 * MS);
    }

    #[test]
    fn a_day_may_end_between_a_stall_and_its_consequence() {
        let stalls = stalls(&[(Duration::from_millis(86_399_900), 70 * MS)]);
        assert_eq!(stalls.before(50 * MS), 70 * MS);
    }

    #[test]
    fn a_line_of_the_log_tells_its_time() {
        let line = "2026-01-31T13:04:05.250000Z  WARN rtswapd: deadline missed";
        let at = Duration::from_secs(13 * 3600 + 4 * 60 + 5) + 250 * MS;
        assert_eq!(logged_at(line).unwrap(), at);
        assert!(logged_at("WARN without a time").is_err());
    }
}
