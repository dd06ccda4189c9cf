//! Reads task set files, and the calibration that one is planned for.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rtswap_taskset::{Format, TaskSet, TaskSetError, calibration, parse};

use crate::cli::TaskSetOptions;
use crate::failure::Failure;

/// A file of 4,096 tasks has about one.
const MOST_BYTES: u64 = 64 << 20;

/// A file and what it says.
pub(crate) struct Named {
    /// For messages.
    pub(crate) file: String,
    pub(crate) set: TaskSet,
}

/// Reads the text of `path`, or of standard input for `-`, and the name of that for messages.
pub(crate) fn text(path: &Path) -> Result<(String, String), Failure> {
    let (file, bytes) = if path == "-" {
        ("stdin".to_owned(), all(io::stdin().lock()))
    } else {
        let file = path.display().to_string();
        match open(path) {
            Ok(Some(opened)) => (file, all(opened)),
            Ok(None) => return Err(Failure::NotRegular { file }),
            Err(source) => (file, Err(source)),
        }
    };
    let bytes = match bytes {
        Ok(bytes) if bytes.len() as u64 > MOST_BYTES => {
            let most = MOST_BYTES;
            return Err(Failure::TooLarge { file, most });
        }
        Ok(bytes) => bytes,
        Err(source) => return Err(Failure::Unreadable { file, source }),
    };
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

/// Reads the task set that is planned, for the GPU that is named.
pub(crate) fn read(options: &TaskSetOptions) -> Result<Named, Failure> {
    let is_stdin = |path: &Path| path == "-";
    if is_stdin(&options.file) && options.on.as_deref().is_some_and(is_stdin) {
        return Err(Failure::SameFile {
            one: "FILE",
            other: "--on",
        });
    }
    let (file, said) = text(&options.file)?;
    let set = parse(&said, format(&options.file, &said)).map_err(wrong(&file))?;
    let Some(path) = &options.on else {
        return Ok(Named { file, set });
    };
    let (on, said) = text(path)?;
    let measured = calibration::parse(&said).map_err(wrong(&on))?;
    let set = set.on(&measured);
    if set.gpu.chunk.is_some_and(|chunk| chunk > set.gpu.capacity) {
        return Err(Failure::ChunkBeyondMemory {
            on,
            chunk: measured.chunk,
            file,
            memory: set.gpu.capacity,
        });
    }
    Ok(Named { file, set })
}

fn wrong(file: &str) -> impl FnOnce(TaskSetError) -> Failure {
    let file = file.to_owned();
    |error| Failure::TaskSet {
        file,
        error: error.into(),
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

fn all(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As the file's name says; otherwise by the first character, which in TOML is never a brace.
fn format(path: &Path, text: &str) -> Format {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("json") => Format::Json,
        Some("toml") => Format::Toml,
        _ if text
            .trim_start_matches('\u{feff}')
            .trim_start()
            .starts_with('{') =>
        {
            Format::Json
        }
        _ => Format::Toml,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_goes_before_the_first_character() {
        let format = |name, text| format(Path::new(name), text);
        assert_eq!(format("a.json", "version = 1"), Format::Json);
        assert_eq!(format("a.toml", "{}"), Format::Toml);
        assert_eq!(format("-", " {}"), Format::Json);
        assert_eq!(format("-", "\u{feff}{}"), Format::Json);
        assert_eq!(format("-", "[gpu]"), Format::Toml);
        assert_eq!(format("a", ""), Format::Toml);
    }
}
