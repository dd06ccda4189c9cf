//! The programs: loaded once, and put on the functions of each driver library by its inode.
//!
//! One perf event for each function and file, for all processes (pid −1, CPU 0): the kernel then
//! runs the program wherever the file is mapped, in any namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use aya::programs::uprobe::{UProbeAttachLocation, UProbeLinkId, UProbeScope};
use aya::programs::{ProgramError, TracePoint, UProbe};
use aya::{Ebpf, EbpfLoader};
use rtswap_probe_abi::functions::{FUNCTIONS, TRACEPOINTS};
use rtswap_probe_abi::maps::CONFIG;
use rtswap_probe_abi::records::{Config, TELL_CALLS};

use super::libraries::FileId;
use super::problem::Problem;

/// The programs, as `cargo xtask ebpf` builds them from ebpf/.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../ebpf/prebuilt/rtswap-probes.x86_64.o"
));

/// Shows that the kernel has uprobes as perf events.
const UPROBES: &str = "/sys/bus/event_source/devices/uprobe/type";

/// Where tracefs is, or has been.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Loaded programs and what they are attached to.
pub(super) struct Programs {
    ebpf: Ebpf,
    links: BTreeMap<FileId, Vec<(&'static str, UProbeLinkId)>>,
}

impl Programs {
    /// Loads all and watches the ends of processes; no library yet. `watermark` is the number of bytes whose
    /// coming or going wakes the reader at once.
    pub(super) fn load(watermark: u64) -> Result<Self, Problem> {
        let path = Path::new(UPROBES);
        if !path.exists() {
            let path = path.to_owned();
            return Err(Problem::Kernel { path });
        }
        let namespace = fs::metadata("/proc/self/ns/pid")?;
        let config = Config {
            namespace_device: namespace.dev(),
            namespace_inode: namespace.ino(),
            watermark_bytes: watermark,
            group_dead_at: group_dead_at()?,
            flags: TELL_CALLS,
        };
        let ebpf = EbpfLoader::new()
            .override_global(CONFIG, &config, true)
            .load(OBJECT)
            .map_err(|error| Problem::of_load(&error))?;
        let mut programs = Self {
            ebpf,
            links: BTreeMap::new(),
        };
        for tracepoint in TRACEPOINTS {
            let program: &mut TracePoint = programs
                .ebpf
                .program_mut(tracepoint.program)
                .and_then(|program| program.try_into().ok())
                .ok_or(Problem::Object {
                    what: tracepoint.program,
                })?;
            program.load().map_err(|error| Problem::of_program(&error))?;
            program
                .attach(tracepoint.category, tracepoint.name)
                .map_err(|error| Problem::of_attach(&error))?;
        }
        let names = FUNCTIONS.iter().flat_map(|on| [on.entry, on.exit]);
        for name in names.collect::<BTreeSet<_>>() {
            let program = programs.program(name)?;
            program.load().map_err(|error| Problem::of_program(&error))?;
        }
        Ok(programs)
    }

    /// For the maps, which are taken out of it.
    pub(super) fn object(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// Attaches to a driver's `functions`, offsets by symbol. All or none.
    pub(super) fn attach(
        &mut self,
        id: FileId,
        file: &File,
        functions: &BTreeMap<String, u64>,
    ) -> Result<(), Problem> {
        // The file itself, whatever lies at its path by now.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        for on in FUNCTIONS {
            let Some(&offset) = functions.get(on.symbol) else {
                continue;
            };
            // The return first: a call whose return is not watched would seem to hang.
            for name in [on.exit, on.entry] {
                let location = UProbeAttachLocation::AbsoluteOffset(offset);
                let program = self.program(name)?;
                match program.attach(location, &path, UProbeScope::AllProcesses) {
                    Ok(link) => self.links.entry(id).or_default().push((name, link)),
                    Err(error) => {
                        self.detach(id);
                        return Err(Problem::of_attach(&error));
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets go of a file.
    pub(super) fn detach(&mut self, id: FileId) {
        // Entries first, or calls would seem to hang.
        for (name, link) in self.links.remove(&id).into_iter().flatten().rev() {
            let detached = self
                .program(name)
                .map_err(|problem| problem.to_string())
                .and_then(|program| {
                    let detached = program.detach(link);
                    detached.map_err(|error: ProgramError| error.to_string())
                });
            if let Err(error) = detached {
                tracing::warn!(program = name, "a probe does not come off: {error}");
            }
        }
    }

    fn program(&mut self, name: &'static str) -> Result<&mut UProbe, Problem> {
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
        cause: std::io::Error::from(rustix::io::Errno::NOENT),
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
