//! mᴰ over time: it falls at once and rises when it is sure to stay, so that noise replans nothing.

use rtswap_policy::units::{Bytes, Nanos, Time};

/// How long more must have been there before it is handed out.
const STEADY: Nanos = Nanos(250_000_000);

/// What the scheduler was told last, and what it may be told next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    told: Bytes,
    /// Since when there is more, and the least that there was since.
    more: Option<(Time, Bytes)>,
}

impl Capacity {
    /// Begins with what the scheduler begins with.
    pub fn new(told: Bytes) -> Self {
        Self { told, more: None }
    }

    /// Whether there is more than the scheduler was told.
    pub fn is_rising(&self) -> bool {
        self.more.is_some()
    }

    /// Nobody tells whether there is still more.
    pub fn rise_no_more(&mut self) {
        self.more = None;
    }

    /// What to tell the scheduler, now that there are `bytes`.
    pub fn update(&mut self, now: Time, bytes: Bytes) -> Option<Bytes> {
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
    fn more_that_nobody_has_seen_since_is_no_more() {
        let mut capacity = Capacity::new(Bytes(100));
        capacity.update(at(0), Bytes(60));
        capacity.update(at(1), Bytes(100));
        assert!(capacity.is_rising());
        capacity.rise_no_more();
        assert!(!capacity.is_rising());
        assert_eq!(capacity.update(at(900), Bytes(100)), None, "seen once");
    }

    #[test]
    fn who_comes_and_goes_does_not_make_it_rise() {
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
