//! Users by name, as /etc/passwd has them: the daemon reads no other.

use std::collections::BTreeMap;
use std::fs;

use crate::failure::Failure;

/// The names and numbers of users.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// The name that stands first for each number.
    names: BTreeMap<u32, String>,
    uids: BTreeMap<String, u32>,
}

impl Users {
    /// Those of this machine; none where they cannot be read.
    pub(super) fn read() -> Self {
        Self::parse(&fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    pub(super) fn parse(passwd: &str) -> Self {
        let mut users = Self::default();
        for line in passwd.lines() {
            let mut fields = line.split(':');
            let (name, uid) = (fields.next(), fields.nth(1));
            let uid = uid.and_then(|uid| uid.parse().ok());
            if let (Some(name), Some(uid)) = (name, uid) {
                users.names.entry(uid).or_insert_with(|| name.to_owned());
                users.uids.entry(name.to_owned()).or_insert(uid);
            }
        }
        users
    }

    /// The number of a user that is typed by name or number.
    pub(super) fn uid(&self, typed: &str) -> Result<u32, Failure> {
        let named = self.uids.get(typed).copied();
        let found = named.or_else(|| typed.parse().ok());
        found.ok_or_else(|| Failure::NoSuchUser(typed.to_owned()))
    }

    /// A user as people call it.
    pub(super) fn name(&self, uid: u32) -> String {
        let known = self.names.get(&uid).cloned();
        known.unwrap_or_else(|| uid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_known_by_name_or_number() {
        let users = Users::parse(
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\ntoor:x:0:0::/:/bin/sh\nbad\n",
        );
        let uid = |typed| users.uid(typed).map_err(|error| error.to_string());
        assert_eq!(
            (uid("ann"), uid("toor"), uid("7")),
            (Ok(1000), Ok(0), Ok(7))
        );
        assert_eq!(
            uid("bob"),
            Err("user \"bob\" is not in /etc/passwd; its number does as well".into())
        );
        assert!(uid("-1").is_err() && uid("4294967296").is_err());
        assert_eq!((users.name(0), users.name(7)), ("root".into(), "7".into()));
    }
}
