//! The probes at work: the programs, their counters, and the processes that map a driver.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aya_log::EbpfLogger;
use rtswap_policy::units::Time;
use rtswap_probe_abi::functions::FUNCTIONS;
use rtswap_probe_abi::records::Lost;

use super::attach::Programs;
use super::libraries::{FileId, Libraries, Mapped};
use super::library;
use super::problem::Problem;
use super::read::Reader;
use super::scan::{Scanner, Seen};
use super::sweep::Sweeper;
use super::tally::{Name, is_exact};
use crate::source::gpu::identify;
use crate::sys::clock;
use rtswap_engine::sample::{Identity, ProbeSample, ProbeState, ProbedProcess};

/// A change of a process's memory by so many bytes is read at once.
const WATERMARK: u64 = 64 << 20;

/// The most libraries probed at a time: each takes some 80 descriptors and as many uprobes.
const MOST: usize = 128;

/// A file that is no driver, or cannot be attached to, is tried again after this time: another file may
/// have its inode by then.
const AGAIN: Duration = Duration::from_mins(1);

/// The folders in which distributions and NVIDIA install the driver.
const FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
];

/// The name under which it is installed.
const LIBRARY: &str = "libcuda.so.1";

/// The probes at work.
pub(super) struct Watch {
    programs: Programs,
    reader: Reader,
    sweeper: Sweeper,
    logger: Option<EbpfLogger<&'static dyn log::Log>>,
    scanner: Scanner,
    libraries: Libraries,
    /// The drivers installed on this machine: attached to before any process maps them.
    standing: BTreeSet<FileId>,
    /// The path at which each file with probes was found.
    paths: BTreeMap<FileId, PathBuf>,
    /// Files that the probes cannot be put on, and when that was found.
    refused: BTreeMap<FileId, Instant>,
    identities: BTreeMap<Name, Option<Identity>>,
    crowded: bool,
}

impl Watch {
    /// Loads the programs, and attaches them to all drivers that there are.
    pub(super) fn begin() -> Result<Self, Problem> {
        let mut programs = Programs::load(WATERMARK)?;
        let object = programs.object();
        // Programs that log nothing have no map for it.
        let logger = EbpfLogger::init(object).ok();
        let reader = Reader::new(object)?;
        let sweeper = Sweeper::new(object)?;
        let mut watch = Self {
            programs,
            reader,
            sweeper,
            logger,
            scanner: Scanner::default(),
            libraries: Libraries::default(),
            standing: BTreeSet::new(),
            paths: BTreeMap::new(),
            refused: BTreeMap::new(),
            identities: BTreeMap::new(),
            crowded: false,
        };
        watch.scan(true)?;
        watch.read_whole()?;
        Ok(watch)
    }

    /// Readable when there is news.
    pub(super) fn bells(&self) -> [BorrowedFd<'_>; 2] {
        self.reader.bells()
    }

    /// Takes the news. Returns whether there was any.
    pub(super) fn take_news(&mut self) -> Result<bool, Problem> {
        let came = self.reader.take_news()?;
        for pid in came.executed {
            self.scanner.mark_young(pid);
        }
        if let Some(logger) = &mut self.logger {
            logger.flush();
        }
        Ok(came.changed)
    }

    /// Reads every counter, and removes those of ended processes.
    pub(super) fn read_whole(&mut self) -> Result<(), Problem> {
        self.reader.read_all()?;
        let living = self.reader.books.processes.iter();
        let gone = living.filter(|(_, process)| {
            let here = process.id_here;
            here != 0 && !Path::new(&format!("/proc/{here}")).exists()
        });
        let gone: Vec<_> = gone.map(|(id, _)| *id).collect();
        for id in gone {
            self.reader.record_end(id);
        }
        if !self.reader.ended.is_empty() {
            let Self {
                reader, sweeper, ..
            } = self;
            let swept = sweeper.sweep(|name| reader.is_living(name));
            reader.sweep();
            tracing::trace!(swept, "cleared up after processes that ended");
        }
        let books = &self.reader.books;
        self.identities.retain(|name, _| books.is_living(*name));
        Ok(())
    }

    /// Looks for drivers in the processes that are due, or in `all`; attaches to new drivers and
    /// detaches from unused ones.
    pub(super) fn scan(&mut self, all: bool) -> Result<(), Problem> {
        self.attach_installed()?;
        let (seen, living) = self.scanner.look(all);
        self.libraries.retain(&living);
        for seen in seen {
            self.record_seen(&seen)?;
        }
        self.refused.retain(|_, since| since.elapsed() < AGAIN);
        for file in self.libraries.unused() {
            if !self.standing.contains(&file) {
                let path = self.paths.remove(&file).unwrap_or_default();
                tracing::debug!(path = %path.display(), "probes detached");
                self.programs.detach(file);
                self.libraries.record_detached(file);
            }
        }
        Ok(())
    }

