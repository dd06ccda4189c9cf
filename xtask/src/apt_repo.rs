//! `cargo xtask apt-repo`: a signed apt repository of the packages.
//!
//! `pool/main` has the packages of all versions, `dists/SUITE` the lists of them and the signed Release files, and
//! `rtswap.sources` is for users: it has the URL and the public key.

mod key;
mod texts;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::process::Run;
use crate::workspace::Workspace;
use crate::{deb, tools};

pub(crate) use key::SigningKey;
use texts::{ARCHITECTURE, COMPONENT, Index};

/// Programs that compress the list, and the extension of what they make; apt knows both. No name or time of a file and
/// no number of processors is in it.
const COMPRESSORS: [([&str; 3], &str); 2] = [
    (["gzip", "-9", "--no-name"], "gz"),
    (["xz", "-9", "--threads=1"], "xz"),
];
/// Kinds of files in the pool: packages, and those of debug information.
const KINDS: [&str; 2] = ["deb", "ddeb"];
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// A repository that is to be made.
#[derive(Args)]
pub(crate) struct Options {
    /// The key that signs: a file with one secret key, or the id of a key in your keyring.
    #[arg(long, value_name = "FILE|KEYID")]
    key: String,
    /// The repository's folder. Packages that are in its pool stay in the repository.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    terms: Terms,
    /// Packages to add. By default those that `cargo xtask deb` made, debug information too.
    #[arg(value_name = "DEB")]
    debs: Vec<PathBuf>,
}

/// What the repository tells apt.
#[derive(Args, Clone)]
pub(crate) struct Terms {
    /// Where users find the folder. By default its path on this machine.
    #[arg(long, value_parser = parse_url)]
    pub(crate) url: Option<String>,
    /// The name of the suite.
    #[arg(long, default_value = "stable", value_parser = parse_suite)]
    pub(crate) suite: String,
    /// Days until apt refuses the repository, unless it is signed again. By default it never does.
    #[arg(long, value_name = "N")]
    pub(crate) valid_days: Option<u32>,
}

fn parse_url(url: &str) -> Result<String, String> {
    let is_url = url.contains(":/") && !url.contains(|c: char| c.is_whitespace() || c.is_control());
    is_url
        .then(|| url.to_owned())
        .ok_or_else(|| "not a URL: write https://… or file:/…".to_owned())
}

fn parse_suite(suite: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (suite.starts_with(|c: char| c.is_ascii_alphanumeric()) && suite.chars().all(is_name))
        .then(|| suite.to_owned())
        .ok_or_else(|| "not a suite: use letters, digits and `-`".to_owned())
}

/// Makes the repository, or adds packages to it, and signs it.
pub(crate) fn make(workspace: &Workspace, options: &Options) -> Result<()> {
    need(workspace.root())?;
    let debs = if options.debs.is_empty() {
        deb::files(workspace, &KINDS)?
    } else {
        options.debs.clone()
    };
    let key = SigningKey::open(&options.key)?;
    write(&options.out, &debs, &key, &options.terms, now()?)
}

/// The seconds since 1970 that the repository is dated by: those of `SOURCE_DATE_EPOCH`, or else this moment's.
pub(crate) fn now() -> Result<u64> {
    const VARIABLE: &str = "SOURCE_DATE_EPOCH";
    match std::env::var(VARIABLE) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{VARIABLE} is {text:?}, not seconds since 1970")),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs()),
    }
}

/// What Debian has for it, installed where it is missing and that may be done.
pub(crate) fn need(root: &Path) -> Result<()> {
    let programs = [
        ("dpkg-scanpackages", "dpkg-dev"),
        ("gpg", "gpg"),
        ("gpg-agent", "gpg-agent"),
        ("xz", "xz-utils"),
    ];
    tools::debian(&programs, root)
}

/// As [`make`], of these packages, dated by `epoch` (seconds since 1970). The same packages, key, terms and date give
/// the same bytes in an empty folder.
pub(crate) fn write(
    folder: &Path,
    debs: &[PathBuf],
    key: &SigningKey,
    terms: &Terms,
    epoch: u64,
) -> Result<()> {
    let folder = std::path::absolute(folder)?;
    let pool = folder.join("pool").join(COMPONENT);
    fs::create_dir_all(&pool).with_context(|| pool.display().to_string())?;
    for deb in debs {
        add(&pool, deb)?;
    }
    let packages = scan(&folder)?;
    let dist = folder.join("dists").join(&terms.suite);
    let indices = write_indices(&dist, &packages)?;
    let until = terms
        .valid_days
        .map(|days| date(epoch + u64::from(days) * DAY_SECONDS))
        .transpose()?;
    let release = texts::release(&terms.suite, &date(epoch)?, until.as_deref(), &indices);
    write_release(&dist, &release, key, epoch)?;
    let url = match &terms.url {
        Some(url) => url.clone(),
        None => format!("file:{}", folder.display()),
    };
    let sources = texts::sources(&url, &terms.suite, &key.public()?);
    put(&folder.join("rtswap.sources"), sources.as_bytes())?;
    eprintln!(
        "{}: {} packages, signed by {}",
        folder.display(),
        texts::count(&packages),
        key.fingerprint()
    );
    Ok(())
}

