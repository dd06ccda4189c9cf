//! What is read of this machine. Tests read a folder in its place.

use std::fs;
use std::path::{Path, PathBuf};

/// The file system from its root on.
#[derive(Debug)]
pub(super) struct Machine {
    root: PathBuf,
}

/// A process, as /proc shows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// At most 15 bytes of its name.
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
}

impl Machine {
    /// The one that this program runs on.
    pub(super) fn own() -> Self {
        Self::at(Path::new("/"))
    }

    /// The machine with its root file system at `root`.
    pub(super) fn at(root: &Path) -> Self {
        let root = root.to_owned();
        Self { root }
    }

    /// Where an absolute path is.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// A file's text without the last newline; none if it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(path)).ok()?;
        Some(text.trim_end().to_owned())
    }

    /// The names in a folder, in order; none if it cannot be read.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path));
        let entries = entries.into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Where file systems of this type are mounted, the last mount first.
    pub(super) fn mounts(&self, kind: &str) -> Vec<String> {
        let text = self.read("/proc/self/mounts").unwrap_or_default();
        let mounts = text.lines().rev().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, found) = (fields.next()?, fields.next()?);
            (found == kind).then(|| path.to_owned())
        });
        mounts.collect()
    }

    /// A file of this program's cgroup (version 2) and of those above it: each with its path, from the program's own up.
    pub(super) fn cgroup(&self, name: &str) -> Vec<(String, String)> {
        let (Some(mount), Some(text)) = (
            self.mounts("cgroup2").into_iter().next(),
            self.read("/proc/self/cgroup"),
        ) else {
            return Vec::new();
        };
        let Some(own) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
            return Vec::new();
        };
        let folders = Path::new(own).ancestors().map(|folder| {
            let folder = folder.to_string_lossy();
            format!("{mount}{}", folder.trim_end_matches('/'))
        });
        let files = folders.map(|folder| format!("{folder}/{name}"));
        files
            .filter_map(|file| self.read(&file).map(|text| (file, text)))
            .collect()
    }

    /// The processes with this name that have not ended.
    pub(super) fn processes(&self, name: &str) -> Vec<Process> {
        let pids = self.list("/proc").into_iter();
        let pids = pids.filter_map(|entry| entry.parse::<u32>().ok());
        let mut found: Vec<_> = pids
            .filter_map(|pid| {
                let found = self.read(&format!("/proc/{pid}/comm"))?;
                // A stranger's arguments may be on a file system that does not answer.
                let is_named = found == name;
                let arguments = is_named.then(|| self.read(&format!("/proc/{pid}/cmdline")))??;
                let is_it = !arguments.is_empty();
                is_it.then(|| Process {
                    pid,
                    name: found,
                    arguments: arguments
                        .trim_end_matches('\0')
                        .split('\0')
                        .map(str::to_owned)
                        .collect(),
                })
            })
            .collect();
        found.sort_by_key(|process| process.pid);
        found
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine with nothing but these files.
    pub(in crate::doctor) fn with(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::at(folder.path());
        for (path, text) in files {
            let path = machine.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (folder, machine)
    }

    #[test]
    fn mounts_and_processes_are_read() {
        let (_folder, machine) = with(&[
            (
                "/proc/self/mounts",
                "a /a tmpfs rw 0 0\nb /b cgroup2 rw 0 0\nc /c tmpfs rw 0 0\n",
            ),
            ("/proc/7/comm", "rtswapd\n"),
            ("/proc/7/cmdline", "/usr/sbin/rtswapd\0--bus\0system\0"),
            ("/proc/30/comm", "rtswapd\n"),
            ("/proc/30/cmdline", ""),
            ("/proc/8/comm", "sh\n"),
            ("/proc/8/cmdline", "sh\0"),
        ]);
        assert_eq!(machine.mounts("tmpfs"), ["/c", "/a"]);
        assert!(machine.mounts("tracefs").is_empty());
        let found = machine.processes("rtswapd");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].arguments, ["/usr/sbin/rtswapd", "--bus", "system"]);
    }
}
