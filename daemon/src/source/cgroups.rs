//! The memory limits of the cgroups that programs are in, from the kernel's files (cgroups(7); the memory controller
//! of version 2, or of version 1 where the machine has that).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rtswap_engine::sample::CgroupSample;
use rtswap_policy::units::Bytes;

/// No more of those around a process are looked at. What an administrator limits is among the first; a user may nest
/// as deep as he likes.
const MOST_AROUND: usize = 12;

/// Version 1 writes no limit as the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 62;

/// The cgroups of all processes with a session, as long as one of them lives.
#[derive(Debug)]
pub struct Cgroups {
    /// None where nothing limits the memory of processes.
    controller: Option<Controller>,
    watched: Mutex<BTreeMap<Arc<str>, Watched>>,
}

#[derive(Debug)]
struct Watched {
    processes: usize,
    /// As it was seen last.
    sample: CgroupSample,
}

/// The cgroups that a process was in when it came: watched until this is dropped.
#[derive(Debug)]
pub struct Membership {
    all: Arc<Cgroups>,
    paths: Vec<Arc<str>>,
}

/// Where the kernel shows the memory controller.
#[derive(Debug, PartialEq, Eq)]
struct Controller {
    mount: PathBuf,
    /// The cgroup that is mounted there.
    root: String,
    is_first_version: bool,
}

impl Cgroups {
    /// Finds the memory controller of this machine.
    pub fn find() -> Arc<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self::of(Controller::find(&mounts))
    }

    fn of(controller: Option<Controller>) -> Arc<Self> {
        Arc::new(Self {
            controller,
            watched: Mutex::default(),
        })
    }

    /// Watches the cgroups of a process. Returns them as they are, the one around all others first.
    pub fn enter(self: &Arc<Self>, pid: u32) -> (Membership, Vec<CgroupSample>) {
        let text = fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        // A name may have any bytes: then it is not found, and those around it are.
        self.enter_by(&String::from_utf8_lossy(&text))
    }

    /// As [`Self::enter`], by the text of the process's file.
    fn enter_by(self: &Arc<Self>, cgroup: &str) -> (Membership, Vec<CgroupSample>) {
        let mut samples = Vec::new();
        let mut watched = self.lock();
        if let Some(controller) = &self.controller {
            samples.extend(controller.folders(cgroup).into_iter().map(|folder| {
                // One that others are in was seen within the last second.
                let entry = watched.entry(folder).or_insert_with_key(|folder| Watched {
                    processes: 0,
                    sample: controller
                        .look(folder)
                        .unwrap_or_else(|_| without_limit(folder)),
                });
                entry.processes += 1;
                entry.sample.clone()
            }));
        }
        drop(watched);
        let membership = Membership {
            all: Arc::clone(self),
            paths: samples.iter().map(|sample| sample.path.clone()).collect(),
        };
        (membership, samples)
    }

    /// Looks at all that are watched.
    pub fn look(&self) -> Vec<CgroupSample> {
        let Some(controller) = &self.controller else {
            return Vec::new();
        };
        let paths: Vec<_> = self.lock().keys().cloned().collect();
        // Without the lock: a file system may keep a reader waiting, and a new session may not be.
        let looks = paths.iter().map(|path| controller.look(path));
        // What cannot be read is as it was.
        let samples: Vec<_> = looks.filter_map(io::Result::ok).collect();
        let mut watched = self.lock();
        for sample in &samples {
            if let Some(entry) = watched.get_mut(&sample.path) {
                entry.sample = sample.clone();
            }
        }
        samples
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut watched = self.all.lock();
        for path in &self.paths {
            if let Some(entry) = watched.get_mut(path) {
                entry.processes -= 1;
                if entry.processes == 0 {
                    watched.remove(path);
                }
            }
        }
    }
}

impl Controller {
    /// By the text of /proc/PID/mountinfo (proc(5)). Version 1 first: a controller that it has, version 2 has not.
    fn find(mounts: &str) -> Option<Self> {
        let find = |is_first_version: bool| {
            mounts.lines().find_map(|line| {
                let (place, kind) = line.split_once(" - ")?;
                let mut place = place.split(' ').skip(3);
                let (root, mount) = (place.next()?, place.next()?);
                let mut kind = kind.split(' ');
                let (name, _, options) = (kind.next()?, kind.next()?, kind.next()?);
                let is_it = if is_first_version {
                    name == "cgroup" && options.split(',').any(|option| option == "memory")
                } else {
                    name == "cgroup2"
                };
                is_it.then(|| Self {
                    mount: mount.into(),
                    root: root.to_owned(),
                    is_first_version,
                })
            })
        };
        find(true).or_else(|| find(false))
    }

