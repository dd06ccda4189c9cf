//! The programs: loaded once, and put on the functions of each driver library by its inode.
//!
//! By `multi` where the kernel can. Else by perf events, one for each place and file, for all processes
//! (pid −1, CPU 0). Either way the kernel runs the program wherever the file is mapped, in any namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use aya::programs::uprobe::{UProbeAttachLocation, UProbeScope};
use aya::programs::{Program, TracePoint, UProbe};
use aya::{Ebpf, EbpfLoader};
use rtswap_probe_abi::functions::{FUNCTIONS, Function, TRACEPOINTS};
use rtswap_probe_abi::maps::{CAPACITIES, CONFIG};
use rtswap_probe_abi::records::{Config, TELL_CALLS};

use super::libraries::FileId;
use super::library::Place;
use super::multi::Multi;
use super::problem::Problem;
use super::subordinates;

/// The programs, as `cargo xtask ebpf` builds them from ebpf/.
#[cfg(target_arch = "x86_64")]
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../ebpf/prebuilt/rtswap-probes.x86_64.o"
));

/// They read a call's registers, and are built for one kind of machine.
#[cfg(not(target_arch = "x86_64"))]
static OBJECT: &[u8] = &[];

/// Shows that the kernel has uprobes as perf events.
const UPROBES: &str = "/sys/bus/event_source/devices/uprobe/type";

/// The inode of the initial PID namespace: PROC_PID_INIT_INO in the kernel's proc_ns.h. From there
/// all processes have a number, from any other only its own.
const INITIAL: u64 = 0xEFFF_FFFC;

/// Where tracefs is, or has been.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Loaded programs and what they are attached to.
pub(super) struct Programs {
    ebpf: Ebpf,
    /// The programs by `uprobe_multi`, where the kernel has that; else aya has them.
    multi: Option<Multi>,
    links: BTreeMap<FileId, Links>,
    releases: Sender<Links>,
}

/// Holds a program where it is attached, until dropped.
type Link = Box<dyn Send>;

/// What holds the programs on one file.
#[derive(Default)]
struct Links {
    entries: Vec<Link>,
    exits: Vec<Link>,
}

/// Threads that drop links.
const RELEASING: usize = 4;

/// Starts the threads that drop links: for each one the kernel waits until no CPU can be running the program
/// there any more. That takes 10 ms, on a busy machine 200; for perf events it holds a lock meanwhile. Waits beside
/// each other end together.
fn start_releasing() -> io::Result<Sender<Links>> {
    let (release, released) = channel::<Links>();
    let released = Arc::new(Mutex::new(released));
    for _ in 0..RELEASING {
        let released = Arc::clone(&released);
        let next = move || {
            let released = released.lock().unwrap_or_else(PoisonError::into_inner);
            released.recv()
        };
        thread::Builder::new()
            .name("probes-off".into())
            .spawn(move || {
                while let Ok(Links { entries, exits }) = next() {
                    // Entries first, or calls would seem to hang.
                    drop(entries);
                    drop(exits);
                }
            })?;
    }
    Ok(release)
}

impl Programs {
    /// Loads all programs, and attaches those that watch for the ends of processes; no library is probed
    /// yet. A change of `watermark` bytes or more wakes the reader at once.
    pub(super) fn load(watermark: u64) -> Result<Self, Problem> {
        if OBJECT.is_empty() {
            return Err(Problem::Machine);
        }
        let path = Path::new(UPROBES);
        if !path.exists() {
            let path = path.to_owned();
            return Err(Problem::Kernel { path });
        }
        let namespace = fs::metadata("/proc/self/ns/pid")?;
        let subordinates = subordinates::read();
        let config = Config {
            namespace_device: namespace.dev(),
            namespace_inode: match namespace.ino() {
                INITIAL => 0,
                inode => inode,
            },
            watermark_bytes: watermark,
            group_dead_at: group_dead_at()?,
            flags: TELL_CALLS,
            capacities: CAPACITIES,
            subordinates: subordinates.len() as u32,
            zero: 0,
        };
        let mut ebpf = EbpfLoader::new()
            .override_global(CONFIG, &config, true)
            .load(OBJECT)
            .map_err(|error| Problem::of_load(&error))?;
        subordinates::put(&mut ebpf, &subordinates)?;
        let mut programs = Self {
            multi: Multi::load(&ebpf, OBJECT)?,
            ebpf,
            links: BTreeMap::new(),
            releases: start_releasing()?,
        };
        for tracepoint in TRACEPOINTS {
            let program: &mut TracePoint = programs.program(tracepoint.program)?;
            program.load().map_err(|error| Problem::of_load(&error))?;
            program
                .attach(tracepoint.category, tracepoint.name)
                .map_err(|error| Problem::of_attach(&error))?;
        }
        if programs.multi.is_some() {
            return Ok(programs);
        }
        let names = FUNCTIONS.iter().flat_map(|on| [on.entry, on.exit]);
        for name in names.collect::<BTreeSet<_>>() {
            let program: &mut UProbe = programs.program(name)?;
            program.load().map_err(|error| Problem::of_load(&error))?;
        }
        Ok(programs)
    }

