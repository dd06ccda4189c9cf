//! The driver libraries in use, and the processes that map them: the text of /proc/PID/maps → inodes,
//! and the mappings of all processes → files to attach to and files to detach from.

use std::collections::{BTreeMap, BTreeSet};

/// A file, by the device and inode of its mapping: a hard link is the same file, a copy is another.
/// So a copy, a bind mount in a container and a new version under the same path are each found in the
/// maps of the processes that use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId {
    /// Major and minor number, as in maps: on some file systems `stat` gives others.
    pub(super) device: (u32, u32),
    /// Inode number on that device.
    pub(super) inode: u64,
}

/// An executable mapping of a file that may be a driver's library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    /// The file that is mapped.
    pub(super) file: FileId,
    /// The name of its link in /proc/PID/map_files.
    pub(super) range: String,
    /// Its path in the process's own mount namespace; without the mark of a file that is deleted.
    pub(super) path: String,
}

/// The executable mappings in a maps file that may be a driver's: those with `cuda` in their names.
/// Whether one is a driver its own contents say (see [`super::library`]).
///
/// Those that are named as a driver is installed come first: a look may have time for some only.
pub(super) fn candidates(maps: &str) -> Vec<Mapped> {
    let mut known = BTreeSet::new();
    let found = maps.lines().filter_map(candidate);
    let mut found: Vec<Mapped> = found.filter(|mapped| known.insert(mapped.file)).collect();
    found.sort_by_key(|mapped| !mapped.path.contains("/libcuda.so"));
    found
}

/// `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE   PATH`, as proc_pid_maps(5) has it.
fn candidate(line: &str) -> Option<Mapped> {
    let mut rest = line;
    let mut field = || {
        let (field, after) = rest.split_once(' ')?;
        rest = after;
        Some(field)
    };
    let (range, permissions, _offset) = (field()?, field()?, field()?);
    let (device, inode) = (field()?, field()?);
    let path = rest.trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = path.rsplit('/').next()?;
    if permissions.as_bytes().get(2) != Some(&b'x') || !name.contains("cuda") {
        return None;
    }
    let (major, minor) = device.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    // The link's name has no leading zeros, which maps may have.
    let (start, end) = range.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapped {
        file: FileId {
            device: (number(major)?, number(minor)?),
            inode: inode.parse().ok().filter(|inode| *inode != 0)?,
        },
        range: format!("{:x}-{:x}", address(start)?, address(end)?),
        path: path.to_owned(),
    })
}

/// A process, by its pid and start time: no other process of this boot ever has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessId {
    /// Its pid in our PID namespace.
    pub(super) pid: u32,
    /// Its start in clock ticks since boot.
    pub(super) start_ticks: u64,
}

/// The drivers that each process maps, as of the last look at it. Times are in clock ticks since boot,
/// as start times of processes are.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    /// The last look at each process.
    maps: BTreeMap<ProcessId, Looked>,
    /// Processes that mapped a library before the probes were on it: their earlier memory is unknown.
    early: BTreeSet<ProcessId>,
    /// Libraries that the probes are on, and since when.
    attached: BTreeMap<FileId, u64>,
}

/// The last look at a process.
#[derive(Debug)]
struct Looked {
    at: u64,
    drivers: BTreeSet<FileId>,
}

impl Libraries {
    /// Records a look at one process, begun `at`, which found these drivers mapped.
    pub(super) fn record_look(&mut self, process: ProcessId, at: u64, drivers: BTreeSet<FileId>) {
        if self
            .named(process.pid)
            .is_some_and(|other| other != process)
        {
            // The other process has ended, and this one got its pid.
            self.maps.retain(|other, _| other.pid != process.pid);
            self.early.retain(|other| other.pid != process.pid);
        }
        let before = self.maps.get(&process);
        // Known to have mapped the file after the probes were on it: the process is younger than that,
        // or a look since then found it without the file.
        let known = |file: &FileId| {
            self.attached.get(file).is_some_and(|since| {
                let without = before
                    .is_some_and(|before| before.at > *since && !before.drivers.contains(file));
                process.start_ticks > *since || without
            })
        };
        let new = |file: &&FileId| before.is_none_or(|before| !before.drivers.contains(file));
        if !drivers.iter().filter(new).all(known) {
            self.early.insert(process);
        }
        self.maps.insert(process, Looked { at, drivers });
    }

