//! The rules that were set at run time, in a file of the runtime folder: a daemon that is started again goes on with them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rtswap_engine::rules::RuleSet;

use crate::config::{load_policy, write_policy};

const FILE: &str = "policy.toml";

/// The file of the rules.
#[derive(Debug)]
pub(crate) struct RunTimeRules {
    path: PathBuf,
    /// Whether the log says that it cannot be written.
    is_told: bool,
}

impl RunTimeRules {
    /// In the runtime folder.
    pub(crate) fn of(runtime_dir: &Path) -> Self {
        Self {
            path: runtime_dir.join(FILE),
            is_told: false,
        }
    }

    /// What is kept. A file that is wrong is logged and counts for nothing.
    pub(crate) fn read(&self) -> RuleSet {
        load_policy(&self.path).unwrap_or_else(|error| {
            tracing::error!("{error}; what was set of the policy at run time does not count");
            RuleSet::new()
        })
    }

    /// Keeps these in the place of those before.
    pub(crate) fn keep(&mut self, rules: &RuleSet) {
        let kept = self.write(rules);
        if let Err(error) = &kept
            && !self.is_told
        {
            tracing::warn!(
                "cannot write {}: {error}; what is set of the policy at run time ends with this daemon: make room, or \
                 write it to policy.toml beside rtswapd.toml",
                self.path.display()
            );
        }
        self.is_told = kept.is_err();
    }

    /// So that no crash of the daemon leaves half of it. It is not to outlive the machine, so nobody waits for a disk.
    fn write(&self, rules: &RuleSet) -> io::Result<()> {
        if rules.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let temporary = self.path.with_extension("new");
        // Not for the eyes of the users that it is about.
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(write_policy(rules).as_bytes())?;
        fs::rename(&temporary, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rtswap_engine::rules::{Rules, Scope};

    use super::*;

    #[test]
    fn what_is_kept_is_read_until_there_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = RunTimeRules::of(folder.path());
        assert_eq!(kept.read(), RuleSet::new());
        let rules = Rules {
            max_tasks: Some(3),
            ..Rules::default()
        };
        let rules = RuleSet::from([(Scope::User(7), rules)]);
        kept.keep(&rules);
        assert_eq!(kept.read(), rules);
        let mode = fs::metadata(&kept.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        kept.keep(&RuleSet::new());
        kept.keep(&RuleSet::new());
        assert!(!kept.path.exists() && !kept.is_told);
    }

    #[test]
    fn a_wrong_file_counts_for_nothing_and_one_that_cannot_be_written_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "version = 7\n").unwrap();
        assert_eq!(RunTimeRules::of(folder.path()).read(), RuleSet::new());
        let mut kept = RunTimeRules::of(&folder.path().join("none"));
        let rules = RuleSet::from([(Scope::User(7), Rules::default())]);
        kept.keep(&rules);
        assert!(kept.is_told);
        fs::create_dir(folder.path().join("none")).unwrap();
        kept.keep(&rules);
        assert!(!kept.is_told);
    }
}
