//! The probes at work: the programs, their counters, and the processes that map a driver.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aya_log::EbpfLogger;
use rtswap_policy::units::Time;
use rtswap_probe_abi::functions::FUNCTIONS;
use rtswap_probe_abi::records::Lost;

use super::attach::Programs;
use super::files::{is_of_root, open, open_mapped};
use super::libraries::{FileId, Libraries};
use super::library;
use super::problem::Problem;
use super::read::Reader;
use super::scan::{Scanner, Seen};
use super::sweep::Sweeper;
use super::tally::{Name, is_exact};
use super::turns::{Owner, Turns};
use crate::log::{ANYBODY, may_say};
use crate::source::gpu::identify;
use crate::sys::{clock, heap};
use rtswap_engine::sample::{Identity, ProbeSample, ProbeState, ProbedProcess};

/// A change of a process's memory by so many bytes is read at once.
const WATERMARK: u64 = 64 << 20;

/// The most libraries probed at a time: each takes some 80 descriptors and as many uprobes.
const MOST: usize = 128;

/// Entries of ended processes that take much memory to clear up.
const MANY: usize = 1_000;

/// The most work for processes and their files in one scan: news are read between scans.
const SLICE: Duration = Duration::from_millis(50);

/// The same in the first scan, which is of all processes.
const FIRST_SLICE: Duration = Duration::from_secs(1);

/// The most work for new files in one look at a process; the others are for the next look.
const LOOK: Duration = Duration::from_millis(10);

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

/// A file with probes.
struct Found {
    /// Where it was found.
    path: PathBuf,
    /// The owner of the process that mapped it first.
    owner: Owner,
    /// Whether root alone can have made it. Another's may call itself whatever it likes, and so have bytes
    /// counted that there are not.
    is_trusted: bool,
}

/// The probes at work.
pub(super) struct Watch {
    programs: Programs,
    reader: Reader,
    sweeper: Sweeper,
    logger: Option<EbpfLogger<Limited>>,
    scanner: Scanner,
    turns: Turns,
    libraries: Libraries,
    /// The drivers installed on this machine: attached to before any process maps them.
    standing: BTreeSet<FileId>,
    /// The files with probes.
    found: BTreeMap<FileId, Found>,
    /// Files that the probes cannot be put on, and when that was found.
    refused: BTreeMap<FileId, Instant>,
    identities: BTreeMap<Name, Option<Identity>>,
    /// When the last reading of all counters began.
    read_at: Time,
    /// When the last reading began of which every process has been looked at.
    complete_at: Time,
    /// Entries that were cleared up since memory was given back.
    swept: usize,
    /// The names of the functions that are probed.
    wanted: BTreeSet<&'static str>,
    crowded: bool,
}

/// Writes the lines of the programs, as many as strangers may cause.
struct Limited;

impl log::Log for Limited {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        log::logger().enabled(metadata)
    }

    fn log(&self, record: &log::Record<'_>) {
        if may_say(ANYBODY, "probes") {
            log::logger().log(record);
        }
    }

    fn flush(&self) {
        log::logger().flush();
    }
}

