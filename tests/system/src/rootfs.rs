//! Root file systems: small Debians by mmdebstrap, made once and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// What a root file system is made of.
pub struct Recipe {
    /// The codename of a Debian, such as `bookworm`.
    pub suite: &'static str,
    /// Names of Debian packages, separated by commas. What they only recommend is left out.
    pub packages: &'static str,
    /// Shell commands that run at the end; `$1` is the root file system's folder.
    pub hooks: Vec<String>,
    /// How long one try may take.
    pub bound: Duration,
}

/// No archive answered: there is no network, or none of Debian's packages are to be had from this machine.
#[derive(Debug, thiserror::Error)]
#[error("mmdebstrap gets no packages of {0} from the archives")]
pub struct NoArchive(&'static str);

/// Why this machine can make no root file system, or root no such namespaces (options of unshare) to use it in.
pub fn lacking(namespaces: &[&str]) -> Option<String> {
    let works = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !works("sh", &["-c", "test \"$(id -u)\" -eq 0"]) {
        return Some("it needs root".into());
    }
    if !works("unshare", &[namespaces, &["--fork", "true"]].concat()) {
        return Some("this machine lets root make no namespaces".into());
    }
    (!works("mmdebstrap", &["--version"])).then(|| "mmdebstrap is not installed".into())
}

/// The root file system in `cache`, made if it is not there or was made by another recipe.
pub fn ready(cache: &Path, recipe: &Recipe) -> Result<PathBuf> {
    let suite = recipe.suite;
    let root = cache.join(suite);
    let note = cache.join(format!("{suite}.recipe"));
    let text = format!("{suite}\n{}\n{}", recipe.packages, recipe.hooks.join("\n"));
    if root.is_dir() && fs::read_to_string(&note).is_ok_and(|made| made == text) {
        return Ok(root);
    }
    fs::create_dir_all(cache).with_context(|| cache.display().to_string())?;
    let part = cache.join("part");
    remove(&root)?;
    remove(&part)?;
    eprintln!("making a {suite} root file system in {}", root.display());
    // A mirror may fail once.
    if let Err(error) = make(cache, &part, recipe) {
        eprintln!("{error:#}; once more");
        remove(&part)?;
        make(cache, &part, recipe)?;
    }
    fs::rename(&part, &root)?;
    fs::write(note, text)?;
    Ok(root)
}

fn remove(stale: &Path) -> Result<()> {
    if stale.exists() {
        fs::remove_dir_all(stale).with_context(|| stale.display().to_string())?;
    }
    Ok(())
}

fn make(cache: &Path, part: &Path, recipe: &Recipe) -> Result<()> {
    let options = cache.join("apt.conf");
    fs::write(&options, apt_options()?)?;
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--mode=root", "--variant=minbase"])
        .arg(format!("--include={}", recipe.packages))
        .arg(format!("--aptopt={}", options.display()));
    for hook in &recipe.hooks {
        command.arg(format!("--customize-hook={hook}"));
    }
    command.arg(recipe.suite).arg(part);
    command.args(sources(recipe.suite)?);
    // A mirror may be slow without end.
    if bounded(&command, recipe.bound)? {
        return Ok(());
    }
    // What is downloaded first is the part of Debian that every system has.
    if !part.join("usr/bin/dpkg").exists() {
        bail!(NoArchive(recipe.suite));
    }
    bail!("mmdebstrap failed; its words are above")
}

/// How this machine's apt reaches its archives, proxies and all. apt's own user may not be able to read a checkout in
/// somebody's home, so that it works as root.
fn apt_options() -> Result<String> {
    let dump = Command::new("apt-config")
        .args(["dump", "Acquire"])
        .output()
        .context("apt-config")?;
    let text = String::from_utf8_lossy(&dump.stdout);
    let mut options: String = text
        .lines()
        .filter(|line| !line.starts_with("Acquire::IndexTargets") && !line.ends_with(" \"\";"))
        .fold(String::new(), |text, line| text + line + "\n");
    options.push_str("APT::Sandbox::User \"root\";\n");
    // The lists of a Debian without support are not signed anew.
    options.push_str("Acquire::Check-Valid-Until \"false\";\n");
    Ok(options)
}

/// This machine's own archives, where they have the suite; mmdebstrap knows the public ones.
fn sources(suite: &str) -> Result<Vec<PathBuf>> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(folder) = fs::read_dir("/etc/apt/sources.list.d") {
        for entry in folder {
            files.push(entry?.path());
        }
    }
    files.retain(|path| {
        let known = path
            .extension()
            .is_some_and(|extension| extension == "list" || extension == "sources");
        let text = fs::read_to_string(path).unwrap_or_default();
        let serves = |line: &str| line.contains(suite) && !line.trim_start().starts_with('#');
        known && text.contains("debian") && text.lines().any(serves)
    });
    Ok(files)
}

/// Whether it ends well within `bound`. timeout(1) ends it, and what it started, otherwise, or when we end.
fn bounded(command: &Command, bound: Duration) -> Result<bool> {
    let status = Command::new("setpriv")
        .args([
            "--pdeathsig",
            "TERM",
            "timeout",
            "--kill-after=10",
            &bound.as_secs().to_string(),
        ])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .status();
    Ok(status.context("setpriv")?.success())
}
