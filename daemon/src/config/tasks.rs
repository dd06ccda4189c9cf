//! `tasks.d/*.toml`: registrations that the administrator makes, one task a file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rtswap_engine::input::TaskFile;
use rtswap_engine::registry::TaskOptions;
use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::file::check_version;
use super::trust::trusted;
use super::users::User;
use super::value::{Millis, Size};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u64>,
    name: String,
    user: Spanned<User>,
    class: Option<String>,
    period_ms: Option<Millis>,
    deadline_ms: Option<Millis>,
    wcet_ms: Option<Millis>,
    footprint: Option<Size>,
    swappable: Option<Size>,
    weight: Option<u32>,
    gpu: Option<Gpu>,
}

/// A GPU in a task file.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a GPU is an index, or an index or UUID in quotes"
)]
enum Gpu {
    Index(u32),
    Name(String),
}

impl From<Gpu> for String {
    fn from(gpu: Gpu) -> Self {
        match gpu {
            Gpu::Index(index) => index.to_string(),
            Gpu::Name(name) => name,
        }
    }
}

/// Reads every file of `folder` in the order of their names. Returns the tasks of files that are
/// accepted and the errors of the others; a folder that does not exist holds nothing.
pub fn load_tasks(folder: &Path) -> (Vec<TaskFile>, Vec<ConfigError>) {
    let (mut tasks, mut errors) = (Vec::new(), Vec::new());
    let files = files_of(folder).unwrap_or_else(|error| {
        errors.push(error);
        Vec::new()
    });
    for path in files {
        match load_one(&path) {
            Ok(task) => tasks.push(task),
            Err(error) => errors.push(error),
        }
    }
    (tasks, errors)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(ConfigError::unreadable(folder))?,
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_task = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
    let mut paths: Vec<_> = paths.filter(is_task).collect();
    paths.sort();
    // A user that may write the folder could replace a file after the check of its owner.
    trusted(folder)?;
    Ok(paths)
}

fn load_one(path: &Path) -> Result<TaskFile, ConfigError> {
    trusted(path)?;
    let text = fs::read_to_string(path).map_err(ConfigError::unreadable(path))?;
    let file: File =
        toml::from_str(&text).map_err(|error| ConfigError::from_toml(path, &text, &error))?;
    check_version(path, &text, &file.version)?;
    let at = file.user.span().start;
    let uid = file.user.get_ref().uid();
    let uid = uid.map_err(|message| ConfigError::at(path, &text, at, message))?;
    Ok(TaskFile {
        uid,
        options: TaskOptions {
            name: file.name,
            class: file.class,
            period: file.period_ms.map(|span| span.0),
            deadline: file.deadline_ms.map(|span| span.0),
            wcet: file.wcet_ms.map(|span| span.0),
            footprint: file.footprint.map(|size| size.0),
            swappable: file.swappable.map(|size| size.0),
            weight: file.weight,
            gpu: file.gpu.map(String::from),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn good_files_are_taken_and_bad_ones_told() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            path
        };
        write(
            "a.toml",
            "version = 1\nname = \"yolo\"\nuser = \"root\"\nperiod_ms = 33.0\nweight = 200\ngpu = 1\n",
        );
        write(
            "b.toml",
            "version = 1\nname = \"b\"\nuser = 7\nfootprnt = 1\n",
        );
        let open = write("c.toml", "version = 1\nname = \"c\"\nuser = 0\n");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
        write(
            "d.toml",
            "version = 1\nname = \"d\"\nuser = \"nobody-of-that-name\"\n",
        );
        write("e.toml", "version = 2\nname = \"e\"\nuser = 0\n");
        write("notes.txt", "not a task");
        let (tasks, errors) = load_tasks(folder.path());
        assert_eq!((tasks.len(), errors.len()), (1, 4));
        assert_eq!((tasks[0].uid, tasks[0].options.name.as_str()), (0, "yolo"));
        assert_eq!(tasks[0].options.weight, Some(200));
        assert_eq!(tasks[0].options.gpu.as_deref(), Some("1"));
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert!(
            errors[0].ends_with("b.toml:4:1: unknown key `footprnt`; did you mean `footprint`?"),
            "{errors:?}"
        );
        assert!(
            errors[1].ends_with("c.toml: refused: others may write it (mode 666); chmod go-w it"),
            "{errors:?}"
        );
        assert!(errors[3].contains("e.toml:1:11: version 2 is not known"));
        assert!(errors[2].contains("d.toml:3:8: user \"nobody-of-that-name\" is not in"));
    }

    #[test]
    fn no_folder_is_no_error() {
        let (tasks, errors) = load_tasks(Path::new("/nonexistent/tasks.d"));
        assert!(tasks.is_empty() && errors.is_empty());
    }
}
