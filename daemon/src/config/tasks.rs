//! `tasks.d/*.toml`: registrations that the administrator makes, one task a file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rtswap_engine::CallError;
use rtswap_engine::input::TaskFile;
use rtswap_engine::registry::TaskOptions;
use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::file::check_version;
use super::trust::trusted;
use super::users::User;
use super::value::{IdleMillis, Millis, Size};

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
    idle_after_ms: Option<IdleMillis>,
    gpu: Option<Gpu>,
    graph: Option<Spanned<String>>,
    context: Option<Spanned<Size>>,
    needs_executor: Option<Spanned<bool>>,
}

impl File {
    /// The byte of the file that says that the task runs by a plan from its graph.
    fn executor_place(&self) -> Option<usize> {
        let marked = self.needs_executor.as_ref().filter(|said| *said.get_ref());
        let graph = self.graph.as_ref().map(Spanned::span);
        let span = graph.or_else(|| marked.map(Spanned::span))?;
        Some(span.start)
    }
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
    let executor_place = file.executor_place();
    if let (None, Some(context)) = (executor_place, file.context) {
        let message =
            "context belongs to a graph, and there is none; the footprint includes the context";
        let at = context.span().start;
        return Err(ConfigError::at(path, &text, at, message.into()));
    }
    let options = TaskOptions {
        name: file.name,
        class: file.class,
        period: file.period_ms.map(|span| span.0),
        deadline: file.deadline_ms.map(|span| span.0),
        wcet: file.wcet_ms.map(|span| span.0),
        footprint: file.footprint.map(|size| size.0),
        swappable: file.swappable.map(|size| size.0),
        weight: file.weight,
        idle_after: file.idle_after_ms.map(|span| span.0),
        gpu: file.gpu.map(String::from),
        needs_executor: executor_place.is_some(),
    };
    // The engine refuses it too, but knows neither the file nor the place.
    if let Some(at) = executor_place
        && let Err(error @ CallError::NeedsExecutor(_)) = options.clone().check()
    {
        return Err(ConfigError::at(path, &text, at, error.to_string()));
    }
    Ok(TaskFile { uid, options })
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
            "version = 1\nname = \"yolo\"\nuser = \"root\"\nperiod_ms = 33.0\nweight = 200\nidle_after_ms = 1500\ngpu = 1\n",
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
        let span = rtswap_policy::units::Nanos(1_500_000_000);
        assert_eq!(tasks[0].options.idle_after, Some(span));
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
    fn tasks_that_need_an_executor_are_refused_where_they_say_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, keys: &str| {
            let path = folder.path().join(format!("{name}.toml"));
            let text =
                format!("version = 1\nname = \"{name}\"\nuser = 0\nperiod_ms = 100.0\n{keys}");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        };
        let figures = "wcet_ms = 8.0\nfootprint = \"2GiB\"\nswappable = 0\n";
        write("a", "context = \"300MiB\"\ngraph = \"vgg.json\"\n");
        write("b", &format!("{figures}needs_executor = true\n"));
        write("c", &format!("needs_executor = false\n{figures}"));
        write("d", "needs_executor = true\ngraph = \"vgg.json\"\n");
        write("e", "needs_executor = false\ngraph = \"vgg.json\"\n");
        write("f", &format!("{figures}context = \"300MiB\"\n"));
        write("g", "graph = 1\n");
        write("h", "needs_executor = \"yes\"\n");
        write("i", figures);
        let (tasks, errors) = load_tasks(folder.path());
        let names: Vec<_> = tasks.iter().map(|task| &task.options.name).collect();
        assert_eq!(names, ["c", "i"]);
        assert!(tasks.iter().all(|task| !task.options.needs_executor));
        let places = [
            ("a", "6:9"),
            ("b", "8:18"),
            ("d", "6:9"),
            ("e", "6:9"),
            ("f", "8:11"),
            ("g", "5:9"),
            ("h", "5:18"),
        ];
        assert_eq!(errors.len(), places.len(), "{errors:?}");
        for ((name, place), error) in places.into_iter().zip(&errors) {
            let reason = match name {
                "f" => "context belongs to a graph, and there is none; the footprint includes the context".into(),
                "g" => "invalid type: integer `1`, expected a string".into(),
                "h" => "invalid type: string \"yes\", expected a boolean".into(),
                _ => CallError::NeedsExecutor(name.into()).to_string(),
            };
            let expected = format!("{name}.toml:{place}: {reason}");
            assert!(error.to_string().ends_with(&expected), "{error} {expected}");
        }
    }

    #[test]
    fn no_folder_is_no_error() {
        let (tasks, errors) = load_tasks(Path::new("/nonexistent/tasks.d"));
        assert!(tasks.is_empty() && errors.is_empty());
    }
}
