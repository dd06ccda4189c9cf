//! Who answers for a process: shares and penalties are an owner's, so that neither many processes nor many
//! user ids multiply them.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Who answers for a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A user, for the subordinate ids too that were given to that user.
    User(u32),
    /// The container or unit of a process of root.
    Unit(String),
}

impl Owner {
    /// The user whose rules hold for it: root for a container or unit of root.
    pub fn uid(&self) -> u32 {
        match self {
            Self::User(uid) => *uid,
            Self::Unit(_) => 0,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Unit(name) => f.write_str(name),
        }
    }
}

/// A range of user ids that was given to a user (subuid(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subordinate {
    /// The first id.
    pub first: u32,
    /// How many there are.
    pub count: u32,
    /// The user that they were given to.
    pub user: u32,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subordinates(Vec<Subordinate>);

impl Subordinates {
    /// In any order. Where ranges overlap, the one that begins last counts. Ids that were given to root are
    /// strangers all the same: containers without root's rights run under these.
    pub fn new(mut ranges: Vec<Subordinate>) -> Self {
        ranges.retain(|range| range.user != 0);
        ranges.sort_by_key(|range| range.first);
        Self(ranges)
    }

    /// The user behind a user id: the one that it was given to as a subordinate id, or the id itself.
    pub fn user(&self, uid: u32) -> u32 {
        let after = self.0.partition_point(|range| range.first <= uid);
        let mut before = self.0[..after].iter().rev();
        let range = before.find(|range| uid - range.first < range.count);
        range.map_or(uid, |range| range.user)
    }
}

/// Whether somebody with `own` of what there is `most` of may have one more, while all together have
/// `taken`: at most half of what the others leave.
pub(crate) fn has_room(own: usize, taken: usize, most: usize) -> bool {
    let others = taken.saturating_sub(own);
    own < most.saturating_sub(others) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subordinate_ids_are_their_users() {
        let range = |first, count, user| Subordinate { first, count, user };
        let all = [range(200_000, 65_536, 8), range(100_000, 65_536, 7)];
        let all = Subordinates::new(all.into());
        assert_eq!([0, 7, 99_999].map(|uid| all.user(uid)), [0, 7, 99_999]);
        assert_eq!([100_000, 165_535].map(|uid| all.user(uid)), [7, 7]);
        assert_eq!([165_536, 200_001].map(|uid| all.user(uid)), [165_536, 8]);
    }

    #[test]
    fn ranges_may_lie_in_others_and_root_s_are_nobody_s() {
        let range = |first, count, user| Subordinate { first, count, user };
        let all = [range(100, 100, 7), range(110, 1, 8), range(1_000, 100, 0)];
        let all = Subordinates::new(all.into());
        assert_eq!([110, 120, 1_001].map(|uid| all.user(uid)), [8, 7, 1_001]);
    }

    #[test]
    fn nobody_takes_more_than_half_of_what_others_leave() {
        let take = |own: &mut usize, taken: &mut usize| {
            while has_room(*own, *taken, 1_000) {
                (*own, *taken) = (*own + 1, *taken + 1);
            }
        };
        let (mut one, mut another, mut taken) = (0, 0, 0);
        take(&mut one, &mut taken);
        take(&mut another, &mut taken);
        assert_eq!((one, another), (500, 250));
        assert!(has_room(0, taken, 1_000), "a third finds room");
    }
}
