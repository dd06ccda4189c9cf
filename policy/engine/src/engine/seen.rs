//! What a look at memory shows of what is pinned. Stores are pinned while nobody looks, and a look takes its time:
//! what is known to be pinned is not all that a look has seen, nor the other way round.

use rtswap_policy::units::{Bytes, Time};

/// Memory that was looked at: that of the machine, or of a cgroup with a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// What was available.
    available: Bytes,
    /// What of all stores was certainly pinned by then, and so is not available.
    pinned: Bytes,
    /// What was available when no store had an order that the look might not have seen.
    settled: Bytes,
    /// What stores were known to have pinned at the look before.
    before: Bytes,
}

/// What stores have pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pinned {
    pub(super) bytes: Bytes,
    /// With what agents were told to pin and have not answered.
    pub(super) ordered: Bytes,
    /// When an agent said last that it had pinned more.
    pub(super) since: Time,
}

impl Seen {
    /// A first look, which shows all of these stores.
    pub(super) fn first(available: Bytes, pinned: Bytes) -> Self {
        Self {
            available,
            pinned,
            settled: available,
            before: pinned,
        }
    }

    /// Takes in a look that began at `looked`.
    pub(super) fn look(&mut self, looked: Time, available: Bytes, stores: Pinned) {
        let certain = if looked < stores.since {
            stores.bytes.min(self.before)
        } else {
            stores.bytes
        };
        let uncertain = stores.ordered.saturating_sub(certain);
        self.settled = if uncertain == Bytes::ZERO {
            available
        } else {
            self.settled.max(available)
        };
        // What is missing since then was pinned. If others took it, less is left to pin, which is safe.
        let shown = uncertain.min(self.settled.saturating_sub(available));
        self.pinned = certain + shown;
        self.available = available;
        self.before = stores.bytes;
    }

    /// What stores may have pinned together beside `reserve`, if `ordered` is what they have, or were told to.
    pub(super) fn most_pinned(&self, reserve: Bytes, ordered: Bytes) -> Bytes {
        // What was given back since is not known to be available.
        self.available.saturating_sub(reserve) + self.pinned.min(ordered)
    }

    /// Stores of so many bytes are no longer among those that are counted, or are from now on.
    pub(super) fn uncount(&mut self, pinned: Bytes) {
        self.pinned = self.pinned.saturating_sub(pinned);
        self.before = self.before.saturating_sub(pinned);
    }

    /// Stores of so many bytes, pinned before the look, are among those that are counted.
    pub(super) fn count(&mut self, pinned: Bytes) {
        self.pinned += pinned;
        self.before += pinned;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores(bytes: u64, ordered: u64, since: u64) -> Pinned {
        Pinned {
            bytes: Bytes(bytes),
            ordered: Bytes(ordered),
            since: Time(since),
        }
    }

    /// What can be pinned besides what is ordered.
    fn left(seen: &Seen, ordered: u64) -> u64 {
        let most = seen.most_pinned(Bytes(10), Bytes(ordered));
        most.saturating_sub(Bytes(ordered)).0
    }

    #[test]
    fn what_is_pinned_counts_once() {
        let mut seen = Seen::first(Bytes(100), Bytes::ZERO);
        assert_eq!(left(&seen, 0), 90);
        assert_eq!(left(&seen, 30), 60, "ordered since");
        // A third of it is pinned, then half, then all.
        for pinned in [10, 15, 30] {
            seen.look(Time(5), Bytes(100 - pinned), stores(0, 30, 0));
            assert_eq!(left(&seen, 30), 60);
        }
        // Its agent says so.
        assert_eq!(left(&seen, 30), 60);
        seen.look(Time(7), Bytes(70), stores(30, 30, 6));
        assert_eq!(left(&seen, 30), 60);
    }

    #[test]
    fn a_look_from_before_shows_no_more_than_was_known_then() {
        let mut seen = Seen::first(Bytes(100), Bytes::ZERO);
        seen.look(Time(5), Bytes(100), stores(30, 30, 6));
        assert_eq!(left(&seen, 30), 60);
        // It has seen all of it, or others took as much: then less is left until the next look.
        seen.look(Time(5), Bytes(70), stores(30, 30, 6));
        assert_eq!(left(&seen, 30), 60);
    }

    #[test]
    fn what_others_take_is_not_left() {
        let mut seen = Seen::first(Bytes(100), Bytes::ZERO);
        seen.look(Time(5), Bytes(60), stores(0, 30, 0));
        assert!(left(&seen, 30) <= 60 - 10);
        seen.look(Time(6), Bytes(60), stores(0, 0, 0));
        assert_eq!(left(&seen, 0), 50);
    }

    #[test]
    fn what_is_given_back_counts_once_it_is_seen() {
        let mut seen = Seen::first(Bytes(100), Bytes(50));
        assert_eq!(left(&seen, 50), 90);
        // It was seen to be free, and its agent says so only now.
        seen.look(Time(5), Bytes(150), stores(50, 50, 0));
        assert_eq!(left(&seen, 0), 140);
        seen.look(Time(6), Bytes(150), stores(0, 0, 0));
        assert_eq!(left(&seen, 0), 140);
    }
}