    /// The loaded object, from which the maps are taken.
    pub(super) fn object(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// Attaches to a driver's `functions`, by symbol. All or none. By perf events nothing tells which driver a
    /// process calls.
    pub(super) fn attach(
        &mut self,
        id: FileId,
        file: &File,
        functions: &BTreeMap<String, Place>,
        is_trusted: bool,
    ) -> Result<(), Problem> {
        // Where two symbols are one place, the programs would run twice.
        let mut places = BTreeMap::new();
        for on in FUNCTIONS {
            if let Some(place) = functions.get(on.symbol) {
                places.entry(place.probe).or_insert(on);
            }
        }
        let mut links = Links::default();
        let attached = match &self.multi {
            Some(multi) => multi
                .attach(file, &places, is_trusted)
                .map(|[exits, entries]| {
                    links.exits.push(Box::new(exits));
                    links.entries.push(Box::new(entries));
                })
                .map_err(|error| Problem::of_attach(&error)),
            None => self.attach_each(file, &places, &mut links),
        };
        match attached {
            Ok(()) => drop(self.links.insert(id, links)),
            Err(_) => self.release(links),
        }
        attached
    }

    /// A perf event for each place's entry and for its return.
    fn attach_each(
        &mut self,
        file: &File,
        places: &BTreeMap<u64, &'static Function>,
        links: &mut Links,
    ) -> Result<(), Problem> {
        // The file itself, whatever lies at its path by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut attach = |name, offset, links: &mut Vec<Link>| {
            let location = UProbeAttachLocation::AbsoluteOffset(offset);
            let program: &mut UProbe = self.program(name)?;
            let link = program
                .attach(location, &path, UProbeScope::AllProcesses)
                .and_then(|link| program.take_link(link));
            let link = link.map_err(|error| Problem::of_attach(&error))?;
            links.push(Box::new(link));
            Ok(())
        };
        // The return first: a call counted at its entry alone would seem to hang.
        places.iter().try_for_each(|(&offset, on)| {
            attach(on.exit, offset, &mut links.exits)?;
            attach(on.entry, offset, &mut links.entries)
        })
    }

    /// Detaches from a file, on a thread of its own.
    pub(super) fn detach(&mut self, id: FileId) {
        if let Some(links) = self.links.remove(&id) {
            self.release(links);
        }
    }

    fn release(&self, links: Links) {
        // If the thread has ended, the links are dropped here.
        let _ = self.releases.send(links);
    }

    fn program<'a, P>(&'a mut self, name: &'static str) -> Result<&'a mut P, Problem>
    where
        &'a mut P: TryFrom<&'a mut Program>,
    {
        self.ebpf
            .program_mut(name)
            .and_then(|program| program.try_into().ok())
            .ok_or(Problem::Object { what: name })
    }
}

/// Where the kernel says in `sched_process_exit` that the last thread has gone; 0 before Linux 6.14
/// or so, which does not.
fn group_dead_at() -> Result<u32, Problem> {
    let mut read = TRACEFS.iter().map(|tracefs| {
        fs::read_to_string(format!("{tracefs}/events/sched/sched_process_exit/format"))
    });
    let format = read.find_map(Result::ok);
    let format = format.ok_or_else(|| Problem::Tracefs {
        cause: io::Error::from(rustix::io::Errno::NOENT),
    })?;
    Ok(offset_of(&format, "group_dead").unwrap_or_default())
}

/// The offset of a field in a tracepoint's format.
fn offset_of(format: &str, field: &str) -> Option<u32> {
    let line = format.lines().find(|line| {
        let declared = line.trim().strip_prefix("field:");
        let declared = declared.and_then(|rest| rest.split(';').next());
        declared.is_some_and(|text| text.split_whitespace().next_back() == Some(field))
    })?;
    let (_, rest) = line.split_once("offset:")?;
    rest.split(';').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sched_process_exit\nID: 321\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:bool group_dead;\toffset:32;\tsize:1;\tsigned:0;\n\n\
        print fmt: \"comm=%s group_dead=%s\", REC->comm, REC->group_dead ? \"true\" : \"false\"\n";

    #[test]
    fn a_field_is_where_the_format_says() {
        assert_eq!(offset_of(FORMAT, "group_dead"), Some(32));
        assert_eq!(offset_of(FORMAT, "pid"), Some(24));
        assert_eq!(offset_of(FORMAT, "prio"), None);
        assert_eq!(offset_of("", "pid"), None);
    }
}
