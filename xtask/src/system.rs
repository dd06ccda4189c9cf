//! `cargo xtask system-test`: the packages in a booted Debian.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::apt_repo::{self, SigningKey, Terms};
use crate::process::Run;
use crate::workspace::Workspace;
use crate::{deb, driver, tools};

/// Where the booted system finds the repository.
const URL: &str = "file:/srv/shared/repository";

/// The Debian that is booted where none is named.
pub(crate) const SUITE: &str = "bookworm";

/// Builds the packages and tests them in the Debian `suite`; the pictures of the first hour go into `screens`, if anywhere. Where no
/// system can be booted the test says why, and that it is skipped.
pub(crate) fn test(workspace: &Workspace, screens: Option<&Path>, suite: &str) -> Result<()> {
    deb::build(workspace)?;
    try_packages(workspace, screens, suite)
}

/// Tests those that were just built, if they could be.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    if let Some(why) = deb::lacking(workspace.root())? {
        eprintln!("SKIPPED the packages' system test: {why}");
        return Ok(());
    }
    try_packages(workspace, None, SUITE)
}

fn try_packages(workspace: &Workspace, screens: Option<&Path>, suite: &str) -> Result<()> {
    let root = workspace.root();
    if tools::is_root(root) {
        need(root)?;
        make_repositories(workspace)?;
    }
    let [repository, next] = repositories(workspace);
    let program = workspace.debug()?.join("rtswap-system-test");
    let screens = screens.map_or_else(Vec::new, |folder| vec![Path::new("--screens"), folder]);
    Run::new(program, root)
        .args(&["--repository"])
        .args(&[repository])
        .args(&["--next"])
        .args(&[next])
        .args(&["--suite", suite, "--cache"])
        .args(&[tools::folder(workspace).join("system")])
        .args(&["--driver"])
        .args(&[driver::folder(workspace)])
        .args(&screens)
        .succeed()
}

/// The folders of the packages' repository, and of that repository once the next version is in it.
fn repositories(workspace: &Workspace) -> [PathBuf; 2] {
    ["first", "next"].map(|name| repository_folder(workspace).join(name))
}

fn repository_folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("system-repository")
}

/// Makes both, signed by a key that is thrown away.
fn make_repositories(workspace: &Workspace) -> Result<()> {
    let folder = repository_folder(workspace);
    tools::remove(&folder)?;
    let [first, next] = repositories(workspace);
    let epoch = apt_repo::now()?;
    let key = SigningKey::throw_away(epoch)?;
    let terms = Terms {
        url: Some(URL.to_owned()),
        suite: "stable".to_owned(),
        valid_days: None,
    };
    let mut packages = deb::packages(workspace)?;
    apt_repo::write(&first, &packages, &key, &terms, epoch)?;
    for package in packages.clone() {
        packages.push(next_version(&package, &folder)?);
    }
    apt_repo::write(&next, &packages, &key, &terms, epoch)
}

/// A package like `package` with a higher version, in `folder`.
fn next_version(package: &Path, folder: &Path) -> Result<PathBuf> {
    let run = |arguments: &[&str]| Run::new("dpkg-deb", folder).args(arguments);
    let tree = folder.join("tree");
    tools::remove(&tree)?;
    run(&["--raw-extract"]).args(&[package, &tree]).succeed()?;
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("Version: "))
        .with_context(|| format!("{} has no version", package.display()))?;
    let higher = format!("{version}.1");
    let text = text.replacen(
        &format!("Version: {version}"),
        &format!("Version: {higher}"),
        1,
    );
    fs::write(&control, text)?;
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    let next = folder.join(name.replacen(version, &higher, 1));
    run(&["--root-owner-group", "-Zgzip", "-z1", "--build"])
        .args(&[&tree, &next])
        .succeed()?;
    tools::remove(&tree)?;
    Ok(next)
}

/// What Debian has for it, installed where it is missing and that may be done.
pub(crate) fn need(root: &Path) -> Result<()> {
    apt_repo::need(root)?;
    tools::debian(&[("mmdebstrap", "mmdebstrap"), ("cc", "gcc")], root)
}
