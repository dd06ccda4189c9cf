//! The file `state.journal`: one line for each record, appended by one write each.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rtswap_engine::saved::Record;

use super::shape::Line;

/// The most bytes of the file. A checkpoint follows 256 records, of some 300 bytes each, so it is longer
/// only while no checkpoint can be written. Then `/run`, a part of the memory, must not fill up with it.
pub(super) const LIMIT: u64 = 1 << 20;

/// The file, open to append.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    pub(super) file: File,
    /// The length of its complete lines, in bytes.
    length: u64,
    /// The bytes that were dropped from its front since it was opened.
    dropped: u64,
    /// Whether there may be a part of a line after the complete ones.
    is_torn: bool,
}

impl Journal {
    /// Opens or creates the file, and reads the lines of this boot. From the first line that is incomplete
    /// on, the file is cut off, which is logged.
    pub(super) fn open(path: &Path, boot: &str) -> io::Result<(Self, Vec<Line>)> {
        let mut file = options().read(true).append(true).create(true).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let (mut lines, mut length) = (Vec::new(), 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let whole = line.ends_with(b"\n");
            match serde_json::from_slice::<Line>(line) {
                Ok(record) if whole => lines.push(record),
                _ => break,
            }
            length += line.len();
        }
        let mut journal = Self {
            path: path.to_owned(),
            file,
            length: length as u64,
            dropped: 0,
            is_torn: length < text.len(),
        };
        if journal.is_torn {
            tracing::warn!(
                bytes = text.len() - length,
                "the end of {} was not written as a whole; it is left out",
                path.display()
            );
            // Tried again before the next record, which is not kept while this fails.
            let _ = journal.mend();
        }
        lines.retain(|line| line.boot == boot);
        Ok((journal, lines))
    }

    /// The position after the last complete line, in bytes. It only grows.
    pub(super) fn position(&self) -> u64 {
        self.dropped + self.length
    }

    /// Appends the record `number`, unless the file would get too long. If only a part of its line could be
    /// written, the part is removed again, if need be before the next record.
    pub(super) fn append(&mut self, boot: &str, number: u64, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line::new(boot, number, record))?;
        line.push(b'\n');
        if self.length + line.len() as u64 > LIMIT {
            return Err(io::Error::other(format!(
                "its {} MiB are full",
                LIMIT >> 20
            )));
        }
        // A line after a part of another would not be read.
        self.mend()?;
        match rustix::io::write(&self.file, &line) {
            Ok(written) if written == line.len() => {
                self.length += written as u64;
                Ok(())
            }
            result => {
                self.is_torn = true;
                // The reason why the line was not written says more than why its part stays.
                let _ = self.mend();
                Err(result.map_or_else(io::Error::from, |_| ErrorKind::StorageFull.into()))
            }
        }
    }

    /// Drops the lines before `position`. The lines after it are written to a new file, which takes the
    /// place of this one; after an error, this one stays as it is.
    pub(super) fn drop_before(&mut self, position: u64) -> io::Result<()> {
        let dropped = position.saturating_sub(self.dropped).min(self.length);
        let rest = self.length - dropped;
        if rest == 0 {
            self.file.set_len(0)?;
        } else if dropped > 0 {
            self.file = self.without(dropped, rest)?;
        } else {
            return Ok(());
        }
        self.dropped += dropped;
        self.length = rest;
        self.is_torn = false;
        Ok(())
    }

    /// Replaces the file by one of the `rest` bytes from `start` on.
    fn without(&self, start: u64, rest: u64) -> io::Result<File> {
        let mut lines = vec![0; usize::try_from(rest).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut lines, start)?;
        let fresh = self.path.with_extension("journal.new");
        // What a killed daemon left must not be appended to.
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = options()
            .read(true)
            .append(true)
            .create_new(true)
            .open(&fresh)?;
        file.write_all(&lines)?;
        fs::rename(&fresh, &self.path)?;
        Ok(file)
    }

    /// Cuts off what follows the complete lines.
    fn mend(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        Ok(())
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_record_is_kept_behind_a_part_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.journal");
        let (mut journal, _) = Journal::open(&path, "b").unwrap();
        let record = Record::default();
        journal.append("b", 1, &record).unwrap();
        // Neither the record nor the cut succeeds on a file that is open to read.
        let whole = std::mem::replace(&mut journal.file, File::open(&path).unwrap());
        journal.append("b", 2, &record).unwrap_err();
        (&whole).write_all(b"{\"boot\"").unwrap();
        journal.append("b", 2, &record).unwrap_err();
        journal.file = whole;
        journal.append("b", 2, &record).unwrap();
        let (_, lines) = Journal::open(&path, "b").unwrap();
        let numbers: Vec<_> = lines.iter().map(|line| line.record).collect();
        assert_eq!(numbers, [1, 2]);
    }

    #[test]
    fn a_front_that_cannot_be_dropped_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.journal");
        let (mut journal, _) = Journal::open(&path, "b").unwrap();
        let record = Record::default();
        journal.append("b", 1, &record).unwrap();
        let position = journal.position();
        journal.append("b", 2, &record).unwrap();
        let blocked = folder.path().join("state.journal.new");
        fs::create_dir(&blocked).unwrap();
        journal.drop_before(position).unwrap_err();
        fs::remove_dir(&blocked).unwrap();
        journal.append("b", 3, &record).unwrap();
        journal.drop_before(position).unwrap();
        journal.drop_before(position).unwrap();
        journal.append("b", 4, &record).unwrap();
        let (_, lines) = Journal::open(&path, "b").unwrap();
        let numbers: Vec<_> = lines.iter().map(|line| line.record).collect();
        assert_eq!(numbers, [2, 3, 4]);
    }
}
