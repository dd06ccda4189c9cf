//! apt with a configuration, lists and a cache of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::packages::Package;

/// The suites that are looked in. A branch stays in some of them for years after it has left the newest.
const SUITES: [&str; 4] = ["bookworm", "trixie", "sid", "experimental"];
const POOL: &str = "http://deb.debian.org/debian";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Lists that are younger are not asked for again.
const FRESH: Duration = Duration::from_hours(24);

/// An apt that works in one folder.
pub(super) struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Makes its folder and gets the lists. An error says what there is not: apt, dpkg, Debian's keys, a network.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        for program in ["apt-get", "dpkg"] {
            let mut version = Command::new(program);
            version.arg("--version").stdout(Stdio::null());
            let found = version.status().is_ok_and(|status| status.success());
            ensure!(found, "there is no {program} in the PATH");
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
        };
        fs::write(apt.folder.join("sources.list"), sources())?;
        fs::write(apt.folder.join("apt.conf"), apt.configuration())?;
        apt.update()?;
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

    /// Gets the lists, unless that was done a short while ago. Old ones serve where there is no network.
    fn update(&self) -> Result<()> {
        let stamp = self.folder.join("updated");
        let age = fs::metadata(&stamp).and_then(|stamp| stamp.modified());
        let age = age.ok().and_then(|when| when.elapsed().ok());
        if age.is_some_and(|age| age < FRESH) {
            return Ok(());
        }
        // Without that option a list that cannot be had is a warning.
        let updated = self.run(
            "apt-get",
            ["--quiet", "--quiet", "--error-on=any", "update"],
        );
        match updated {
            Ok(_) => {
                File::create(stamp)?;
                Ok(())
            }
            Err(error) if age.is_some() => {
                eprintln!("driver: old lists serve: {error:#}");
                Ok(())
            }
            Err(error) => Err(error),
        }
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

    /// What the program prints. Its warnings go where ours go; only its exit says that it failed.
    fn run<'a>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<String> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("APT_CONFIG", self.folder.join("apt.conf"))
            .env("LC_ALL", "C.UTF-8")
            .current_dir(self.folder.join("downloads"));
        let output = command
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        ensure!(
            output.status.success(),
            "{program} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn sources() -> String {
    let line = |suite| format!("deb [signed-by={KEYRING}] {POOL} {suite} non-free\n");
    SUITES.map(line).concat()
}