    /// The folders of the cgroup that a process is in and of those around it, the one around all others first; none
    /// where they are not mounted. `cgroup` is the text of /proc/PID/cgroup.
    fn folders(&self, cgroup: &str) -> Vec<Arc<str>> {
        let own = cgroup.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_it = if self.is_first_version {
                controllers.split(',').any(|name| name == "memory")
            } else {
                number == "0" && controllers.is_empty()
            };
            is_it.then_some(path)
        });
        let below = own.and_then(|path| Path::new(path).strip_prefix(&self.root).ok());
        let Some(below) = below.filter(|path| !path.starts_with("..")) else {
            return Vec::new();
        };
        let own = self.mount.join(below);
        let mut around: Vec<_> = own
            .ancestors()
            .take_while(|folder| folder.starts_with(&self.mount))
            .filter_map(|folder| folder.to_str())
            .map(|folder| Arc::from(folder.trim_end_matches('/')))
            .collect();
        around.reverse();
        around.truncate(MOST_AROUND);
        around
    }

    /// The memory of a cgroup. One that is gone has no limit.
    fn look(&self, path: &Arc<str>) -> io::Result<CgroupSample> {
        let folder = Path::new(&**path);
        let limit = self.limit(folder)?;
        let used = limit.map(|_| self.used(folder)).transpose()?.flatten();
        let found = limit.zip(used).map(|(limit, used)| CgroupSample {
            path: Arc::clone(path),
            limit: Bytes(limit),
            available: Bytes(limit.saturating_sub(used)),
        });
        Ok(found.unwrap_or_else(|| without_limit(path)))
    }

    fn limit(&self, folder: &Path) -> io::Result<Option<u64>> {
        let limit = |name: &str| io::Result::Ok(read(folder, name)?.and_then(|text| number(&text)));
        if self.is_first_version {
            return Ok(limit("memory.limit_in_bytes")?.filter(|limit| *limit < NO_LIMIT));
        }
        // Beyond the second its processes are slowed until they have given back what cannot be given back.
        let limits = [limit("memory.max")?, limit("memory.high")?];
        Ok(limits.into_iter().flatten().min())
    }

    /// What its processes have, without what the kernel drops when they need more: pages of files. None once it is gone.
    fn used(&self, folder: &Path) -> io::Result<Option<u64>> {
        let (name, of_files) = if self.is_first_version {
            let of_files = ["total_inactive_file", "total_active_file"];
            ("memory.usage_in_bytes", of_files)
        } else {
            ("memory.current", ["inactive_file", "active_file"])
        };
        let (all, statistics) = (read(folder, name)?, read(folder, "memory.stat")?);
        let Some((all, statistics)) = all.and_then(|text| number(&text)).zip(statistics) else {
            return Ok(None);
        };
        let of_file = |name: &str| {
            let line = |line: &str| number(line.strip_prefix(name)?.strip_prefix(' ')?);
            statistics.lines().find_map(line).unwrap_or(0)
        };
        Ok(Some(
            all.saturating_sub(of_files.into_iter().map(of_file).sum()),
        ))
    }
}

fn without_limit(path: &Arc<str>) -> CgroupSample {
    CgroupSample {
        path: Arc::clone(path),
        limit: Bytes::MAX,
        available: Bytes::MAX,
    }
}

