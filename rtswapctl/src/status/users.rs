//! What each user has of the host.

use std::collections::BTreeMap;

use rtswap_dbus::objects::Objects;
use serde::Serialize;

use crate::table::bytes;

/// The sums over the tasks of one user.
#[derive(Debug, Serialize)]
pub(super) struct User {
    uid: u32,
    tasks: usize,
    /// The pinned host memory of their backing stores.
    backing_bytes: u64,
}

impl User {
    /// One entry for each user with tasks that the caller may see, by user number.
    pub(super) fn all(objects: &Objects) -> Vec<Self> {
        let mut users = BTreeMap::new();
        for (_, task) in &objects.tasks {
            let (tasks, backing_bytes) = users.entry(task.user_id).or_insert((0, 0_u64));
            *tasks += 1;
            *backing_bytes += task.backing_bytes;
        }
        let users = users.into_iter();
        users
            .map(|(uid, (tasks, backing_bytes))| Self {
                uid,
                tasks,
                backing_bytes,
            })
            .collect()
    }

    /// One line; empty if no user has pinned host memory.
    pub(super) fn text(users: &[Self]) -> String {
        let users = users.iter().filter(|user| user.backing_bytes > 0);
        let users: Vec<_> = users
            .map(|user| format!("{} of user {}", bytes(user.backing_bytes), user.uid))
            .collect();
        if users.is_empty() {
            return String::new();
        }
        format!("\npinned host memory: {}\n", users.join(", "))
    }
}
