//! The capacity mᴰ over time: it falls at once, and rises once the rise has lasted, so that noise
//! causes no new plan.

use rtswap_policy::units::{Bytes, Nanos, Time};

/// How long memory must have been free before it is handed out.
const STEADY: Nanos = Nanos(250_000_000);

/// The capacity that the scheduler was told last, and the one that it may be told next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    told: Bytes,
    /// Since when there has been more, and the least there was since.
    more: Option<(Time, Bytes)>,
}

impl Capacity {
    /// Begins with the capacity in bytes that the scheduler begins with.
    pub(super) fn new(told: Bytes) -> Self {
        Self { told, more: None }
    }

    /// Whether there is more than the scheduler was told last.
    pub(super) fn is_rising(&self) -> bool {
        self.more.is_some()
    }

    /// Forgets a rise, because no witness tells whether it lasts.
    pub(super) fn stop_rising(&mut self) {
        self.more = None;
    }

    /// Records that there are `bytes`; returns the new capacity where the scheduler must be told.
    pub(super) fn update(&mut self, now: Time, bytes: Bytes) -> Option<Bytes> {
        if bytes <= self.told {
            self.more = None;
            let fell = bytes < self.told;
            self.told = bytes;
            return fell.then_some(bytes);
        }
        let (since, least) = self.more.unwrap_or((now, bytes));
        let least = least.min(bytes);
        self.more = Some((since, least));
        if now - since < STEADY {
            return None;
        }
        self.told = least;
        self.more = None;
        Some(least)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn it_falls_at_once_and_rises_when_it_stays() {
        let mut capacity = Capacity::new(Bytes(100));
        assert_eq!(capacity.update(at(0), Bytes(100)), None);
        assert_eq!(capacity.update(at(1), Bytes(60)), Some(Bytes(60)));
        assert_eq!(capacity.update(at(2), Bytes(100)), None);
        assert_eq!(capacity.update(at(100), Bytes(80)), None);
        assert_eq!(capacity.update(at(251), Bytes(100)), None, "not yet");
        assert_eq!(
            capacity.update(at(252), Bytes(100)),
            Some(Bytes(80)),
            "the least of the time"
        );
    }

    #[test]
    fn a_rise_that_no_sample_confirms_is_forgotten() {
        let mut capacity = Capacity::new(Bytes(100));
        capacity.update(at(0), Bytes(60));
        capacity.update(at(1), Bytes(100));
        assert!(capacity.is_rising());
        capacity.stop_rising();
        assert!(!capacity.is_rising());
        assert_eq!(capacity.update(at(900), Bytes(100)), None, "seen once");
    }

    #[test]
    fn memory_that_comes_and_goes_does_not_make_it_rise() {
        let mut capacity = Capacity::new(Bytes(100));
        let told: Vec<_> = (0..100)
            .filter_map(|look| {
                let bytes = Bytes(if look % 2 == 0 { 60 } else { 100 });
                capacity.update(at(look * 200), bytes)
            })
            .collect();
        assert_eq!(told, [Bytes(60)]);
    }
}
