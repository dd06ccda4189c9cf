//! The prebuilt probe programs, loaded and attached as a reader would, for tests and measurements.
//!
//! Needs root, uprobes and BPF. [`missing`] says which is not there.

pub mod elf;
pub mod prologues;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::uprobe::{UProbeAttachLocation, UProbeScope};
use aya::programs::{TracePoint, UProbe};
use aya::{Ebpf, EbpfLoader, Pod};
use rtswap_e2e::{is_initial_pid_namespace, tracefs};
use rtswap_probe_abi::functions::{FUNCTIONS, Function, TRACEPOINTS};
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::{
    Account, Bytes, Config, Exit, LOSSES, News, Object, Process, SHARES, TELL_CALLS, TELL_HANDED,
};
pub use rtswapd::source::probes::Place;
use rtswapd::source::probes::{Multi, Shares, functions};

/// The object as it is checked in.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../ebpf/prebuilt/rtswap-probes.x86_64.o"
));

/// How the probes are loaded.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// [`Config::flags`].
    pub flags: u32,
    /// Sizes of maps that are not the object's own.
    pub sizes: &'static [(&'static str, u32)],
    /// How many entries owners share, by [`rtswap_probe_abi::records::Share`].
    pub capacities: [u32; SHARES],
    /// By perf events, as on kernels without `uprobe_multi` (before Linux 6.6).
    pub events: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            flags: TELL_CALLS | TELL_HANDED,
            sizes: &[],
            capacities: maps::CAPACITIES,
            events: false,
        }
    }
}

/// Probes in the kernel, attached as the daemon does it: by `uprobe_multi` where the kernel can.
pub struct Probes {
    ebpf: Ebpf,
    multi: Option<Multi>,
    links: Vec<Box<dyn Send>>,
}

impl Drop for Probes {
    /// Each link ends only when the kernel has waited for every CPU: all wait together.
    fn drop(&mut self) {
        std::thread::scope(|scope| {
            for link in self.links.drain(..) {
                scope.spawn(move || drop(link));
            }
        });
    }
}

/// What this machine lacks for them, or `None`.
pub fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root");
    }
    if tracefs().is_none() {
        return Some("no tracefs");
    }
    if !is_initial_pid_namespace() {
        return Some("a PID namespace, in which pids are not those that the probes tell");
    }
    None
}

fn group_dead_at() -> Result<u32> {
    let file = tracefs()
        .context("no tracefs")?
        .join("events/sched/sched_process_exit/format");
    let text = fs::read_to_string(file)?;
    let field = text.lines().find(|line| line.contains("group_dead;"));
    let offset = field.and_then(|line| {
        line.split("offset:")
            .nth(1)?
            .split(';')
            .next()?
            .parse()
            .ok()
    });
    Ok(offset.unwrap_or(0))
}

impl Probes {
    /// Loads all programs and attaches those of the processes' ends.
    pub fn load(options: Options) -> Result<Self> {
        let namespace = fs::metadata("/proc/self/ns/pid")?;
        // The initial PID namespace's inode number is fixed (include/linux/proc_ns.h).
        let initial = namespace.ino() == 0xEFFF_FFFC;
        let config = Config {
            namespace_device: namespace.dev(),
            namespace_inode: if initial { 0 } else { namespace.ino() },
            watermark_bytes: 0,
            group_dead_at: group_dead_at()?,
            flags: options.flags,
            capacities: options.capacities,
            subordinates: 0,
            zero: 0,
        };
        let mut loader = EbpfLoader::new();
        loader.override_global(maps::CONFIG, &config, true);
        for (map, size) in options.sizes {
            loader.map_max_entries(map, *size);
        }
        let mut ebpf = loader.load(OBJECT)?;
        for point in TRACEPOINTS {
            let program: &mut TracePoint = program(&mut ebpf, point.program)?;
            program.load().context(point.program)?;
            program.attach(point.category, point.name)?;
        }
        let mut probes = Self {
            multi: if options.events {
                None
            } else {
                Multi::load(&ebpf, OBJECT)?
            },
            ebpf,
            links: Vec::new(),
        };
        if probes.multi.is_none() {
            probes.load_each()?;
        }
        Ok(probes)
    }

    /// Loads the programs for perf events.
    fn load_each(&mut self) -> Result<()> {
        for name in FUNCTIONS.iter().flat_map(|on| [on.entry, on.exit]) {
            let program: &mut UProbe = program(&mut self.ebpf, name)?;
            if program.fd().is_err() {
                program.load().context(name)?;
            }
        }
        Ok(())
    }

    /// Attaches to all functions that the library has, where the daemon would.
    pub fn attach(&mut self, library: &Path) -> Result<usize> {
        self.attach_to(library, FUNCTIONS, |place| place.probe)
    }

