//! The agent's own movement, asked for word by word in the daemon's place: from the request to its acknowledgement.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_conformance::expect;
use rtswap_conformance::gpu::Gpu;
use rtswap_e2e::{Program, Puppet};
use rtswap_wire::page::Direction;
use tempfile::TempDir;

use crate::raw::rate;
use crate::report::Rates;
use crate::{MIB, Options};

/// A holder under the agent whose strings are ours.
struct Held {
    program: Program,
    puppet: Puppet,
    bytes: u64,
}

/// Where agents come to, as they would to the daemon.
struct Place {
    folder: TempDir,
    listener: OwnedFd,
    uuid: [u8; 16],
    memory: u64,
}

impl Place {
    fn new(gpu: &Gpu) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("rtswap-move-").tempdir()?;
        let listener = Puppet::listen(folder.path())?;
        let (mut uuid, mut memory) = ([0; 16], 0);
        expect!(cuDeviceGetUuid_v2(&raw mut uuid, gpu.device))?;
        expect!(cuDeviceTotalMem_v2(&raw mut memory, gpu.device))?;
        Ok(Self {
            folder,
            listener,
            uuid,
            memory: memory as u64,
        })
    }

    fn hold(&self, options: &Options, chunks: u64, chunk_mib: u64) -> Result<Held> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["hold", &chunks.to_string(), &chunk_mib.to_string()])
            .env("LD_PRELOAD", &options.agent)
            .env("RTSWAP_RUNTIME_DIR", self.folder.path());
        let mut program = Program::start(command)?;
        let (chunk, bytes) = (chunk_mib * MIB, chunks * chunk_mib * MIB);
        let puppet = Puppet::accept(&self.listener, self.uuid, chunk, self.memory)
            .with_context(|| program.stderr())?;
        puppet.grant_until(&mut program, "ready")?;
        puppet.set_volume(bytes)?;
        Ok(Held {
            program,
            puppet,
            bytes,
        })
    }
}

impl Held {
    fn swap(&mut self, direction: Direction) -> Result<Duration> {
        self.begin(direction)?;
        self.end()
    }

    fn begin(&mut self, direction: Direction) -> Result<()> {
        let target = match direction {
            Direction::Out => self.bytes,
            Direction::In => 0,
        };
        self.puppet.begin_swap(direction, target)
    }

    /// Waits for it; nothing but the copies of all chunks may have been saved.
    fn end(&mut self) -> Result<Duration> {
        let swapped = self.puppet.end_swap()?;
        ensure!(
            swapped.moved_bytes == self.bytes,
            "{} of {} bytes were copied",
            swapped.moved_bytes,
            self.bytes
        );
        Ok(swapped.took)
    }

    /// Has it look at its memory, which must be resident, and lets it end.
    fn finish(mut self) -> Result<()> {
        self.program.say("look\n")?;
        let finished = self.puppet.grant_to_the_end(self.program)?;
        ensure!(finished.status.success(), "{}", finished.stderr);
        let said = finished.stdout;
        ensure!(said.contains("wrong 0"), "memory came back changed: {said}");
        Ok(())
    }
}

/// Each direction alone.
pub(crate) fn alone(gpu: &Gpu, options: &Options, chunks: u64, chunk_mib: u64) -> Result<Rates> {
    let mut held = Place::new(gpu)?.hold(options, chunks, chunk_mib)?;
    let (mut out, mut into) = (Duration::MAX, Duration::MAX);
    for _ in 0..options.rounds {
        out = out.min(held.swap(Direction::Out)?);
        into = into.min(held.swap(Direction::In)?);
    }
    let bytes = held.bytes as usize;
    held.finish()?;
    Ok(Rates {
        out: rate(bytes, out),
        into: rate(bytes, into),
    })
}

/// ρ: one task out while another comes in, against the slower of the two alone.
pub(crate) fn duplex(gpu: &Gpu, options: &Options, chunks: u64, chunk_mib: u64) -> Result<f64> {
    let place = Place::new(gpu)?;
    let mut one = place.hold(options, chunks, chunk_mib)?;
    let mut other = place.hold(options, chunks, chunk_mib)?;
    other.swap(Direction::Out)?;
    let (mut alone, mut together) = (Duration::MAX, Duration::MAX);
    for _ in 0..options.rounds {
        let slower = one.swap(Direction::Out)?.max(one.swap(Direction::In)?);
        alone = alone.min(slower);
        for _ in 0..2 {
            one.begin(Direction::Out)?;
            other.begin(Direction::In)?;
            together = together.min(one.end()?.max(other.end()?));
            std::mem::swap(&mut one, &mut other);
        }
    }
    other.swap(Direction::In)?;
    one.finish()?;
    other.finish()?;
    Ok(alone.as_secs_f64() / together.as_secs_f64())
}
