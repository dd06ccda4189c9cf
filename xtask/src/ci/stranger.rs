//! The environment of somebody who has just cloned the repository: nothing in it is this user's, so that what only this
//! user's files make pass fails.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::tools;

/// What is kept of the user's variables: where programs and the compiler are, and how the network is reached.
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

/// Where a stranger's files are; each arrival begins with empty ones.
const HOMES: [(&str, &str); 2] = [("HOME", "home"), ("CARGO_HOME", "cargo-home")];
const LOGS: &str = "log";

/// Somebody without any files of his own.
pub(crate) struct Stranger {
    folder: PathBuf,
}

impl Stranger {
    /// One who keeps everything in `folder`; what was built there before stays.
    pub(crate) fn arrive(folder: PathBuf) -> Result<Self> {
        for name in HOMES.map(|(_, name)| name).into_iter().chain([LOGS]) {
            let fresh = folder.join(name);
            tools::remove(&fresh).with_context(|| fresh.display().to_string())?;
            fs::create_dir_all(&fresh).with_context(|| fresh.display().to_string())?;
        }
        Ok(Self { folder })
    }

    /// Where what a step says is kept.
    pub(crate) fn log(&self, step: &str) -> PathBuf {
        let name = step.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        self.folder.join(LOGS).join(format!("{name}.log"))
    }

    /// This program, to which arguments are still to be added.
    pub(crate) fn command(&self, is_nice: bool) -> Result<Command> {
        let program = env::current_exe().context("this program's path")?;
        let mut command = if is_nice {
            let mut nice = Command::new("nice");
            nice.args(["-n", "19"]).arg(program);
            nice
        } else {
            Command::new(program)
        };
        command.env_clear().envs(self.environment());
        Ok(command)
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let kept = KEPT.map(|name| (name, env::var_os(name)));
        let mut variables: Vec<_> = kept
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        // The compiler is the user's, wherever rustup put it.
        if env::var_os("RUSTUP_HOME").is_none()
            && let Some(home) = env::var_os("HOME")
        {
            let rustup = Path::new(&home).join(".rustup");
            if rustup.is_dir() {
                variables.push(("RUSTUP_HOME", rustup.into()));
            }
        }
        variables.push(("CARGO_TARGET_DIR", self.folder.clone().into()));
        variables.extend(HOMES.map(|(name, folder)| (name, self.folder.join(folder).into())));
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_has_only_what_is_kept_and_empty_homes() {
        let folder = env::temp_dir().join(format!("rtswap-stranger-{}", std::process::id()));
        fs::create_dir_all(folder.join("home")).unwrap();
        fs::create_dir_all(folder.join("debug")).unwrap();
        fs::write(folder.join("home/.gitconfig"), "[user]").unwrap();
        let stranger = Stranger::arrive(folder.clone()).unwrap();
        assert!(!folder.join("home/.gitconfig").exists());
        assert!(folder.join("home").is_dir() && folder.join("debug").is_dir());
        let environment = stranger.environment();
        let value = |wanted: &str| {
            let mut found = environment.iter().filter(|(name, _)| *name == wanted);
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
        let stranger = Stranger {
            folder: "/x".into(),
        };
        let path = stranger.log("licences, bans");
        assert_eq!(path, Path::new("/x/log/licences--bans.log"));
    }
}
