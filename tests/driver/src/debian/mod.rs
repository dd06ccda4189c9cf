//! Gets the driver's libraries from Debian's non-free section into a folder under the target folder, with an apt of its
//! own (`apt`) that neither reads nor changes the machine's lists. `packages` picks what is wanted of those of the pools.

mod apt;
mod packages;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::library::{KINDS, Kind};
use apt::Apt;
use packages::Package;

/// Fetches what `folder` lacks of the newest libraries; the lines that say what could not be had. Whatever fails but the
/// folder itself leaves what lies there to be used.
pub fn fetch(folder: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let apt = match Apt::new(&folder.join("apt")) {
        Ok(apt) => apt,
        Err(error) => return Ok(vec![skipped("fetching", &error)]),
    };
    let mut lines = Vec::new();
    match apt.update() {
        Err(error) if apt.has_lists() => {
            lines.push(skipped("newer lists, the old ones serve", &error));
        }
        Err(error) => return Ok(vec![skipped("fetching", &error)]),
        Ok(()) => {}
    }
    for kind in KINDS {
        let packages = match offered(&apt, kind) {
            Ok(packages) => packages,
            Err(error) => {
                lines.push(skipped(&format!("fetching {}", kind.file), &error));
                continue;
            }
        };
        for package in packages {
            if let Err(error) = get(&apt, folder, kind, &package) {
                lines.push(skipped(&package.to_string(), &error));
            }
        }
    }
    Ok(lines)
}

/// The packages that there are, of which some must be.
fn offered(apt: &Apt, kind: Kind) -> Result<Vec<Package>> {
    let packages = packages::newest(&apt.offers(kind.package_ending)?, kind);
    ensure!(!packages.is_empty(), "the lists have no package with it");
    Ok(packages)
}

/// One line, whatever apt says in how many.
pub fn skipped(what: &str, error: &anyhow::Error) -> String {
    let why = format!("{error:#}");
    let why: Vec<&str> = why.lines().collect();
    format!("SKIPPED {what}: {}", why.join("; "))
}

/// Downloads a package and takes its library out of it, unless that was done before.
fn get(apt: &Apt, folder: &Path, kind: Kind, package: &Package) -> Result<()> {
    let home = folder.join(package.driver.to_string());
    let library = home.join(kind.file);
    if library.is_file() {
        return Ok(());
    }
    let file = apt.download(package)?;
    let unpacked = folder.join("unpacked");
    remove(&unpacked)?;
    if let Err(error) = apt.unpack(&file, &unpacked) {
        // A damaged file would be taken for downloaded.
        fs::remove_file(file)?;
        return Err(error);
    }
    let wanted = format!("{}.{}", kind.file.trim_end_matches(".1"), package.driver);
    let found = find(&unpacked, &wanted)?.with_context(|| format!("it holds no {wanted}"))?;
    fs::create_dir_all(&home)?;
    fs::rename(found, library)?;
    remove(&unpacked)?;
    fs::remove_file(file)?;
    Ok(())
}

/// The file of this name anywhere under `folder`.
fn find(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() && entry.file_name() == name {
            return Ok(Some(entry.path()));
        }
        if kind.is_dir()
            && let Some(found) = find(&entry.path(), name)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}