    /// Records that the probes are on `file` since `at`. A process that maps it by then may have used it
    /// before.
    pub(super) fn record_attached(&mut self, file: FileId, at: u64) {
        self.attached.insert(file, at);
        let users = self.maps.iter();
        let users = users.filter(|(_, looked)| looked.drivers.contains(&file));
        let early = users.filter(|(process, _)| process.start_ticks <= at);
        self.early.extend(early.map(|(process, _)| *process));
    }

    /// Records that the probes are no longer on `file`.
    pub(super) fn record_detached(&mut self, file: FileId) {
        self.attached.remove(&file);
    }

    /// Keeps the processes with these pids and forgets the others, which have ended.
    pub(super) fn retain(&mut self, living: &BTreeSet<u32>) {
        self.maps.retain(|process, _| living.contains(&process.pid));
        self.early.retain(|process| living.contains(&process.pid));
    }

    /// Libraries that the probes are on and that no process maps.
    pub(super) fn unused(&self) -> Vec<FileId> {
        let maps = self.maps.values();
        let used: BTreeSet<_> = maps.flat_map(|looked| &looked.drivers).collect();
        let attached = self.attached.keys();
        let unused = attached.filter(|file| !used.contains(file));
        unused.copied().collect()
    }

    /// Whether the probes are on `file`.
    pub(super) fn is_attached(&self, file: FileId) -> bool {
        self.attached.contains_key(&file)
    }

    /// The drivers that a process mapped at the last look.
    pub(super) fn drivers(&self, pid: u32) -> impl Iterator<Item = FileId> {
        let looked = self.named(pid).and_then(|process| self.maps.get(&process));
        looked
            .into_iter()
            .flat_map(|looked| &looked.drivers)
            .copied()
    }

    /// The number of files that the probes are on.
    pub(super) fn count(&self) -> usize {
        self.attached.len()
    }

