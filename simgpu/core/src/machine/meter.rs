//! How busy something was of late, for who asks only now and then.
//!
//! Nobody samples: the first reservation of each 67 ms leaves a mark of how
//! things stood before it. Nothing was reserved between the start of such a
//! span and its mark, so what was carried out up to that start follows exactly.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// A span is 2^26 ns.
const SPAN_SHIFT: u32 = 26;
/// As many spans as are remembered; [`Meter::lately`] looks over all of them.
const SPANS: u64 = 16;
/// In `Mark::span`: somebody is about to write the other words.
const WRITING: u64 = 1 << 63;

/// The time reserved of something, and how that stood of late. In shared memory.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(super) struct Meter {
    now: Reserved<AtomicU64>,
    marks: [Mark; SPANS as usize],
}

/// What is reserved, at some instant; all in ns.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct Reserved<T> {
    /// All time ever reserved.
    total: T,
    /// From where on all time up to `until` is reserved, if that is ahead.
    from: T,
    until: T,
}

#[repr(C)]
#[derive(Debug, Default)]
struct Mark {
    /// Which span it belongs to, counted from boot.
    span: AtomicU64,
    before: Reserved<AtomicU64>,
}

/// Busy time within the last second or so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lately {
    /// How long it was busy, ns.
    pub busy_ns: u64,
    /// Out of how long, ns: from 1.00 to 1.08 s.
    pub window_ns: u64,
}

impl Lately {
    /// The share in whole percent; what is not idle shows as 1 at least.
    pub fn percent(self) -> u32 {
        let percent = u128::from(self.busy_ns) * 100 / u128::from(self.window_ns.max(1));
        (percent as u32).clamp(u32::from(self.busy_ns > 0), 100)
    }
}

impl Reserved<u64> {
    /// What of it was carried out by `at_ns`.
    fn carried_out(self, at_ns: u64) -> u64 {
        let ahead = self.until.saturating_sub(at_ns.max(self.from));
        self.total.saturating_sub(ahead)
    }
}

impl Reserved<AtomicU64> {
    fn load(&self) -> Reserved<u64> {
        Reserved {
            total: self.total.load(Relaxed),
            from: self.from.load(Relaxed),
            until: self.until.load(Relaxed),
        }
    }

    fn store(&self, values: Reserved<u64>) {
        self.total.store(values.total, Relaxed);
        self.from.store(values.from, Relaxed);
        self.until.store(values.until, Relaxed);
    }
}

impl Meter {
    /// As of new.
    pub(super) fn clear(&self) {
        self.now.store(Reserved::default());
        for mark in &self.marks {
            mark.span.store(0, Relaxed);
        }
    }

    /// Up to when time is reserved, ns: the word that reservations of an engine race for.
    pub(super) fn until_ns(&self) -> &AtomicU64 {
        &self.now.until
    }

    /// All time ever reserved, ns.
    pub(super) fn total_ns(&self) -> u64 {
        self.now.total.load(Relaxed)
    }

    /// Counts a reservation that was made by moving [`Meter::until_ns`].
    pub(super) fn count(&self, duration_ns: u64) {
        self.now.total.fetch_add(duration_ns, Relaxed);
    }

    /// Counts a reservation of which the newest alone is remembered: for one of
    /// several who share an engine, whose reservations need not touch.
    pub(super) fn count_span(&self, from_ns: u64, until_ns: u64) {
        self.now.from.store(from_ns, Relaxed);
        self.now.until.store(until_ns, Relaxed);
        self.count(until_ns - from_ns);
    }

    /// To be called before anything is reserved.
    ///
    /// Two that reserve in the same few ns of a span's beginning may see each
    /// other half done; the figure is then off by one reservation, for a second.
    pub(super) fn mark(&self, now_ns: u64) {
        let span = now_ns >> SPAN_SHIFT;
        let mark = self.mark_of(span);
        let seen = mark.span.load(Relaxed);
        // Who is killed while writing leaves the mark to the next span but 15.
        let is_taken = seen & !WRITING >= span;
        if is_taken
            || mark
                .span
                .compare_exchange(seen, span | WRITING, AcqRel, Relaxed)
                .is_err()
        {
            return;
        }
        mark.before.store(self.now.load());
        mark.span.store(span, Release);
    }

