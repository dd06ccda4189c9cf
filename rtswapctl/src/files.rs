//! Files that people name: read as text, and written.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use flate2::bufread::GzDecoder;

use crate::failure::Failure;

/// The most bytes of a file, and of what one unpacks to. A task set of 4,096 tasks has about one MiB, and the largest graph
/// that was traced three.
const MOST_BYTES: u64 = rtswap_taskset::MAX_TEXT as u64;

/// How a file of gzip begins (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads the text of `path`, or of standard input for `-`, and the name of that for messages. `what` is what the file should
/// be.
pub(crate) fn text(path: &Path, what: &'static str) -> Result<(String, String), Failure> {
    let (file, bytes) = bytes(path, what)?;
    utf8(file, bytes)
}

/// The same of a file that may be compressed by gzip, as one member: one of a million empty ones would take long.
pub(crate) fn unpacked(path: &Path, what: &'static str) -> Result<(String, String), Failure> {
    let (file, bytes) = bytes(path, what)?;
    if !bytes.starts_with(&GZIP) {
        return utf8(file, bytes);
    }
    let mut packed = GzDecoder::new(&*bytes);
    let text = match all(&mut packed) {
        Ok(text) => few(&file, what, text)?,
        Err(source) => return Err(Failure::Packed { file, source }),
    };
    if !packed.into_inner().is_empty() {
        let source = io::Error::other("something follows behind its end");
        return Err(Failure::Packed { file, source });
    }
    drop(bytes);
    utf8(file, text)
}

fn bytes(path: &Path, what: &'static str) -> Result<(String, Vec<u8>), Failure> {
    let (file, bytes) = if path == "-" {
        ("stdin".to_owned(), all(io::stdin().lock()))
    } else {
        let file = path.display().to_string();
        match open(path) {
            Ok(Some(opened)) => (file, all(opened)),
            Ok(None) => return Err(Failure::NotRegular { file, what }),
            Err(source) => (file, Err(source)),
        }
    };
    match bytes {
        Ok(bytes) => {
            let bytes = few(&file, what, bytes)?;
            Ok((file, bytes))
        }
        Err(source) => Err(Failure::Unreadable { file, source }),
    }
}

fn few(file: &str, what: &'static str, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if bytes.len() as u64 > MOST_BYTES {
        let (file, most) = (file.to_owned(), MOST_BYTES);
        return Err(Failure::TooLarge { file, most, what });
    }
    Ok(bytes)
}

fn utf8(file: String, bytes: Vec<u8>) -> Result<(String, String), Failure> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok((file, text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let lines = error.as_bytes()[..valid].split(|byte| *byte == b'\n');
            let line = lines.count();
            Err(Failure::NotText { file, line })
        }
    }
}

/// Opens a regular file; none where `path` is something else. Without `NONBLOCK` a FIFO would wait for
/// its writer before it can be told apart.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// All bytes, or one more than are allowed.
fn all(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Checks that no two of the files that are named are the same: nothing is written over what is read, and nothing twice.
/// Each has the name by which it is typed.
pub(crate) fn apart(named: &[(&'static str, Option<&Path>)]) -> Result<(), Failure> {
    let places = named
        .iter()
        .map(|(name, path)| (*name, path.and_then(place)));
    let places: Vec<_> = places.collect();
    for (at, (other, second)) in places.iter().enumerate() {
        for (one, first) in &places[..at] {
            if first.is_some() && first == second {
                return Err(Failure::SameFile { one, other });
            }
        }
    }
    Ok(())
}

/// A file's device and number; of one that is yet to be made those of its folder, and its name.
/// None for what is no file, as standard input and /dev/null, and for what cannot be had.
fn place(path: &Path) -> Option<(u64, u64, Option<OsString>)> {
    if path == "-" {
        return None;
    }
    if let Ok(file) = fs::metadata(path) {
        return file.is_file().then(|| (file.dev(), file.ino(), None));
    }
    let path = std::path::absolute(path).ok()?;
    let folder = fs::metadata(path.parent()?).ok()?;
    let name = path.file_name()?.to_owned();
    Some((folder.dev(), folder.ino(), Some(name)))
}

/// Writes `text` to `path`.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|source| Failure::Unwritable {
        file: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn read(bytes: &[u8]) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, bytes).unwrap();
        let read = unpacked(&path, "graph").map(|(_, text)| text);
        read.map_err(|failure| failure.to_string())
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn a_file_is_unpacked_where_it_is_packed() {
        assert_eq!(read(b"{}"), Ok("{}".into()));
        assert_eq!(read(&packed(b"{}")), Ok("{}".into()));
        assert_eq!(read(b""), Ok(String::new()));
    }

    #[test]
    fn a_file_that_is_packed_badly_is_refused() {
        let whole = packed(b"a text of some length");
        let mut other = whole.clone();
        other[12] ^= 1;
        for (bytes, said) in [
            (&whole[..9], "cannot be unpacked"),
            (&whole[..whole.len() - 1], "cannot be unpacked"),
            (&other, "cannot be unpacked"),
            (
                &[whole.clone(), whole.clone()].concat(),
                "follows behind its end",
            ),
            (&packed(b"\xff"), ":1: not UTF-8"),
            (
                &packed(&vec![b' '; (64 << 20) + 1]),
                "has more than 64 MiB: that is no graph",
            ),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
    }

    #[test]
    fn files_are_told_apart_by_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let [one, link, absent] = ["one", "link", "absent"].map(|name| folder.path().join(name));
        fs::write(&one, "").unwrap();
        std::os::unix::fs::symlink("one", &link).unwrap();
        let is_refused = |one: &Path, other: &Path| {
            apart(&[("A", Some(one)), ("B", None), ("C", Some(other))]).is_err()
        };
        assert!(is_refused(&one, &link));
        assert!(is_refused(&absent, &folder.path().join(".").join("absent")));
        assert!(!is_refused(&one, &absent));
        assert!(!is_refused(Path::new("-"), Path::new("-")));
        assert!(!is_refused(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
