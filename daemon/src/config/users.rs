//! Users as the machine's files have them: names, and the ids that were given to them.

use std::fs;

use rtswap_engine::owners::{Subordinate, Subordinates};
use serde::Deserialize;

/// A user in a file, by name or number.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a user is a name in quotes or a number")]
pub(super) enum User {
    Id(u32),
    Name(String),
}

impl User {
    /// Its number; the text of what is wrong if it has none.
    pub(super) fn uid(&self) -> Result<u32, String> {
        match self {
            Self::Id(uid) => Ok(*uid),
            Self::Name(name) => uid_of(name).ok_or_else(|| {
                format!("user {name:?} is not in /etc/passwd; its number does as well")
            }),
        }
    }
}

/// The id of a user by name; none if /etc/passwd has no such user.
fn uid_of(name: &str) -> Option<u32> {
    uid_in(&fs::read_to_string("/etc/passwd").ok()?, name)
}

/// The ids that /etc/subuid gives to users: containers without root run under these. None where the file
/// cannot be read; then each of them counts as a user of its own.
pub fn subordinates() -> Subordinates {
    let subuid = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    subordinates_in(&subuid, &passwd)
}

fn uid_in(passwd: &str, name: &str) -> Option<u32> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        fields.nth(1)?.parse().ok()
    })
}

/// From the texts of both files: lines of `USER:FIRST:COUNT`, where USER is a name or an id (subuid(5)).
fn subordinates_in(subuid: &str, passwd: &str) -> Subordinates {
    let ranges = subuid.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (user, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Subordinate {
            first: first.parse().ok()?,
            count: count.parse().ok()?,
            user: uid_in(passwd, user).or_else(|| user.parse().ok())?,
        })
    });
    Subordinates::new(ranges.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_by_name_and_by_id() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\n";
        let subuid = "ann:100000:65536\n1001:165536:65536\nnobody-known:300000:9\n# none\n\nx:y\n";
        let all = subordinates_in(subuid, passwd);
        let users = [100_000, 165_535, 165_536, 300_000].map(|uid| all.user(uid));
        assert_eq!(users, [1000, 1000, 1001, 300_000]);
    }
}