    /// What was carried out in the 15 whole spans before `now_ns`' own, and in that.
    pub(super) fn lately(&self, now_ns: u64) -> Lately {
        let last = now_ns >> SPAN_SHIFT;
        let first = last.saturating_sub(SPANS - 1);
        let start_ns = first << SPAN_SHIFT;
        let now = self.now.load();
        let before = (first..=last).find_map(|span| self.before(span));
        let before = before.unwrap_or(now).carried_out(start_ns);
        let window_ns = now_ns - start_ns;
        let busy_ns = now.carried_out(now_ns).saturating_sub(before);
        Lately {
            busy_ns: busy_ns.min(window_ns),
            window_ns,
        }
    }

    fn before(&self, span: u64) -> Option<Reserved<u64>> {
        let mark = self.mark_of(span);
        let is_of_span = || mark.span.load(Acquire) == span;
        let before = is_of_span().then(|| mark.before.load())?;
        fence(Acquire);
        is_of_span().then_some(before)
    }

    fn mark_of(&self, span: u64) -> &Mark {
        &self.marks[(span % SPANS) as usize]
    }
}

const _: () = assert!(size_of::<Meter>() == 576);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPAN: u64 = 1 << SPAN_SHIFT;
    const MS: u64 = 1_000_000;

    /// Reserves as an engine does; the span it got.
    fn reserve(meter: &Meter, now_ns: u64, duration_ns: u64) -> (u64, u64) {
        meter.mark(now_ns);
        let from = now_ns.max(meter.until_ns().load(Relaxed));
        meter.until_ns().store(from + duration_ns, Relaxed);
        meter.count(duration_ns);
        (from, from + duration_ns)
    }

    fn overlap((from, until): (u64, u64), start: u64, end: u64) -> u64 {
        until.min(end).saturating_sub(from.max(start))
    }

    proptest! {
        #[test]
        fn an_engines_share_is_exact_whatever_came_when(
            steps in prop::collection::vec((0..300 * MS, 0..200 * MS, any::<bool>()), 1..60),
        ) {
            let meter = Meter::default();
            let mut now = 100 * SPAN;
            let mut reserved = Vec::new();
            for (pause, duration, ask) in steps {
                now += pause;
                reserved.push(reserve(&meter, now, duration));
                if ask {
                    now += pause / 3;
                    let lately = meter.lately(now);
                    let start = now - lately.window_ns;
                    prop_assert!((15 * SPAN..16 * SPAN).contains(&lately.window_ns));
                    let busy: u64 = reserved.iter().map(|span| overlap(*span, start, now)).sum();
                    prop_assert_eq!(lately.busy_ns, busy);
                }
            }
        }

        #[test]
        fn one_of_several_is_exact_with_one_reservation_at_a_time(
            steps in prop::collection::vec((0..90 * MS, 0..90 * MS, 1..90 * MS), 1..60),
        ) {
            let meter = Meter::default();
            let mut now = 100 * SPAN;
            let mut reserved = Vec::new();
            for (pause, others, duration) in steps {
                now += pause;
                meter.mark(now);
                meter.count_span(now + others, now + others + duration);
                reserved.push((now + others, now + others + duration));
                now += others + duration / 2;
                let lately = meter.lately(now);
                let start = now - lately.window_ns;
                let busy: u64 = reserved.iter().map(|span| overlap(*span, start, now)).sum();
                prop_assert_eq!(lately.busy_ns, busy);
                now += duration.div_ceil(2);
            }
        }
    }

    #[test]
    fn idle_is_nothing_and_a_long_backlog_is_everything() {
        let meter = Meter::default();
        assert_eq!(meter.lately(200 * SPAN).percent(), 0);
        reserve(&meter, 200 * SPAN, 100 * SPAN);
        assert_eq!(meter.lately(216 * SPAN).percent(), 100);
        assert_eq!(meter.lately(299 * SPAN).percent(), 100);
        assert_eq!(meter.lately(316 * SPAN).percent(), 0);
    }

    #[test]
    fn a_writer_that_died_costs_its_mark_and_no_later_one() {
        let meter = Meter::default();
        meter.mark_of(200).span.store(WRITING + 200, Relaxed);
        reserve(&meter, 200 * SPAN, MS);
        assert!(meter.before(200).is_none());
        reserve(&meter, 216 * SPAN, MS);
        assert!(meter.before(216).is_some());
    }

    #[test]
    fn whatever_is_not_idle_shows() {
        let lately = |busy_ns| Lately {
            busy_ns,
            window_ns: 1000 * MS,
        };
        assert_eq!(lately(0).percent(), 0);
        assert_eq!(lately(1).percent(), 1);
        assert_eq!(lately(505 * MS).percent(), 50);
        assert_eq!(lately(1000 * MS).percent(), 100);
    }
}
