//! apt with a configuration, lists and a cache of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::packages::Package;

/// The suites that are looked in. A branch stays in some of them for years after it has left the newest.
const SUITES: [&str; 4] = ["bookworm", "trixie", "sid", "experimental"];
const POOL: &str = "http://deb.debian.org/debian";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Lists that are younger are not asked for again.
const FRESH: Duration = Duration::from_hours(24);
/// The longest that one command may take.
const COMMAND: Duration = Duration::from_mins(2);
/// The longest that all of them may take.
const FETCHING: Duration = Duration::from_mins(10);

/// An apt that works in one folder, for [`FETCHING`].
pub(super) struct Apt {
    folder: PathBuf,
    until: Instant,
}

impl Apt {
    /// Makes its folder. An error says what there is not: apt, dpkg, timeout, Debian's keys.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        for program in ["apt-get", "apt-cache", "dpkg"] {
            let version = printed(program, bounded(program, COMMAND).arg("--version"));
            ensure!(version.is_ok(), "there is no {program} in the PATH");
        }
        ensure!(
            Path::new(KEYRING).exists(),
            "no {KEYRING}: apt-get install debian-archive-keyring"
        );
        for name in ["state/lists/partial", "cache/archives/partial", "downloads"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let apt = Self {
            folder: folder.canonicalize()?,
            until: Instant::now() + FETCHING,
        };
        fs::write(apt.folder.join("sources.list"), sources())?;
        fs::write(apt.folder.join("apt.conf"), apt.configuration())?;
        Ok(apt)
    }

    fn configuration(&self) -> String {
        let folder = self.folder.display();
        let architecture = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "amd64",
        };
        format!(
            "Dir::State \"{folder}/state\";\n\
             Dir::State::status \"/dev/null\";\n\
             Dir::Cache \"{folder}/cache\";\n\
             Dir::Etc::sourcelist \"{folder}/sources.list\";\n\
             Dir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::preferences \"/dev/null\";\n\
             Dir::Etc::preferencesparts \"/dev/null\";\n\
             APT::Architecture \"{architecture}\";\n\
             APT::Architectures {{ \"{architecture}\"; }};\n\
             APT::Sandbox::User \"\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::Retries \"2\";\n\
             Acquire::http::Timeout \"20\";\n"
        )
    }

    /// Gets the lists, unless they are there and young.
    pub(super) fn update(&self) -> Result<()> {
        let stamp = self.folder.join("updated");
        let age = fs::metadata(&stamp).and_then(|stamp| stamp.modified());
        let age = age.ok().and_then(|when| when.elapsed().ok());
        if age.is_some_and(|age| age < FRESH) && self.has_lists() {
            return Ok(());
        }
        // Without that option a list that cannot be had is a warning.
        self.run(
            "apt-get",
            ["--quiet", "--quiet", "--error-on=any", "update"],
        )?;
        File::create(stamp)?;
        Ok(())
    }

    /// Whether there are lists of packages, of whatever age.
    pub(super) fn has_lists(&self) -> bool {
        let lists = fs::read_dir(self.folder.join("state/lists"));
        let mut names = lists
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.file_name()));
        names.any(|name| name.to_string_lossy().contains("_Packages"))
    }

    /// All versions of the packages whose names end so, as `apt-cache madison` prints them.
    pub(super) fn offers(&self, ending: &str) -> Result<String> {
        let known = self.run("apt-cache", ["pkgnames", "lib"])?;
        let names: Vec<_> = known
            .lines()
            .filter(|name| name.ends_with(ending))
            .collect();
        if names.is_empty() {
            return Ok(String::new());
        }
        self.run("apt-cache", ["madison"].into_iter().chain(names))
    }

    /// Downloads a package; its file.
    pub(super) fn download(&self, package: &Package) -> Result<PathBuf> {
        let folder = self.folder.join("downloads");
        self.run(
            "apt-get",
            ["--quiet", "--quiet", "download", &package.to_string()],
        )?;
        let beginning = format!("{}_", package.name);
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if name.starts_with(&beginning) && name.contains(&package.driver.to_string()) {
                return Ok(path);
            }
        }
        bail!("apt-get downloaded no file")
    }

    /// Unpacks the files of a package into a folder.
    pub(super) fn unpack(&self, file: &Path, into: &Path) -> Result<()> {
        let (file, into) = (file.to_string_lossy(), into.to_string_lossy());
        self.run("dpkg", ["-x", &file, &into]).map(drop)
    }

    /// What the program prints. Its warnings go where ours go; only its exit says that it failed.
    fn run<'a>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<String> {
        let left = self.until.saturating_duration_since(Instant::now());
        ensure!(
            !left.is_zero(),
            "no time is left of {} s",
            FETCHING.as_secs()
        );
        let mut command = bounded(program, left.min(COMMAND));
        command
            .args(arguments)
            .env("APT_CONFIG", self.folder.join("apt.conf"))
            .env("LC_ALL", "C.UTF-8")
            .current_dir(self.folder.join("downloads"));
        printed(program, &mut command)
    }
}

/// A program that is ended after `bound`, with all that it started.
fn bounded(program: &str, bound: Duration) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg("--kill-after=5")
        .arg(bound.as_secs_f64().to_string())
        .arg(program)
        .stdin(Stdio::null());
    command
}

/// What a bounded program prints.
fn printed(program: &str, command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    // What timeout says itself; where it must kill, it ends by that signal too.
    let is_late = output.status.code().is_none_or(|code| code == 124);
    ensure!(!is_late, "{program} took too long, or was killed");
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn sources() -> String {
    let line = |suite| format!("deb [signed-by={KEYRING}] {POOL} {suite} non-free\n");
    SUITES.map(line).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let start = Instant::now();
        let mut late = bounded("sleep", Duration::from_millis(100));
        let error = printed("sleep", late.arg("60")).unwrap_err().to_string();
        assert!(error.contains("too long"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(30));
        let mut failing = bounded("false", COMMAND);
        let error = printed("false", &mut failing).unwrap_err().to_string();
        assert!(error.contains("false ended with"), "{error}");
        let mut echo = bounded("echo", COMMAND);
        assert_eq!(printed("echo", echo.arg("a")).unwrap(), "a\n");
    }

    #[test]
    fn lists_that_are_gone_are_missed() {
        let home = tempfile::tempdir().unwrap();
        let apt = Apt {
            folder: home.path().to_owned(),
            until: Instant::now(),
        };
        File::create(home.path().join("updated")).unwrap();
        let lists = home.path().join("state/lists");
        fs::create_dir_all(&lists).unwrap();
        assert!(!apt.has_lists());
        // No time is left to get them.
        assert!(apt.update().unwrap_err().to_string().contains("no time"));
        fs::write(lists.join("x_non-free_binary-amd64_Packages.lz4"), "").unwrap();
        assert!(apt.has_lists());
        apt.update().unwrap();
    }
}