    /// Attaches to these functions where the library has them, each at the offset that `at` says; to how many.
    pub fn attach_to(
        &mut self,
        library: &Path,
        wanted: &'static [Function],
        at: impl Fn(Place) -> u64,
    ) -> Result<usize> {
        let places = places(library, wanted)?;
        if let Some(multi) = &self.multi {
            let places = places.iter().map(|(on, place)| (at(*place), *on)).collect();
            let [exits, entries] = multi.attach(&File::open(library)?, &places, true)?;
            self.links.push(Box::new(entries));
            self.links.push(Box::new(exits));
            return Ok(places.len());
        }
        for (function, place) in &places {
            for name in [function.exit, function.entry] {
                let program: &mut UProbe = program(&mut self.ebpf, name)?;
                let location = UProbeAttachLocation::AbsoluteOffset(at(*place));
                let link = program.attach(location, library, UProbeScope::AllProcesses)?;
                self.links.push(Box::new(program.take_link(link)?));
            }
        }
        Ok(places.len())
    }

    /// How many instructions the kernel's verifier went through, by program; its limit is a million.
    pub fn verified(&mut self) -> Result<BTreeMap<String, u32>> {
        self.load_each()?;
        let count = |(name, program): (&str, &aya::programs::Program)| {
            let verified = program.info()?.verified_instruction_count();
            Ok((name.to_owned(), verified.context("Linux before 5.16")?))
        };
        // Those that pass on to the others are not loaded here.
        let loaded = self.ebpf.programs();
        let loaded = loaded.filter(|(_, program)| program.fd().is_ok());
        loaded.map(count).collect()
    }

    /// What the owners have taken; once.
    pub fn shares(&mut self) -> Result<Shares> {
        Ok(Shares::new(&mut self.ebpf)?)
    }

    /// Live bytes of all accounts.
    pub fn bytes(&self) -> Result<BTreeMap<Account, Bytes>> {
        self.all(maps::BYTES)
    }

    /// Live bytes of a process by kind, whatever its id was used for before.
    pub fn bytes_of(&self, id: u32) -> Result<Bytes> {
        let mut sum = Bytes::ZERO;
        for (account, bytes) in self.bytes()? {
            if account.process == id {
                for (sum, live) in sum.live.iter_mut().zip(bytes.live) {
                    *sum += live;
                }
            }
        }
        Ok(sum)
    }

    /// The processes that run.
    pub fn processes(&self) -> Result<BTreeMap<u32, Process>> {
        self.all(maps::PROCESSES)
    }

    /// How many entries a map of [`Object`]s has.
    pub fn entries<V: Pod>(&self, map: &str) -> Result<usize> {
        Ok(self.all::<Object, V>(map)?.len())
    }

    /// Every entry of a map.
    pub fn all<K: Pod + Ord, V: Pod>(&self, name: &str) -> Result<BTreeMap<K, V>> {
        let map: HashMap<&MapData, K, V> = self.ebpf.map(name).context("no map")?.try_into()?;
        Ok(map.iter().collect::<Result<_, _>>()?)
    }

    /// What was lost, by [`rtswap_probe_abi::records::Lost`].
    pub fn lost(&self) -> Result<Vec<u64>> {
        let map: PerCpuArray<&MapData, u64> =
            self.ebpf.map(maps::LOST).context("no map")?.try_into()?;
        let sum = |index| Ok(map.get(&index, 0)?.iter().sum());
        (0..LOSSES).map(sum).collect()
    }

    /// Takes the exits that are in their ring.
    pub fn exits(&mut self) -> Result<Vec<Exit>> {
        Ok(self
            .ring(maps::EXITS)?
            .iter()
            .filter_map(|bytes| Exit::read(bytes))
            .collect())
    }

    /// Takes the news that are in their ring.
    pub fn news(&mut self) -> Result<Vec<News>> {
        Ok(self
            .ring(maps::NEWS)?
            .iter()
            .filter_map(|bytes| News::read(bytes))
            .collect())
    }

    /// Takes all records of a ring.
    pub fn ring(&mut self, name: &str) -> Result<Vec<Vec<u8>>> {
        let mut ring: RingBuf<&mut MapData> =
            self.ebpf.map_mut(name).context("no ring")?.try_into()?;
        let mut records = Vec::new();
        while let Some(record) = ring.next() {
            records.push(record.to_vec());
        }
        Ok(records)
    }
}

/// Where a driver has these functions, those that are one with another left out: their programs would run twice.
pub fn places(
    library: &Path,
    wanted: &'static [Function],
) -> Result<Vec<(&'static Function, Place)>> {
    let file = File::open(library).with_context(|| library.display().to_string())?;
    let found = functions(file, &wanted.iter().map(|on| on.symbol).collect());
    let found = found.with_context(|| format!("{} is no driver", library.display()))?;
    let mut places: Vec<(&'static Function, Place)> = Vec::new();
    for on in wanted {
        if let Some(&place) = found.get(on.symbol)
            && places.iter().all(|(_, known)| known.start != place.start)
        {
            places.push((on, place));
        }
    }
    Ok(places)
}

fn program<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = aya::programs::ProgramError>,
{
    let program = ebpf
        .program_mut(name)
        .with_context(|| format!("no program {name}"))?;
    Ok(program.try_into()?)
}
