//! Where the measurements stand: simulated machines of several scales, and programs on them whose
//! memory is moved at the bench's word.

use std::fmt::Write as _;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Puppet, Swapped, compile, wait_until};
use rtswap_wire::page::Direction;
use simgpu_core::Observer;
use simgpu_core::config::GpuConfig;

/// The simulated GPU's default divides sizes and bandwidths by this.
pub(crate) const SCALE: u64 = 32;
/// The driver's granularity in MiB, which stands for 64 MiB.
const GRANULE_MIB: u64 = 2;
/// No wait in the bench is longer, but for rounds of thousands.
pub(crate) const BOUND: Duration = Duration::from_mins(1);

/// How the simulated GPU stands for the paper's at one chunk size.
///
/// A chunk of it cannot be smaller than 2 MiB, which stands for 64 MiB. For a smaller one the whole
/// model runs slower: a copy of 2 MiB then stands for that of the smaller chunk, all costs of calls
/// are longer in the same measure, and what is measured is divided by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The chunk size that is meant, in MiB.
    pub meant_mib: u64,
    /// The chunk size on the simulated GPU, in MiB.
    pub chunk_mib: u64,
    /// By how much everything is slower than meant.
    pub slower: f64,
}

impl Scale {
    /// For chunks of `meant_mib` on the paper's machine.
    pub(crate) fn of(meant_mib: u64) -> Self {
        let chunk_mib = (meant_mib / SCALE).max(GRANULE_MIB);
        Self {
            meant_mib,
            chunk_mib,
            slower: (chunk_mib * SCALE) as f64 / meant_mib as f64,
        }
    }

    /// The chunk size on the simulated GPU, in bytes.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.chunk_mib << 20
    }

    /// The seconds that are meant by a measured duration.
    pub(crate) fn seconds(&self, measured: Duration) -> f64 {
        measured.as_secs_f64() / self.slower
    }

    /// GiB meant by so many chunks.
    pub(crate) fn gib(&self, chunks: u64) -> f64 {
        (chunks * self.meant_mib) as f64 / 1024.0
    }

    /// A simulated machine of this scale.
    pub(crate) fn machine(&self) -> Result<Machine> {
        let gpu = GpuConfig::default();
        self.other_machine((1.0, 1.0), gpu.memory.0 >> 20)
    }

    /// One with a share of the modelled link's speed each way, and so many MiB.
    pub(crate) fn other_machine(&self, link: (f64, f64), memory_mib: u64) -> Result<Machine> {
        let gpu = GpuConfig::default();
        let machine = Machine::new(MachineOptions {
            chunk_mib: self.chunk_mib,
            memory_mib,
            ..MachineOptions::default()
        })?;
        let costs = [
            ("copy_us", gpu.copy_us),
            ("create_us", gpu.create_us),
            ("map_us", gpu.map_us),
            ("access_us", gpu.access_us),
            ("unmap_us", gpu.unmap_us),
            ("release_us", gpu.release_us),
        ];
        let mut text = format!(
            "version = 1\nmemory = \"{memory_mib}MiB\"\nd2h_gib_per_s = {:?}\nh2d_gib_per_s = {:?}\n",
            gpu.d2h_gib_per_s * link.0,
            gpu.h2d_gib_per_s * link.1
        );
        for (key, us) in costs {
            writeln!(text, "{key} = {:?}", us * self.slower)?;
        }
        fs::write(machine.path("simgpu.toml"), text)?;
        Ok(machine)
    }
}

/// The modelled link in GiB/s as meant, out and in.
pub(crate) fn link_gib_per_s() -> (f64, f64) {
    let gpu = GpuConfig::default();
    let scale = SCALE as f64;
    (gpu.d2h_gib_per_s * scale, gpu.h2d_gib_per_s * scale)
}

/// Refuses to measure on a host that the modelled link is no small part of: its own speed would be
/// in the figures.
pub(crate) fn check_host() -> Result<()> {
    let (out, into) = link_gib_per_s();
    let link = out.max(into) / SCALE as f64;
    let mut host = 0.0_f64;
    for _ in 0..5 {
        let rate = simgpu_core::host_copy_bytes_per_s().context("measuring the host's memory")?;
        host = host.max(rate / f64::from(1 << 30));
        if link <= host / 4.0 {
            return Ok(());
        }
    }
    anyhow::bail!(
        "this host copies {host:.2} GiB/s now, and the simulated link of {link:.2} GiB/s may be at \
         most a quarter of that: run it on an idle or a faster machine"
    )
}

/// The source of a C program of this bench.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("probes")
        .join(format!("{name}.c"))
}

/// Driver calls of one process, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls(pub [u64; 9]);

impl Calls {
    /// The kinds. `wait` is for an event, `sync` for all of a stream or of a context.
    pub(crate) const KINDS: [&str; 9] = [
        "create", "map", "access", "copy", "record", "wait", "unmap", "release", "sync",
    ];

