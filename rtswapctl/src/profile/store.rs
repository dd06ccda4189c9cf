//! Profiles by name: the user's own, then the system's.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rtswap_taskset::profile::{Profile, parse};

use crate::failure::Failure;
use crate::files;

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
    let (file, text) = files::text(path, "profile")?;
    parse(&text).map_err(|error| Failure::TaskSet {
        file,
        error: error.into(),
    })
}

/// An error if no profile could be kept: told before anything is measured.
pub(super) fn check() -> Result<(), Failure> {
    check_in(&own()?)
}

fn check_in(folder: &Path) -> Result<(), Failure> {
    let tried = fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    tried.map(drop).map_err(|source| Failure::Unwritable {
        file: folder.to_owned(),
        source,
    })
}

/// Keeps a profile among the user's own. Where.
pub(super) fn keep(profile: &Profile) -> Result<PathBuf, Failure> {
    keep_in(&own()?, profile)
}

/// Keeps the profile of a job likewise; none where its name is another profile's.
pub(super) fn keep_job(profile: &Profile) -> Result<Option<PathBuf>, Failure> {
    if is_taken(profile, find(&profile.name)) {
        return Ok(None);
    }
    keep(profile).map(Some)
}

/// Whether what was found by its name is no earlier profile of the same job. What cannot be read may be anything.
fn is_taken(profile: &Profile, found: Result<Option<Profile>, Failure>) -> bool {
    match found {
        Ok(None) => false,
        Ok(Some(found)) => found.process != profile.process,
        Err(_) => true,
    }
}

fn own() -> Result<PathBuf, Failure> {
    own_folder(|variable| std::env::var_os(variable)).ok_or(Failure::NoHome)
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
    fn a_jobs_profile_replaces_none_but_its_own() {
        let of = |whole: Option<&str>| Profile {
            process: whole.map(str::to_owned),
            ..profile()
        };
        let job = of(Some("camera"));
        assert!(!is_taken(&job, Ok(None)));
        assert!(!is_taken(&job, Ok(Some(of(Some("camera"))))));
        for other in [None, Some("x")] {
            assert!(is_taken(&job, Ok(Some(of(other)))), "{other:?}");
        }
        assert!(is_taken(&job, Err(Failure::NoHome)));
    }

    #[test]
    fn a_folder_that_takes_no_profile_is_told_before() {
        let folder = tempfile::tempdir().unwrap();
        let deeper = folder.path().join("rtswap/profiles");
        check_in(&deeper).unwrap();
        assert_eq!(fs::read_dir(&deeper).unwrap().count(), 0);
        fs::write(folder.path().join("file"), "").unwrap();
        let told = check_in(&folder.path().join("file/profiles"));
        assert!(matches!(told, Err(Failure::Unwritable { .. })), "{told:?}");
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
