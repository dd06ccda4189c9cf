//! The environment of a fresh clone on a fresh machine. Steps see none of the user's files and few of his variables, so
//! that a check which passes only because of them fails here.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::fs::statvfs;

use crate::tools;

/// Variables that are passed on: where programs and the compiler are, and how to reach the network.
const KEPT: [&str; 18] = [
    "PATH",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "CARGO",
    "CI",
    "LANG",
    "TERM",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "PIP_CERT",
];

/// Variables that name a folder of the environment's own, and that folder. Emptied at each start.
const HOMES: [(&str, &str); 2] = [("HOME", "home"), ("CARGO_HOME", "cargo-home")];
/// The folder of the steps' outputs.
const LOGS: &str = "log";

/// Folders and variables that every step gets instead of the user's.
pub(crate) struct CleanEnvironment {
    folder: PathBuf,
}

impl CleanEnvironment {
    /// Makes one in `folder`, which is also the target folder; earlier build outputs stay.
    pub(crate) fn create(folder: PathBuf) -> Result<Self> {
        for name in HOMES.map(|(_, name)| name).into_iter().chain([LOGS]) {
            let fresh = folder.join(name);
            tools::remove(&fresh).with_context(|| fresh.display().to_string())?;
            fs::create_dir_all(&fresh).with_context(|| fresh.display().to_string())?;
        }
        Ok(Self { folder })
    }

    /// Bytes that steps can still write here.
    pub(crate) fn room(&self) -> Result<u64> {
        let room = statvfs(&self.folder)?;
        Ok(room.f_bavail * room.f_frsize)
    }

    /// The file that keeps the output of `step`.
    pub(crate) fn log_path(&self, step: &str) -> PathBuf {
        let name = step.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        self.folder.join(LOGS).join(format!("{name}.log"))
    }

    /// Starts this program again; the arguments are still to be added. With `low_priority` it runs only while nothing
    /// else wants the processors.
    pub(crate) fn command(&self, low_priority: bool) -> Result<Command> {
        let program = env::current_exe().context("this program's path")?;
        let mut command = if low_priority {
            let mut nice = Command::new("nice");
            nice.args(["-n", "19"]).arg(program);
            nice
        } else {
            Command::new(program)
        };
        command.env_clear().envs(self.variables());
        Ok(command)
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let kept = KEPT.map(|name| (name, env::var_os(name)));
        let mut variables: Vec<_> = kept
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        // rustup looks for its toolchains below HOME unless told otherwise.
        if env::var_os("RUSTUP_HOME").is_none()
            && let Some(home) = env::var_os("HOME")
        {
            let rustup = Path::new(&home).join(".rustup");
            if rustup.is_dir() {
                variables.push(("RUSTUP_HOME", rustup.into()));
            }
        }
        variables.push(("CARGO_TARGET_DIR", self.folder.clone().into()));
        // What was compiled is not changed and compiled again.
        variables.push(("CARGO_INCREMENTAL", "0".into()));
        variables.extend(HOMES.map(|(name, folder)| (name, self.folder.join(folder).into())));
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_empty_and_few_variables_are_kept() {
        let folder = env::temp_dir().join(format!("rtswap-clean-{}", std::process::id()));
        fs::create_dir_all(folder.join("home")).unwrap();
        fs::create_dir_all(folder.join("debug")).unwrap();
        fs::write(folder.join("home/.gitconfig"), "[user]").unwrap();
        let clean = CleanEnvironment::create(folder.clone()).unwrap();
        assert!(!folder.join("home/.gitconfig").exists());
        assert!(folder.join("home").is_dir() && folder.join("debug").is_dir());
        let variables = clean.variables();
        let value = |wanted: &str| {
            let mut found = variables.iter().filter(|(name, _)| *name == wanted);
            (found.next().map(|(_, value)| value.clone()), found.count())
        };
        assert_eq!(value("HOME"), (Some(folder.join("home").into()), 0));
        assert_eq!(
            value("CARGO_HOME").0,
            Some(folder.join("cargo-home").into())
        );
        assert_eq!(value("PATH"), (env::var_os("PATH"), 0));
        assert_eq!(value("XDG_CONFIG_HOME").0, None);
        tools::remove(&folder).unwrap();
    }

    #[test]
    fn a_log_is_named_after_its_step() {
        let clean = CleanEnvironment {
            folder: "/x".into(),
        };
        let path = clean.log_path("licences, bans");
        assert_eq!(path, Path::new("/x/log/licences--bans.log"));
    }
}