/// A file of a cgroup; none where that is gone, or has no such file.
fn read(folder: &Path, name: &str) -> io::Result<Option<String>> {
    match fs::read_to_string(folder.join(name)) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::ENODEV | libc::ENOTDIR)
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A number of bytes; none for `max`.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: &str = "22 20 0:20 / /proc rw - proc proc rw\n\
                          30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const BOTH: &str = "30 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                        33 25 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                        34 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    fn folders(mounts: &str, cgroup: &str) -> Vec<String> {
        let controller = Controller::find(mounts).expect("a memory controller");
        let folders = controller.folders(cgroup).into_iter();
        folders.map(|folder| folder.to_string()).collect()
    }

    #[test]
    fn the_controller_is_where_it_is_mounted() {
        assert_eq!(
            Controller::find("22 20 0:20 / /proc rw - proc proc rw\n"),
            None
        );
        assert_eq!(
            folders(SECOND, "0::/system.slice/a b.service\n"),
            [
                "/sys/fs/cgroup",
                "/sys/fs/cgroup/system.slice",
                "/sys/fs/cgroup/system.slice/a b.service"
            ]
        );
        let cgroup = "4:memory:/one\n1:cpu,cpuacct:/two\n0::/three\n";
        let expected = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/one"];
        assert_eq!(folders(BOTH, cgroup), expected);
    }

    #[test]
    fn what_is_mounted_may_be_a_part() {
        let part = SECOND.replace("0:26 / ", "0:26 /box ");
        let expected = ["/sys/fs/cgroup", "/sys/fs/cgroup/a"];
        assert_eq!(folders(&part, "0::/box/a\n"), expected);
        assert!(folders(&part, "0::/boxes/a\n").is_empty(), "outside of it");
        assert!(folders(SECOND, "0::/../a\n").is_empty(), "outside of it");
        assert!(folders(SECOND, "").is_empty(), "it is gone");
        let root = ["/sys/fs/cgroup"];
        assert_eq!(folders(SECOND, "0::/\n"), root);
        assert_eq!(folders(&part, "0::/box\n"), root);
    }

    #[test]
    fn the_outermost_count() {
        let deep = "/a".repeat(5_000);
        let found = folders(SECOND, &format!("0::{deep}\n"));
        assert_eq!(found.len(), MOST_AROUND);
        assert_eq!(found[0], "/sys/fs/cgroup");
    }

    /// A machine on which the memory controller is a folder of files.
    fn machine(
        is_first_version: bool,
        files: &[(&str, &str)],
    ) -> (tempfile::TempDir, Arc<Cgroups>) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        let controller = Controller {
            mount: folder.path().to_owned(),
            root: "/".into(),
            is_first_version,
        };
        (folder, Cgroups::of(Some(controller)))
    }

    fn seen(samples: &[CgroupSample]) -> Vec<(u64, u64)> {
        let seen = samples.iter().map(|it| (it.limit.0, it.available.0));
        seen.collect()
    }

    const NONE: (u64, u64) = (u64::MAX, u64::MAX);

    #[test]
    fn pages_of_files_are_available() {
        let statistics = "anon 500\nfile 300\ninactive_file 200\nactive_file 50\nactive_filex 7\n";
        let (_folder, cgroups) = machine(
            false,
            &[
                ("a/memory.max", "max\n"),
                ("a/memory.high", "max\n"),
                ("a/b/memory.max", "1000\n"),
                ("a/b/memory.high", "900\n"),
                ("a/b/memory.current", "850\n"),
                ("a/b/memory.stat", statistics),
                ("a/b/c/memory.max", "1000\n"),
                ("a/b/c/memory.current", "850\n"),
            ],
        );
        let (_membership, samples) = cgroups.enter_by("0::/a/b/c\n");
        // The innermost has been removed in part while it was read.
        assert_eq!(seen(&samples), [NONE, NONE, (900, 300), NONE]);
    }

    #[test]
    fn version_one_counts_what_is_below_too() {
        let statistics =
            "inactive_file 1\nactive_file 1\ntotal_inactive_file 200\ntotal_active_file 50\n";
        let (_folder, cgroups) = machine(
            true,
            &[
                ("memory.limit_in_bytes", "9223372036854771712\n"),
                ("a/memory.limit_in_bytes", "1000\n"),
                ("a/memory.usage_in_bytes", "850\n"),
                ("a/memory.stat", statistics),
            ],
        );
        let (_membership, samples) = cgroups.enter_by("4:memory:/a\n");
        assert_eq!(seen(&samples), [NONE, (1000, 400)]);
    }

    #[test]
    fn they_are_watched_as_long_as_one_process_is_in_them() {
        let (folder, cgroups) = machine(
            false,
            &[
                ("a/memory.max", "max\n"),
                ("a/memory.current", "10\n"),
                ("a/memory.stat", ""),
            ],
        );
        let (first, samples) = cgroups.enter_by("0::/a\n");
        assert_eq!(seen(&samples), [NONE, NONE]);
        fs::write(folder.path().join("a/memory.max"), "30\n").expect("a limit");
        assert_eq!(seen(&cgroups.look()), [NONE, (30, 20)]);
        let (second, samples) = cgroups.enter_by("0::/a/gone\n");
        assert_eq!(seen(&samples), [NONE, (30, 20), NONE]);
        drop(first);
        assert_eq!(cgroups.look().len(), 3);
        drop(second);
        assert_eq!(cgroups.look(), []);
    }
}
