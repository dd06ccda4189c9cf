//! What `Manager1.Policy` answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// The JSON of `policy get`, version 1.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Document {
    version: u32,
    pub(super) rules: Vec<Row>,
}

/// A rule, where it is said, and whether it holds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Row {
    /// `everybody`, `user` or `task`.
    scope: String,
    /// The user that it is for.
    user: Option<u32>,
    /// The task that it is for.
    task: Option<String>,
    pub(super) key: String,
    /// A word, or a number: a count, bytes or microseconds.
    pub(super) value: Value,
    pub(super) source: String,
    /// False where the same is said for the same scope in a place that goes before.
    pub(super) holds: bool,
}

/// Whom rules are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Everybody,
    User(u32),
    Task { uid: u32, name: String },
}

impl Document {
    /// Reads what the daemon answers.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        serde_json::from_str(text).map_err(Failure::Answer)
    }

    /// Keeps the rules that bear on a user or on a task; all of them for everybody.
    pub(super) fn keep_about(&mut self, target: &Target) {
        let Some(user) = target.uid() else {
            return;
        };
        self.rules.retain(|row| match row.target() {
            Target::Everybody => true,
            Target::User(uid) => uid == user,
            task @ Target::Task { uid, .. } => match target {
                Target::Task { .. } => task == *target,
                _ => uid == user,
            },
        });
    }
}

impl Row {
    /// Whom it is for.
    pub(super) fn target(&self) -> Target {
        match (self.user, &self.task) {
            (None, _) => Target::Everybody,
            (Some(uid), None) => Target::User(uid),
            (Some(uid), Some(name)) => Target::Task {
                uid,
                name: name.clone(),
            },
        }
    }
}

impl Target {
    /// The user; none if it is everybody.
    pub(super) fn uid(&self) -> Option<u32> {
        match self {
            Self::Everybody => None,
            Self::User(uid) | Self::Task { uid, .. } => Some(*uid),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Rules of all scopes and sources.
    pub(in crate::policy) const ANSWER: &str = r#"{"version":1,"rules":[
        {"scope":"everybody","user":null,"task":null,"key":"max_tasks","value":64,"source":"policy.toml","holds":true},
        {"scope":"everybody","user":null,"task":null,"key":"max_tasks","value":512,"source":"rtswapd.toml","holds":false},
        {"scope":"everybody","user":null,"task":null,"key":"on_violation","value":"warn","source":"built-in","holds":true},
        {"scope":"user","user":1000,"task":null,"key":"gpu_memory","value":6657199308,"source":"policy.toml","holds":true},
        {"scope":"user","user":7,"task":null,"key":"gpu_memory","value":5,"source":"policy.toml","holds":true},
        {"scope":"task","user":1000,"task":"yolo","key":"deadline_us","value":20500,"source":"run-time","holds":true},
        {"scope":"task","user":1000,"task":"yolo","key":"deadline_us","value":33000,"source":"policy.toml","holds":false},
        {"scope":"task","user":1000,"task":"b","key":"weight","value":300,"source":"policy.toml","holds":true}]}"#;

    #[test]
    fn what_bears_on_a_task_or_a_user_is_kept() {
        let kept = |target| {
            let mut document = Document::parse(ANSWER).unwrap();
            document.keep_about(&target);
            document.rules.len()
        };
        assert_eq!(kept(Target::Everybody), 8);
        assert_eq!(kept(Target::User(1000)), 7);
        let name = "yolo".to_owned();
        assert_eq!(kept(Target::Task { uid: 1000, name }), 6);
        let name = "yolo".to_owned();
        assert_eq!(kept(Target::Task { uid: 7, name }), 4);
        assert!(Document::parse("{}").is_err());
    }
}
