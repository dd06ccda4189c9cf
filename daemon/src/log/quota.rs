//! How many lines the log takes about users: the daemon's own lines and root's always, those about all other
//! users together at most 20 a second with the line that counts the rest. A user has at most half of what the others
//! leave, and each kind of line half of what the user's other kinds leave: so a flood hides neither other
//! users nor other kinds of lines. Subordinate ids are their user's.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rtswap_engine::owners::Subordinates;

/// In the place of a user that is not known. No user has this number.
pub(crate) const ANYBODY: u32 = u32::MAX;

const SPAN: Duration = Duration::from_secs(1);

/// Lines in one [`SPAN`]; one more says what was left out.
const LINES: u32 = 19;

/// The most users that are told apart. All others' lines are left out, and counted together.
const USERS: usize = 64;

/// The most users that the line about left-out lines names.
const NAMED: usize = 8;

/// The lines about users in the present span, and what was left out since that was last said.
#[derive(Debug)]
pub(super) struct Quota {
    since: Instant,
    users: BTreeMap<u32, User>,
    left_out: BTreeMap<u32, u64>,
    /// Of users beyond [`USERS`].
    left_out_of_others: u64,
    subordinates: Subordinates,
}

/// The lines about one user.
#[derive(Debug, Default)]
struct User {
    lines: u32,
    kinds: BTreeMap<&'static str, u32>,
}

impl Quota {
    /// Begins the first span.
    pub(super) fn new(now: Instant, subordinates: Subordinates) -> Self {
        Self {
            since: now,
            users: BTreeMap::new(),
            left_out: BTreeMap::new(),
            left_out_of_others: 0,
            subordinates,
        }
    }

    /// Takes the permission for a line of that kind about the user `uid`. Where there is none, the line is
    /// counted as left out.
    pub(super) fn take(&mut self, now: Instant, uid: u32, kind: &'static str) -> bool {
        let uid = self.subordinates.user(uid);
        if uid == 0 {
            return true;
        }
        if now.saturating_duration_since(self.since) >= SPAN {
            self.since = now;
            self.users.clear();
        }
        let others = self.users.iter().filter(|(other, _)| **other != uid);
        let others: u32 = others.map(|(_, user)| user.lines).sum();
        let share = LINES.saturating_sub(others).div_ceil(2);
        let is_known = self.users.contains_key(&uid);
        if share == 0 || (!is_known && self.users.len() >= USERS) {
            self.leave_out(uid);
            return false;
        }
        let user = self.users.entry(uid).or_default();
        let lines = user.kinds.get(kind).copied().unwrap_or_default();
        let left = share.saturating_sub(user.lines - lines);
        if lines >= left.div_ceil(2) {
            self.leave_out(uid);
            return false;
        }
        user.lines += 1;
        user.kinds.insert(kind, lines + 1);
        true
    }

    fn leave_out(&mut self, uid: u32) {
        let is_full = self.left_out.len() >= USERS;
        match self.left_out.get_mut(&uid) {
            Some(lines) => *lines += 1,
            None if is_full => self.left_out_of_others += 1,
            None => drop(self.left_out.insert(uid, 1)),
        }
    }

    /// What was left out, in words, once the span in which it was is over; none if nothing was.
    pub(super) fn summary(&mut self, now: Instant) -> Option<String> {
        let is_over = now.saturating_duration_since(self.since) >= SPAN;
        if !is_over || (self.left_out.is_empty() && self.left_out_of_others == 0) {
            return None;
        }
        self.since = now;
        self.users.clear();
        let mut users: Vec<_> = std::mem::take(&mut self.left_out).into_iter().collect();
        users.sort_by_key(|(_, lines)| Reverse(*lines));
        let others = users
            .iter()
            .skip(NAMED)
            .map(|(_, lines)| lines)
            .sum::<u64>();
        let others = others + std::mem::take(&mut self.left_out_of_others);
        let mut text = "… ".to_owned();
        for (at, (uid, lines)) in users.iter().take(NAMED).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = match *uid {
                ANYBODY => write!(text, "{comma}{lines} more of unknown users"),
                uid => write!(text, "{comma}{lines} more of user {uid}"),
            };
        }
        if others > 0 {
            // Some are named: others are counted only beside them.
            let _ = write!(text, ", {others} more of other users");
        }
        text.push_str(" left out");
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use rtswap_engine::owners::Subordinate;

    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let start = Instant::now();
        let mut quota = Quota::new(start, Subordinates::default());
        let flood = |quota: &mut Quota, at: Instant| {
            (0..18_000)
                .filter(|_| quota.take(at, 1_000, "info"))
                .count()
        };
        assert_eq!(flood(&mut quota, start), 5);
        assert_eq!(quota.summary(start), None, "the span is not over");
        assert!(quota.take(start, 1_000, "overrun"), "another kind has room");
        assert!(quota.take(start, 1_001, "info"), "another user has room");
        assert!(
            (0..1_000).all(|_| quota.take(start, 0, "info")),
            "root is not limited"
        );
        let next = start + SPAN;
        assert_eq!(
            quota.summary(next).unwrap(),
            "… 17995 more of user 1000 left out"
        );
        assert_eq!(quota.summary(next + SPAN), None);
        assert_eq!(flood(&mut quota, next + SPAN), 5);
    }

    #[test]
    fn subordinate_ids_have_the_lines_of_their_user() {
        let start = Instant::now();
        let range = Subordinate {
            first: 100_000,
            count: 65_536,
            user: 1_000,
        };
        let mut quota = Quota::new(start, Subordinates::new(vec![range]));
        let taken = (100_000..100_100).filter(|uid| quota.take(start, *uid, "info"));
        assert_eq!(taken.count(), 5);
        assert!(!quota.take(start, 1_000, "info"));
        assert!(quota.take(start, 1_001, "info"));
        let summary = quota.summary(start + SPAN).unwrap();
        assert_eq!(summary, "… 96 more of user 1000 left out");
    }

    #[test]
    fn all_users_together_have_no_more_than_the_lines_of_a_span() {
        let start = Instant::now();
        let mut quota = Quota::new(start, Subordinates::default());
        let kinds = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut taken = 0;
        for _ in 0..10 {
            for uid in 1..10_000 {
                taken += kinds
                    .iter()
                    .filter(|kind| quota.take(start, uid, kind))
                    .count();
            }
        }
        assert_eq!(taken, LINES as usize);
        assert!(quota.users.len() <= USERS && quota.left_out.len() <= USERS);
        let summary = quota.summary(start + SPAN).unwrap();
        assert_eq!(summary.matches("of user ").count(), NAMED, "{summary}");
        assert!(
            summary.ends_with(" more of other users left out"),
            "{summary}"
        );
    }
}