    /// So far.
    pub(crate) fn of(machine: &Machine, pid: u32) -> Result<Self> {
        let observer = Observer::open(&machine.simgpu_dir())?;
        let processes = observer.processes();
        let process = processes.iter().rev().find(|process| process.pid == pid);
        let gpu = process.context("the simulated GPU does not know it")?.gpus[0];
        let sum = |counters: &[&std::sync::atomic::AtomicU64]| {
            counters.iter().map(|counter| counter.load(Relaxed)).sum()
        };
        Ok(Self([
            sum(&[&gpu.creates]),
            sum(&[&gpu.maps]),
            sum(&[&gpu.accesses]),
            sum(&[&gpu.copies]),
            sum(&[&gpu.event_records]),
            sum(&[&gpu.event_syncs]),
            sum(&[&gpu.unmaps]),
            sum(&[&gpu.releases]),
            sum(&[&gpu.stream_syncs, &gpu.context_syncs]),
        ]))
    }

    /// Those since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut calls = self.0;
        for (now, before) in calls.iter_mut().zip(before.0) {
            *now -= before;
        }
        Self(calls)
    }

    /// All of them.
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that wait for all of a stream or of a context.
    pub(crate) fn syncs(&self) -> u64 {
        self.0[8]
    }
}

/// A program whose memory is moved at the bench's word.
pub(crate) struct Held {
    program: Program,
    puppet: Puppet,
    chunk: u64,
}

impl Held {
    /// Starts one with `chunks` chunks under the agent, and has their backing store pinned.
    pub(crate) fn start(
        machine: &Machine,
        listener: &OwnedFd,
        scale: Scale,
        chunks: u64,
    ) -> Result<Self> {
        let uuid = machine.wire_uuid()?;
        let program = compile(&source("hold"), &machine.path(""), &machine.driver_dir())?;
        let mut command = machine.preloaded(program);
        command.args([chunks.to_string(), scale.chunk_mib.to_string()]);
        let mut program = Program::start(command)?;
        let chunk = scale.chunk_bytes();
        let puppet = Puppet::accept(listener, uuid, chunk, machine.memory_bytes())?;
        let_run(&puppet, &mut program, "ready")?;
        puppet.set_volume(chunks * chunk)?;
        Ok(Self {
            program,
            puppet,
            chunk,
        })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Has all swapped until `chunks` chunks are in the backing store.
    pub(crate) fn swap(&mut self, direction: Direction, chunks: u64) -> Result<Swapped> {
        self.puppet.swap(direction, chunks * self.chunk)
    }

    /// Asks for it only.
    pub(crate) fn begin(&mut self, direction: Direction, chunks: u64) -> Result<()> {
        self.puppet.begin_swap(direction, chunks * self.chunk)
    }

    /// Waits for what was asked for.
    pub(crate) fn end(&mut self) -> Result<Swapped> {
        self.puppet.end_swap()
    }

    /// Lets it end, and hears that no word of its memory changed.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.swap(Direction::In, 0)?;
        self.program.say("\n")?;
        let_run(&self.puppet, &mut self.program, "wrong_words")?;
        let report = self.program.finish(BOUND)?.json()?;
        ensure!(
            report["wrong_words"] == 0,
            "memory came back changed: {report}"
        );
        Ok(())
    }
}

/// Grants each job until the program has printed `word` and its last job is complete.
pub(crate) fn let_run(puppet: &Puppet, program: &mut Program, word: &str) -> Result<()> {
    let until = std::time::Instant::now() + BOUND;
    loop {
        let jobs = puppet.block().agent.jobs();
        let open = jobs.filter(|jobs| jobs.requested != jobs.completed);
        match open {
            Some(jobs) => puppet.grant(jobs.requested)?,
            None if program.stdout().contains(word) => return Ok(()),
            None => {}
        }
        if !program.is_running() {
            // Its last words may still be on their way.
            wait_until("the end of its words", BOUND, || program.is_silent())?;
            let said = program.stdout();
            ensure!(
                said.contains(word),
                "no {word:?} in: {said}{}",
                program.stderr()
            );
            return Ok(());
        }
        ensure!(
            std::time::Instant::now() < until,
            "no {word:?} in: {}{}",
            program.stdout(),
            program.stderr()
        );
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_chunks_are_slower_and_large_ones_larger() {
        let small = Scale::of(2);
        assert_eq!((small.chunk_mib, small.slower), (2, 32.0));
        let paper = Scale::of(64);
        assert_eq!((paper.chunk_mib, paper.slower), (2, 1.0));
        let large = Scale::of(256);
        assert_eq!((large.chunk_mib, large.slower), (8, 1.0));
        assert!((large.gib(4) - 1.0).abs() < 1e-9);
    }
}
