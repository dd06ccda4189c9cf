//! Profiles by name: the user's own, then the system's.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rtswap_taskset::profile::{Profile, parse};

use crate::failure::Failure;
use crate::taskset;

/// Where profiles are under a folder of data.
const FOLDER: &str = "rtswap/profiles";
/// The system's, of the administrator and of packages.
const SYSTEM: [&str; 2] = ["/var/lib/rtswap/profiles", "/usr/share/rtswap/profiles"];

/// The folder of the user's own; none for a user without a home.
fn own_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| variable(name).map(PathBuf::from);
    // A relative path there is to be ignored (XDG Base Directory Specification).
    let data = folder("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let home = || folder("HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(home()?.join(".local/share")))?;
    Some(data.join(FOLDER))
}

/// The profile of that name, if there is one.
pub(crate) fn find(name: &str) -> Result<Option<Profile>, Failure> {
    let own = own_folder(|variable| std::env::var_os(variable));
    let folders = own.into_iter().chain(SYSTEM.map(PathBuf::from));
    find_in(folders, name)
}

fn find_in(folders: impl Iterator<Item = PathBuf>, name: &str) -> Result<Option<Profile>, Failure> {
    for folder in folders {
        let path = folder.join(format!("{name}.toml"));
        if path.exists() {
            return read(&path).map(Some);
        }
    }
    Ok(None)
}

fn read(path: &Path) -> Result<Profile, Failure> {
    let (file, text) = taskset::text(path)?;
    parse(&text).map_err(|error| Failure::TaskSet {
        file,
        error: error.into(),
    })
}

/// Keeps a profile among the user's own. Where.
pub(super) fn keep(profile: &Profile) -> Result<PathBuf, Failure> {
    let own = own_folder(|variable| std::env::var_os(variable)).ok_or(Failure::NoHome)?;
    keep_in(&own, profile)
}

/// Whole or not at all.
fn keep_in(folder: &Path, profile: &Profile) -> Result<PathBuf, Failure> {
    let path = folder.join(format!("{}.toml", profile.name));
    let written = fs::create_dir_all(folder).and_then(|()| {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(profile.to_toml().as_bytes())?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    });
    match written {
        Ok(()) => Ok(path),
        Err(source) => Err(Failure::Unwritable { file: path, source }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const TEXT: &str = r#"version = 1
name = "yolo"
measured = 2026-11-27T13:00:00Z
program = "infer"
jobs = "declared"
[gpu]
uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef"
chunk = "2MiB"
[memory]
footprint = "12MiB"
swappable = "10MiB"
[period]
median_ms = 33.3
shortest_ms = 33.1
[execution]
wcet_ms = 12.4
[execution.alone]
count = 200
median_ms = 11
high = 0.99
high_ms = 11.5
max_ms = 11.9
quantile = 0.985
confidence = 0.95
[execution.loaded]
count = 200
median_ms = 12
high = 0.99
high_ms = 12.3
max_ms = 12.4
quantile = 0.985
confidence = 0.95
"#;

    pub(crate) fn profile() -> Profile {
        parse(TEXT).unwrap()
    }

    #[test]
    fn the_users_own_goes_before_the_systems_and_a_broken_one_is_named() {
        let (own, system) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let find = |name| {
            let folders = [&own, &system].map(|folder| folder.path().join("deeper"));
            find_in(folders.into_iter(), name)
        };
        assert!(find("yolo").unwrap().is_none());
        let mut theirs = profile();
        theirs.program = "theirs".into();
        keep_in(&system.path().join("deeper"), &theirs).unwrap();
        assert_eq!(find("yolo").unwrap(), Some(theirs));
        let path = keep_in(&own.path().join("deeper"), &profile()).unwrap();
        assert_eq!(find("yolo").unwrap(), Some(profile()));
        fs::write(&path, TEXT.replace("jobs", "job")).unwrap();
        let said = find("yolo").unwrap_err().to_string();
        assert!(said.contains("yolo.toml:5:1: job: unknown key"), "{said}");
    }

    #[test]
    fn the_folder_is_where_users_data_is() {
        let with = |data: &str, home: &str| {
            own_folder(|name| match name {
                "XDG_DATA_HOME" => Some(data.into()),
                _ => Some(home.into()),
            })
        };
        assert_eq!(with("/d", "/h"), Some("/d/rtswap/profiles".into()));
        assert_eq!(
            with("d", "/h"),
            Some("/h/.local/share/rtswap/profiles".into())
        );
        assert_eq!(with("", ""), None);
    }
}
