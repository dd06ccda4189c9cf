//! Reads task set files, and the calibration that one is planned for.

use std::path::Path;

use rtswap_taskset::{Format, TaskSet, TaskSetError, calibration, parse};

use crate::cli::TaskSetOptions;
use crate::failure::Failure;
use crate::files;

/// A file and what it says.
pub(crate) struct Named {
    /// For messages.
    pub(crate) file: String,
    pub(crate) set: TaskSet,
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
    let (file, said) = files::text(&options.file, "task set")?;
    let set = parse(&said, format(&options.file, &said)).map_err(wrong(&file))?;
    let Some(path) = &options.on else {
        return Ok(Named { file, set });
    };
    let (on, said) = files::text(path, "calibration")?;
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