/// Copies a package into the pool. What users may have downloaded by that name is never replaced.
fn add(pool: &Path, deb: &Path) -> Result<()> {
    let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
    let kind = deb.extension().and_then(|kind| kind.to_str());
    ensure!(
        kind.is_some_and(|kind| KINDS.contains(&kind)),
        "{} is no package: its name must end in .deb or .ddeb",
        deb.display()
    );
    let bytes = read(deb)?;
    let place = pool.join(deb.file_name().context("a package has a name")?);
    if place.exists() {
        ensure!(
            read(&place)? == bytes,
            "{} is another package of the same name and version as {}: give the new one a higher version",
            place.display(),
            deb.display()
        );
        return Ok(());
    }
    put(&place, &bytes)
}

/// The paragraphs of all packages in the pool.
fn scan(folder: &Path) -> Result<String> {
    let mut all = String::new();
    for kind in KINDS {
        let found = Run::new("dpkg-scanpackages", folder)
            .args(&["--multiversion", "--hash", "sha256", "--type", kind, "pool"])
            .output()?;
        all += &found;
        all += "\n\n";
    }
    let packages = texts::sorted(&all);
    ensure!(
        !packages.is_empty(),
        "no packages in {}: name some",
        folder.join("pool").display()
    );
    let foreign = texts::foreign(&packages);
    ensure!(
        foreign.is_empty(),
        "packages that are not for {ARCHITECTURE}: {}: remove them from {}",
        foreign.join(", "),
        folder.join("pool").display()
    );
    Ok(packages)
}

/// Writes the list of packages, plain and compressed. Each is found by its hash too, where earlier ones stay: apt may
/// have read an earlier Release file.
fn write_indices(dist: &Path, packages: &str) -> Result<Vec<Index>> {
    let below = format!("{COMPONENT}/binary-{ARCHITECTURE}");
    let folder = dist.join(&below);
    let by_hash = folder.join("by-hash/SHA256");
    fs::create_dir_all(&by_hash).with_context(|| by_hash.display().to_string())?;
    let plain = folder.join("Packages");
    put(&plain, packages.as_bytes())?;
    let mut names = vec!["Packages".to_owned()];
    for ([program, options @ ..], extension) in COMPRESSORS {
        Run::new(program, &folder)
            .args(&options)
            .args(&["--keep", "--force"])
            .args(&[&plain])
            .succeed()?;
        names.push(format!("Packages.{extension}"));
    }
    let index = |name: String| -> Result<Index> {
        let file = folder.join(&name);
        let sha256 = sha256(&file)?;
        put(&by_hash.join(&sha256), &fs::read(&file)?)?;
        Ok(Index {
            size: fs::metadata(&file)?.len(),
            path: format!("{below}/{name}"),
            sha256,
        })
    };
    names.into_iter().map(index).collect()
}

/// Signs the Release file, and puts it in its place once its signatures are there.
fn write_release(dist: &Path, text: &str, key: &SigningKey, epoch: u64) -> Result<()> {
    let [release, signed, signature] = ["Release", "InRelease", "Release.gpg"]
        .map(|name| (dist.join(name), dist.join(part(name))));
    fs::write(&release.1, text).with_context(|| release.1.display().to_string())?;
    key.sign(&release.1, epoch, &signed.1, &signature.1)?;
    for (place, part) in [release, signed, signature] {
        fs::rename(&part, &place).with_context(|| place.display().to_string())?;
    }
    Ok(())
}

/// Writes a file that readers see whole or not at all.
fn put(place: &Path, bytes: &[u8]) -> Result<()> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let part = place.with_file_name(part(&name));
    fs::write(&part, bytes).with_context(|| part.display().to_string())?;
    fs::rename(&part, place).with_context(|| place.display().to_string())
}

fn part(name: &str) -> String {
    format!("{name}.part")
}

fn sha256(file: &Path) -> Result<String> {
    let said = Run::new("sha256sum", Path::new("/")).args(&[file]).read()?;
    let hash = said.split_whitespace().next();
    Ok(hash.context("sha256sum printed no hash")?.to_owned())
}

/// Seconds since 1970 as Release files write them.
fn date(epoch: u64) -> Result<String> {
    let date = format!("--date=@{epoch}");
    let said = Run::new("date", Path::new("/"))
        .args(&["--utc", &date, "+%a, %d %b %Y %H:%M:%S UTC"])
        .env("LC_ALL", "C")
        .read()?;
    Ok(said.trim().to_owned())
}

#[cfg(test)]
mod tests;