    /// Whether a process was looked at.
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.named(pid).is_some()
    }

    /// Whether a process may have used a driver before the probes saw it.
    pub(super) fn is_early(&self, pid: u32) -> bool {
        let process = self.named(pid);
        process.is_some_and(|process| self.early.contains(&process))
    }

    /// The process that had the pid at the last look.
    fn named(&self, pid: u32) -> Option<ProcessId> {
        let first = ProcessId {
            pid,
            start_ticks: 0,
        };
        let (process, _) = self.maps.range(first..).next()?;
        (process.pid == pid).then_some(*process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVER: &str = "\
00400000-00452000 r-xp 00000000 08:02 173521                             /usr/bin/program
7f1c2a000000-7f1c2a800000 r--p 00000000 fe:01 4711                       /usr/lib/libcuda.so.550.54
7f1c2a800000-7f1c2b000000 r-xp 00800000 fe:01 4711                       /usr/lib/libcuda.so.550.54
7f1c2b000000-7f1c2b800000 r-xp 01000000 fe:01 4711                       /usr/lib/libcuda.so.550.54
7f1c2c000000-7f1c2c001000 rw-p 00000000 00:00 0
7f1c2d000000-7f1c2d100000 r-xp 00000000 00:2b 99                         /opt/a b/libcuda.so.1 (deleted)
7f1c2e000000-7f1c2e100000 r-xp 00000000 00:2b 100                        /usr/lib/libc.so.6
7f1c2f000000-7f1c2f100000 rw-p 00000000 00:2b 101                        /usr/lib/libcuda.so.2
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0                          [vdso]
";

    fn file(inode: u64) -> FileId {
        FileId {
            device: (8, 1),
            inode,
        }
    }

    fn process(pid: u32, start_ticks: u64) -> ProcessId {
        ProcessId { pid, start_ticks }
    }

    #[test]
    fn executable_mappings_of_drivers_are_found_once_each() {
        let found = candidates(DRIVER);
        let [first, second] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(first.file.device, (0xfe, 1));
        assert_eq!(
            (first.file.inode, &*first.range),
            (4711, "7f1c2a800000-7f1c2b000000")
        );
        assert_eq!(first.path, "/usr/lib/libcuda.so.550.54");
        assert_eq!(
            second.path, "/opt/a b/libcuda.so.1",
            "deleted, with a space"
        );
        assert_eq!(second.file.device, (0, 0x2b));
    }

    #[test]
    fn many_mappings_are_found_in_no_time_and_the_driver_first() {
        let line = |number: u64, name: &str| {
            format!("{number:x}000-{number:x}800 r-xp 00000000 fe:01 {number}   /home/{name}\n")
        };
        let mut maps: String = (1..=65_000).map(|number| line(number, "cuda")).collect();
        maps += &line(65_001, "libcuda.so.1");
        let start = std::time::Instant::now();
        let found = candidates(&maps);
        let took = start.elapsed();
        assert_eq!((found.len(), found[0].file.inode), (65_001, 65_001));
        assert!(took < std::time::Duration::from_secs(2), "{took:?}");
    }

    #[test]
    fn a_range_is_named_as_the_kernel_names_its_link() {
        let line = "00400000-00452000 r-xp 00000000 08:02 17 /x/libcuda.so.1\n";
        assert_eq!(candidates(line)[0].range, "400000-452000");
    }

    #[test]
    fn what_is_no_mapping_is_passed_over() {
        for text in [
            "",
            "\n",
            "7f-8",
            "a b c d e f g",
            "zz-1 r-xp 0 08:02 5 /libcuda.so",
        ] {
            assert_eq!(candidates(text), [], "{text:?}");
        }
    }

    fn driver(inode: u64) -> BTreeSet<FileId> {
        BTreeSet::from([file(inode)])
    }

    #[test]
    fn who_had_a_library_before_the_probes_is_early() {
        let mut libraries = Libraries::default();
        libraries.record_look(process(1, 10), 45, driver(7));
        libraries.record_attached(file(7), 50);
        assert!(libraries.is_early(1));
        // Started after the attach: its first look finds it with the library, from its start on.
        libraries.record_look(process(2, 60), 65, driver(7));
        assert!(!libraries.is_early(2));
        // Older, and never seen without it since.
        libraries.record_look(process(3, 40), 45, BTreeSet::new());
        libraries.record_look(process(3, 40), 65, driver(7));
        assert!(libraries.is_early(3));
        // Older, and seen without it since.
        libraries.record_look(process(4, 40), 60, BTreeSet::new());
        libraries.record_look(process(4, 40), 65, driver(7));
        assert!(!libraries.is_early(4));
        // Nobody watched that one yet.
        libraries.record_look(process(4, 40), 70, driver(8));
        assert!(libraries.is_early(4));
        libraries.record_attached(file(8), 75);
        libraries.record_look(process(4, 40), 80, driver(8));
        assert!(libraries.is_early(4), "once unknown, always");
        assert!(!libraries.is_early(6));
    }

    #[test]
    fn the_instant_of_the_attach_is_before_it() {
        let mut libraries = Libraries::default();
        libraries.record_attached(file(7), 50);
        libraries.record_look(process(1, 50), 60, driver(7));
        assert!(libraries.is_early(1), "a tick is ten milliseconds");
        libraries.record_look(process(2, 40), 50, BTreeSet::new());
        libraries.record_look(process(2, 40), 60, driver(7));
        assert!(libraries.is_early(2));
    }

    #[test]
    fn a_library_is_let_go_of_with_its_last_user() {
        let mut libraries = Libraries::default();
        libraries.record_attached(file(7), 50);
        assert_eq!(libraries.unused(), [file(7)]);
        libraries.record_look(process(1, 60), 65, driver(7));
        libraries.record_look(process(2, 40), 65, driver(7));
        assert_eq!(libraries.unused(), []);
        libraries.retain(&BTreeSet::from([2]));
        assert_eq!(libraries.unused(), []);
        assert!(libraries.is_early(2));
        libraries.record_look(process(2, 70), 75, BTreeSet::new());
        assert!(!libraries.is_early(2), "another process has the number now");
        assert_eq!(libraries.unused(), [file(7)]);
        libraries.record_detached(file(7));
        assert_eq!((libraries.unused(), libraries.count()), (vec![], 0));
    }
}