    /// The memory counted now. A process that is counted for the first time is looked at first: else it
    /// would pass for one that was there before the probes, until it is due.
    pub(super) fn sample(&mut self) -> Result<ProbeSample, Problem> {
        self.look_at_new()?;
        let lost = |what| self.reader.lost(what).unwrap_or_default();
        let state = ProbeState::On {
            libraries: self.libraries.count() as u32,
            lost_news: lost(Lost::News),
            lost_calls: lost(Lost::Calls),
        };
        let books = &self.reader.books;
        let mut processes = Vec::new();
        for (&id, process) in &books.processes {
            if process.id_here == 0 {
                continue;
            }
            let name = (id, process.since);
            let pid = process.id_here;
            let identity = self.identities.entry(name);
            processes.push(ProbedProcess {
                pid,
                identity: identity.or_insert_with(|| identify(pid)).clone(),
                first_seen: Time(process.since),
                early: self.libraries.is_early(pid) || !self.libraries.knows(pid),
                exact: is_exact(process),
                held: books.held(id),
            });
        }
        processes.sort_by_key(|process| process.pid);
        Ok(ProbeSample { state, processes })
    }

    /// Looks at the processes that the probes count and that no scan has looked at.
    fn look_at_new(&mut self) -> Result<(), Problem> {
        let counted = self.reader.books.processes.values();
        let pids = counted.map(|process| process.id_here);
        let strangers: Vec<_> = pids
            .filter(|pid| *pid != 0 && !self.libraries.knows(*pid))
            .collect();
        for pid in strangers {
            if let Some(seen) = self.scanner.look_now(pid) {
                self.record_seen(&seen)?;
            }
        }
        Ok(())
    }

    /// Attaches to the drivers installed on this machine that are new.
    fn attach_installed(&mut self) -> Result<(), Problem> {
        let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = std::env::split_paths(&folders).filter(|folder| folder.is_absolute());
        let folders = folders.chain(FOLDERS.map(PathBuf::from));
        let mut standing = BTreeSet::new();
        for folder in folders {
            let Some((id, file)) = open(&folder.join(LIBRARY)) else {
                continue;
            };
            standing.insert(id);
            if !self.libraries.is_attached(id) {
                self.attach(id, &file, &folder.join(LIBRARY))?;
            }
        }
        self.standing = standing;
        Ok(())
    }

    /// Records what a look found, and attaches to the drivers that are new.
    fn record_seen(&mut self, seen: &Seen) -> Result<(), Problem> {
        let mut drivers = BTreeSet::new();
        for mapped in &seen.mapped {
            if !self.libraries.is_attached(mapped.file)
                && !self.refused.contains_key(&mapped.file)
                && let Some(file) = open_mapped(seen.process.pid, mapped)
            {
                self.attach(mapped.file, &file, Path::new(&mapped.path))?;
            }
            if self.libraries.is_attached(mapped.file) {
                drivers.insert(mapped.file);
            }
        }
        self.libraries.record_look(seen.process, seen.at, drivers);
        Ok(())
    }

    /// Puts the probes on a file, if it is a driver.
    fn attach(&mut self, id: FileId, file: &File, path: &Path) -> Result<(), Problem> {
        if self.refused.contains_key(&id) {
            return Ok(());
        }
        let wanted = |name: &str| FUNCTIONS.iter().any(|on| on.symbol == name);
        let functions = file.try_clone().ok();
        let functions = functions.and_then(|file| library::functions(file, wanted));
        let Some(functions) = functions else {
            self.refused.insert(id, Instant::now());
            return Ok(());
        };
        if self.libraries.count() >= MOST {
            if !std::mem::replace(&mut self.crowded, true) {
                tracing::warn!(
                    path = %path.display(),
                    "{MOST} copies of the driver are probed already: further ones are not, and what \
                     their users hold is known from NVML alone"
                );
            }
            self.refused.insert(id, Instant::now());
            return Ok(());
        }
        match self.programs.attach(id, file, &functions) {
            Ok(()) => {
                let functions = functions.len();
                tracing::debug!(functions, path = %path.display(), "probes attached");
                self.paths.insert(id, path.to_owned());
                self.libraries.record_attached(id, clock::boot_ticks());
                Ok(())
            }
            // The daemon may not attach at all: no other library would fare better.
            Err(problem @ Problem::Attach { .. }) => Err(problem),
            Err(problem) => {
                tracing::warn!(path = %path.display(), "a driver cannot be probed: {problem}");
                self.refused.insert(id, Instant::now());
                Ok(())
            }
        }
    }
}

/// A library by its path in our own mount namespace.
fn open(path: &Path) -> Option<(FileId, File)> {
    let file = open_regular(path)?;
    let metadata = file.metadata().ok()?;
    let device = metadata.dev();
    let id = FileId {
        device: (rustix::fs::major(device), rustix::fs::minor(device)),
        inode: metadata.ino(),
    };
    Some((id, file))
}

/// A library that a process maps, whatever lies at its path by now; else what lies there.
fn open_mapped(pid: u32, mapped: &Mapped) -> Option<File> {
    let link = format!("/proc/{pid}/map_files/{}", mapped.range);
    let path = format!("/proc/{pid}/root{}", mapped.path);
    let mut files = [link, path].into_iter().filter_map(|path| {
        let file = open_regular(Path::new(&path))?;
        // On some file systems the device of a mapping is another than the file's own.
        let same = file.metadata().ok()?.ino() == mapped.file.inode;
        same.then_some(file)
    });
    files.next()
}

/// Opens a file that any user may have made. Only regular files, and none that makes this wait.
fn open_regular(path: &Path) -> Option<File> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}
