//! The files of an attached unit: each is whole or is not there, and is ours by its first line.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{MARK, UnitError};

/// What was written, to be taken back if a later step fails.
#[derive(Debug, Default)]
pub(super) struct Changes(Vec<Change>);

#[derive(Debug)]
struct Change {
    path: PathBuf,
    before: Option<Vec<u8>>,
}

impl Changes {
    /// Writes a file, for all to read, and its folder where that is not there.
    pub(super) fn write(&mut self, path: &Path, text: &str) -> Result<(), UnitError> {
        let before = own(path)?;
        let failed = |source| unwritable(path, source);
        make_folder(path).map_err(failed)?;
        replace(path, text.as_bytes()).map_err(failed)?;
        self.0.push(Change {
            path: path.to_owned(),
            before,
        });
        Ok(())
    }

    /// Removes a file that attach wrote. Returns whether it was there.
    pub(super) fn remove(&mut self, path: &Path) -> Result<bool, UnitError> {
        let before = own(path)?;
        let was_there = remove(path)?;
        if was_there {
            self.0.push(Change {
                path: path.to_owned(),
                before,
            });
        }
        Ok(was_there)
    }

    /// Makes the files what they were before.
    pub(super) fn undo(self) {
        for change in self.0.into_iter().rev() {
            // Nobody can do more about a failure here than about the one that is already told.
            let _ = match change.before {
                Some(bytes) => {
                    make_folder(&change.path).and_then(|()| replace(&change.path, &bytes))
                }
                None => delete(&change.path),
            };
        }
    }
}

/// Removes a file that attach wrote. Returns whether it was there.
pub(super) fn remove(path: &Path) -> Result<bool, UnitError> {
    if own(path)?.is_none() {
        return Ok(false);
    }
    delete(path).map_err(|source| unwritable(path, source))?;
    Ok(true)
}

/// The bytes of a file that attach wrote; none where there is no file. One of somebody else is an error.
fn own(path: &Path) -> Result<Option<Vec<u8>>, UnitError> {
    match fs::read(path) {
        Ok(bytes) if bytes.starts_with(MARK.as_bytes()) => Ok(Some(bytes)),
        Ok(_) => Err(UnitError::Foreign(path.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unwritable(path, source)),
    }
}

/// Makes the folder of a file where there is none.
fn make_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().expect("a file has a folder");
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    // The umask of whoever attaches is not that of a configuration.
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().expect("a file has a folder");
    let mut file = tempfile::Builder::new()
        .prefix(".rtswap-")
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Removes a file, and its folder if that is empty then.
fn delete(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    let folder = path.parent().expect("a file has a folder");
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => Err(error),
        _ => Ok(()),
    }
}

fn unwritable(path: &Path, source: io::Error) -> UnitError {
    UnitError::Unwritable {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn a_file_is_written_for_all_to_read_and_removed_with_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("system/a.service.d/50-rtswap.conf");
        let text = format!("{MARK}\n");
        Changes::default().write(&path, &text).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&path), 0o644);
        assert_eq!(mode(path.parent().unwrap()), 0o755);
        assert_eq!(names(path.parent().unwrap()), ["50-rtswap.conf"]);
        assert!(remove(&path).unwrap());
        assert!(!remove(&path).unwrap());
        assert!(names(&root.path().join("system")).is_empty());
    }

    #[test]
    fn what_others_wrote_stays() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a.service.d");
        fs::create_dir(&folder).unwrap();
        let [own, other] = ["50-rtswap.conf", "override.conf"].map(|name| folder.join(name));
        fs::write(&other, "[Service]\n").unwrap();
        Changes::default().write(&own, MARK).unwrap();
        assert!(remove(&own).unwrap());
        assert_eq!(names(&folder), ["override.conf"]);
        fs::write(&own, "[Service]\n").unwrap();
        let refused = Changes::default().write(&own, MARK).unwrap_err();
        assert!(refused.to_string().contains("was not written by rtswapctl"));
        assert!(remove(&own).is_err() && own.exists());
    }

    #[test]
    fn an_undone_change_leaves_what_was_there() {
        let root = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| root.path().join(name));
        let before = format!("{MARK} before");
        fs::write(&old, &before).unwrap();
        let mut changes = Changes::default();
        changes.write(&old, &format!("{MARK} after")).unwrap();
        changes.write(&new, MARK).unwrap();
        changes.undo();
        assert_eq!(fs::read_to_string(&old).unwrap(), before);
        assert_eq!(names(root.path()), ["old"]);
        // The only file of a folder takes that with it, and comes back in it.
        let only = root.path().join("a.service.d/only");
        Changes::default().write(&only, &before).unwrap();
        let mut changes = Changes::default();
        assert!(changes.remove(&only).unwrap() && !only.parent().unwrap().exists());
        assert!(!changes.remove(&only).unwrap());
        changes.undo();
        assert_eq!(fs::read_to_string(&only).unwrap(), before);
    }
}
