//! The file `state.journal`: one line for each record, appended by one write each.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rtswap_engine::saved::Record;

use super::shape::Line;

/// The file, open to append.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// The length of its complete lines, in bytes.
    length: u64,
}

impl Journal {
    /// Opens or creates the file, and reads the lines of this boot. From the first line that is incomplete
    /// on, the file is cut off, which is logged.
    pub(super) fn open(path: &Path, boot: &str) -> io::Result<(Self, Vec<Line>)> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
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
        if length < text.len() {
            tracing::warn!(
                bytes = text.len() - length,
                "the end of {} was not written as a whole; it is left out",
                path.display()
            );
            file.set_len(length as u64)?;
        }
        lines.retain(|line| line.boot == boot);
        let length = length as u64;
        Ok((Self { file, length }, lines))
    }

    /// Appends the record `number`. If only a part of its line could be written, the part is removed
    /// again.
    pub(super) fn append(&mut self, boot: &str, number: u64, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line::new(boot, number, record))?;
        line.push(b'\n');
        match rustix::io::write(&self.file, &line) {
            Ok(written) if written == line.len() => {
                self.length += written as u64;
                Ok(())
            }
            result => {
                self.file.set_len(self.length)?;
                Err(result.map_or_else(io::Error::from, |_| io::ErrorKind::StorageFull.into()))
            }
        }
    }

    /// Drops all lines.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        if self.length > 0 {
            self.file.set_len(0)?;
            self.length = 0;
        }
        Ok(())
    }
}
