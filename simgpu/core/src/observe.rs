//! Looking at a machine from outside: what management libraries show, and the
//! independent witness for tests.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use crate::config::{Config, GRANULE};
use crate::machine::{Counters, EngineKind, Lately, Machine, MachineError, Watch};

/// A view of an existing machine. It takes no slot and no memory.
#[derive(Debug)]
pub struct Observer {
    machine: Machine,
    watch: Mutex<Watch>,
}

/// Memory and engines of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuUsage {
    /// All device memory, bytes.
    pub total_bytes: u64,
    /// What processes own of it, contexts included, bytes.
    pub used_bytes: u64,
    /// All time the engines were ever reserved, ns: host to device, device to
    /// host, compute.
    pub busy_ns: [u64; 3],
}

/// A process that is, or was, attached.
#[derive(Debug)]
pub struct ProcessUsage<'a> {
    /// Its pid.
    pub pid: u32,
    /// Whether its memory still counts as its own.
    pub is_live: bool,
    /// Its counters by GPU. They go on changing while it lives.
    pub gpus: Vec<&'a Counters>,
}

/// A running process that holds memory of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its pid.
    pub pid: u32,
    /// All it holds there, contexts included, bytes.
    pub bytes: u64,
    /// How it kept the compute engine busy of late.
    pub compute: Lately,
}

const ENGINES: [EngineKind; 3] = [
    EngineKind::HostToDevice,
    EngineKind::DeviceToHost,
    EngineKind::Compute,
];

impl Observer {
    /// Opens the machine that some process made in `dir`.
    pub fn open(dir: &Path) -> Result<Self, MachineError> {
        Machine::open_existing(dir).map(|machine| Self {
            machine,
            watch: Mutex::default(),
        })
    }

    /// What the machine is made of.
    pub fn config(&self) -> &Config {
        self.machine.config()
    }

    fn reap(&self) {
        let watch = self.watch.lock();
        self.machine
            .reap_watched(&mut watch.unwrap_or_else(PoisonError::into_inner));
    }

    /// Usage of each GPU, after the dead have given theirs back.
    pub fn gpus(&self) -> Vec<GpuUsage> {
        self.reap();
        (0..self.config().gpus.len())
            .map(|gpu| {
                let total_bytes = self.machine.gpu(gpu).memory.0;
                let free_bytes = self.machine.free_granules(gpu) as u64 * GRANULE;
                GpuUsage {
                    total_bytes,
                    used_bytes: total_bytes - free_bytes,
                    busy_ns: ENGINES.map(|engine| self.machine.busy_ns(gpu, engine)),
                }
            })
            .collect()
    }

    /// Whether `dir` still has this machine, and not another one or none.
    pub fn is_in(&self, dir: &Path) -> bool {
        self.machine.is_in(dir)
    }

    /// How busy each engine of a GPU was of late, in the order of
    /// [`GpuUsage::busy_ns`].
    pub fn engines_lately(&self, gpu: usize) -> [Lately; 3] {
        ENGINES.map(|engine| self.machine.engine_lately(gpu, engine))
    }

    /// Who holds memory of a GPU, oldest slot first. What dead processes have
    /// not given back yet is used and nobody's, and so is shared memory that
    /// only those who imported it still hold.
    pub fn holders(&self, gpu: usize) -> Vec<Holder> {
        self.reap();
        let granules = self.machine.granules_by_tag(gpu);
        let processes = self.machine.processes().into_iter();
        let slots = processes
            .filter(|(slot, owner)| owner.is_live() && !self.machine.was_found_dead(*slot))
            .filter_map(|(slot, owner)| {
                let granules = *granules.get(&owner.tag(slot))?;
                let shared = self.machine.counters(gpu, slot).shared_bytes.load(Relaxed);
                Some(Holder {
                    pid: owner.pid,
                    bytes: granules as u64 * GRANULE + shared,
                    compute: self.machine.compute_lately(gpu, slot),
                })
            });
        // A process that has the driver twice has two slots and is still one.
        let mut holders: Vec<Holder> = Vec::new();
        for slot in slots {
            match holders.iter_mut().find(|holder| holder.pid == slot.pid) {
                Some(holder) => {
                    holder.bytes += slot.bytes;
                    holder.compute.busy_ns += slot.compute.busy_ns;
                }
                None => holders.push(slot),
            }
        }
        holders
    }

    /// All processes the machine remembers, the dead included, oldest slot first.
    pub fn processes(&self) -> Vec<ProcessUsage<'_>> {
        self.reap();
        let gpus = 0..self.config().gpus.len();
        self.machine
            .processes()
            .into_iter()
            .map(|(slot, owner)| ProcessUsage {
                pid: owner.pid,
                is_live: owner.is_live(),
                gpus: gpus
                    .clone()
                    .map(|gpu| self.machine.counters(gpu, slot))
                    .collect(),
            })
            .collect()
    }

    /// Bytes a process holds on a GPU, contexts included.
    pub fn process_bytes(&self, pid: u32, gpu: usize) -> u64 {
        self.processes()
            .iter()
            .filter(|process| process.pid == pid && process.is_live)
            .map(|process| process.gpus[gpu])
            .map(|counters| {
                counters.memory_bytes.load(Relaxed) + counters.context_bytes.load(Relaxed)
            })
            .sum()
    }
}