impl Watch {
    /// Loads the programs, and attaches them to all drivers that there are.
    pub(super) fn begin() -> Result<Self, Problem> {
        let mut programs = Programs::load(WATERMARK)?;
        let object = programs.object();
        // Programs that log nothing have no map for it.
        let logger = EbpfLogger::init_with_logger(object, Limited).ok();
        let sweeper = Sweeper::start(object)?;
        let reader = Reader::new(object)?;
        let mut watch = Self {
            programs,
            reader,
            sweeper,
            logger,
            scanner: Scanner::default(),
            turns: Turns::new(Instant::now()),
            libraries: Libraries::default(),
            standing: BTreeSet::new(),
            found: BTreeMap::new(),
            refused: BTreeMap::new(),
            identities: BTreeMap::new(),
            read_at: Time::ZERO,
            complete_at: Time::ZERO,
            swept: 0,
            wanted: FUNCTIONS.iter().map(|on| on.symbol).collect(),
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

    /// Gives back what ended processes had taken, once all of it is cleared up.
    pub(super) fn finish_sweep(&mut self) -> Result<(), Problem> {
        let Some(swept) = self.sweeper.take_done()? else {
            return Ok(());
        };
        tracing::trace!(swept, "cleared up after processes that ended");
        self.swept += swept;
        if self.swept > MANY {
            self.swept = 0;
            heap::trim();
        }
        self.reader.settle()
    }

    /// Reads every counter, and begins to remove those of ended processes.
    pub(super) fn read_whole(&mut self) -> Result<(), Problem> {
        self.read_at = clock::now();
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
        if !self.sweeper.is_busy() {
            self.reader.settle()?;
            if self.reader.has_ended() {
                self.reader.sweep();
                self.sweeper.begin();
            }
        }
        let books = &self.reader.books;
        self.identities.retain(|name, _| books.is_living(*name));
        Ok(())
    }

    /// Attaches to the machine's own drivers that are new; then looks for drivers in the processes that are
    /// due, or in `all`, for as long as a scan may take; attaches to new ones and detaches from unused ones.
    pub(super) fn scan(&mut self, all: bool) -> Result<(), Problem> {
        self.attach_installed()?;
        let living = self.scanner.begin(all);
        self.libraries.retain(&living);
        let begin = Instant::now();
        self.turns.pass(begin);
        let slice = if all { FIRST_SLICE } else { SLICE };
        while begin.elapsed() < slice
            && let Some((pid, owner)) = self.scanner.next(&self.turns)
        {
            self.look(pid, &owner)?;
        }
        self.refused.retain(|_, since| since.elapsed() < AGAIN);
        for file in self.libraries.unused() {
            if !self.standing.contains(&file) {
                let found = self.found.remove(&file);
                let path = found.map(|found| found.path).unwrap_or_default();
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
        if self.look_at_new()? {
            self.complete_at = self.read_at;
        }
        let lost = |what| self.reader.lost(what).unwrap_or_default();
        let state = ProbeState::On {
            libraries: self.libraries.count() as u32,
            lost_news: lost(Lost::News),
            lost_calls: lost(Lost::Calls),
        };
        let books = &self.reader.books;
        let is_trusted = |file| self.found.get(&file).is_none_or(|found| found.is_trusted);
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
                trusted: process.foreign == 0 && self.libraries.drivers(pid).all(is_trusted),
                held: books.held(id),
            });
        }
        processes.sort_by_key(|process| process.pid);
        Ok(ProbeSample {
            state,
            complete_at: self.complete_at,
            processes,
        })
    }

    /// Looks at the processes that the probes count and that no scan has looked at. Returns whether there
    /// was time for all of them.
    fn look_at_new(&mut self) -> Result<bool, Problem> {
        let counted = self.reader.books.processes.values();
        let pids = counted.map(|process| process.id_here);
        let strangers: Vec<_> = pids
            .filter(|pid| *pid != 0 && !self.libraries.knows(*pid))
            .collect();
        let begin = Instant::now();
        let mut all = true;
        for pid in strangers {
            let Some(owner) = Owner::of(pid) else {
                continue;
            };
            if self.turns.rank(&owner).is_some() && begin.elapsed() < SLICE {
                self.look(pid, &owner)?;
            } else {
                all = false;
            }
        }
        Ok(all)
    }

    /// Looks at a process, at its owner's cost.
    fn look(&mut self, pid: u32, owner: &Owner) -> Result<(), Problem> {
        let begin = Instant::now();
        if let Some(seen) = self.scanner.look_now(pid) {
            self.record_seen(&seen, owner)?;
        }
        self.turns.charge(owner, begin.elapsed());
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
                self.attach(id, &file, &folder.join(LIBRARY), None)?;
            }
        }
        self.standing = standing;
        Ok(())
    }

    /// Records what a look found, and attaches to the drivers that are new.
    fn record_seen(&mut self, seen: &Seen, owner: &Owner) -> Result<(), Problem> {
        let begin = Instant::now();
        let mut drivers = BTreeSet::new();
        for mapped in &seen.mapped {
            let is_new = !self.libraries.is_attached(mapped.file)
                && !self.refused.contains_key(&mapped.file);
            if is_new && begin.elapsed() >= LOOK {
                self.scanner.look_again(seen.process.pid);
            } else if is_new {
                // Where it cannot be opened now, perhaps at the next look.
                if let Some(file) = open_mapped(seen.process.pid, mapped) {
                    self.attach(mapped.file, &file, Path::new(&mapped.path), Some(owner))?;
                }
            }
            if self.libraries.is_attached(mapped.file) {
                drivers.insert(mapped.file);
            }
        }
        self.libraries.record_look(seen.process, seen.at, drivers);
        Ok(())
    }

    fn refuse(&mut self, file: FileId) {
        self.refused.insert(file, Instant::now());
    }

    /// Whether one more library may be probed for an owner.
    fn has_room(&self, owner: &Owner) -> bool {
        let is_own = |found: &&Found| found.owner == *owner;
        let own = self.found.values().filter(is_own).count();
        let attached = self.libraries.count();
        let is_machine = *owner == Owner::machine();
        attached < MOST && (is_machine || own < share(attached.saturating_sub(own)))
    }

    /// Puts the probes on a file, if it is a driver: one that a process of some owner maps, or without one the
    /// machine's own.
    fn attach(
        &mut self,
        id: FileId,
        file: &File,
        path: &Path,
        mapped_by: Option<&Owner>,
    ) -> Result<(), Problem> {
        if self.refused.contains_key(&id) {
            return Ok(());
        }
        let functions = file.try_clone().ok();
        let functions = functions.and_then(|file| library::functions(file, &self.wanted));
        let Some(functions) = functions else {
            self.refuse(id);
            return Ok(());
        };
        let owner = mapped_by.cloned().unwrap_or_else(Owner::machine);
        if !self.has_room(&owner) {
            if !std::mem::replace(&mut self.crowded, true) {
                tracing::warn!(
                    path = %path.display(),
                    "of {MOST} copies of the driver that are probed at a time each user has at most half of \
                     what others leave: further ones are not, and what their users hold is known from NVML \
                     alone"
                );
            }
            self.refuse(id);
            return Ok(());
        }
        let file_owner = file.metadata().ok().map(|file| file.uid());
        // The machine's own is the administrator's choice, wherever it lies.
        let is_trusted = mapped_by.is_none() || is_of_root(file);
        match self.programs.attach(id, file, &functions, is_trusted) {
            Ok(()) => {
                let functions = functions.len();
                tracing::debug!(functions, path = %path.display(), "probes attached");
                let found = Found {
                    path: path.to_owned(),
                    owner,
                    is_trusted,
                };
                self.found.insert(id, found);
                self.libraries.record_attached(id, clock::boot_ticks());
                Ok(())
            }
            // The daemon may not attach at all: no other library would fare better. What attaching to a
            // stranger's file says proves nothing.
            Err(problem @ Problem::Attach { .. }) if is_trusted => Err(problem),
            Err(problem) => {
                let file_owner = file_owner.unwrap_or(ANYBODY);
                if may_say(file_owner, "driver") {
                    tracing::warn!(path = %path.display(), "a driver cannot be probed: {problem}");
                }
                self.refuse(id);
                Ok(())
            }
        }
    }
}

/// How many libraries may be probed for an owner where so many are for others: half of what they leave.
fn share(others: usize) -> usize {
    MOST.saturating_sub(others) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_owners_come_none_takes_all_that_is_left() {
        let mut others = 0;
        for _ in 0..6 {
            let own = share(others);
            assert!(own > 0 && others + own < MOST, "{others} of others");
            others += own;
        }
        assert_eq!(share(MOST), 0);
    }
}
