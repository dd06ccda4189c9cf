//! Where everything lies in the shared file.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::meter::Meter;
use crate::config::{Config, GRANULE};

/// First bytes of the file.
pub(super) const MAGIC: [u8; 8] = *b"simgpu\0\0";
/// Changes whenever the layout does.
pub(super) const LAYOUT_VERSION: u32 = 5;
/// How many processes, living or remembered, the machine knows.
pub(super) const SLOTS: usize = 512;

pub(super) const CONFIG_AT: usize = 4096;
pub(super) const CONFIG_MAX: usize = SLOTS_AT - CONFIG_AT;
pub(super) const SLOTS_AT: usize = 64 << 10;
const GPUS_AT: usize = SLOTS_AT + SLOTS * size_of::<Slot>();

/// Start of the file. Only its atomics change after the creation.
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: [u8; 8],
    pub(super) layout_version: u32,
    pub(super) config_len: u32,
    pub(super) config_hash: u64,
    pub(super) next_generation: AtomicU32,
    /// How many shares were ever made; with 0, none need be looked for.
    pub(super) shares_made: AtomicU32,
}

/// One process.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// [`super::slots::Owner`] packed into a word.
    pub(super) owner: AtomicU64,
    /// Start time of the process in clock ticks since boot; 0 is not yet known.
    pub(super) start_ticks: AtomicU64,
    /// When its death was discovered, ns; 0 is living.
    pub(super) dead_at_ns: AtomicU64,
}

/// The words that all processes share of one GPU.
#[repr(C)]
pub(super) struct GpuWords {
    pub(super) engines: [Meter; 3],
    /// Up to when each engine is expected to copy, ns: see [`super::link`].
    pub(super) expected_ns: [AtomicU64; 3],
    /// Where the next search for a free granule starts.
    pub(super) hint: AtomicU64,
}

/// What one process did on one GPU since it attached: the witness that tests
/// trust. Readable after its death too, until the slot is needed again.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes copied from host to device.
    pub h2d_bytes: AtomicU64,
    /// Bytes copied from device to host.
    pub d2h_bytes: AtomicU64,
    /// Bytes copied on the device or between devices.
    pub d2d_bytes: AtomicU64,
    /// cuMemCreate calls that succeeded.
    pub creates: AtomicU64,
    /// cuMemRelease calls that succeeded.
    pub releases: AtomicU64,
    /// cuMemMap calls that succeeded.
    pub maps: AtomicU64,
    /// cuMemUnmap calls that succeeded.
    pub unmaps: AtomicU64,
    /// cuMemSetAccess calls that succeeded.
    pub accesses: AtomicU64,
    /// Allocations by cuMemAlloc and its like.
    pub allocs: AtomicU64,
    /// Frees by cuMemFree.
    pub frees: AtomicU64,
    /// Kernels run, those of graphs included.
    pub launches: AtomicU64,
    /// Bytes allocated by the process beyond its contexts: whole granules.
    pub memory_bytes: AtomicU64,
    /// Bytes its contexts take.
    pub context_bytes: AtomicU64,
    /// What of `memory_bytes` other processes can hold too.
    pub shared_bytes: AtomicU64,
    /// Copies asked for, of any kind.
    pub copies: AtomicU64,
    /// Sets asked for.
    pub sets: AtomicU64,
    /// Launches of graphs.
    pub graph_launches: AtomicU64,
    /// cuStreamSynchronize.
    pub stream_syncs: AtomicU64,
    /// cuEventSynchronize.
    pub event_syncs: AtomicU64,
    /// cuCtxSynchronize.
    pub context_syncs: AtomicU64,
    /// cuStreamWaitEvent: orders streams, and no thread waits.
    pub stream_waits: AtomicU64,
    /// cuEventRecord.
    pub event_records: AtomicU64,
    /// cuStreamQuery and cuEventQuery.
    pub queries: AtomicU64,
}

impl Counters {
    /// Calls that make, map, open, unmap and release physical memory.
    pub fn memory_calls(&self) -> u64 {
        let calls = [
            &self.creates,
            &self.maps,
            &self.accesses,
            &self.unmaps,
            &self.releases,
        ];
        calls.iter().map(|calls| calls.load(Relaxed)).sum()
    }

    /// Calls in which a thread waits for the GPU.
    pub fn synchronisations(&self) -> u64 {
        let calls = [&self.stream_syncs, &self.event_syncs, &self.context_syncs];
        calls.iter().map(|calls| calls.load(Relaxed)).sum()
    }

    /// A new process starts from nothing.
    pub(super) fn clear(&self) {
        // SAFETY: Counters is `repr(C)` of atomics alone, the size asserted below.
        let words = unsafe {
            std::slice::from_raw_parts(
                ptr::from_ref(self).cast::<AtomicU64>(),
                size_of::<Self>() / size_of::<AtomicU64>(),
            )
        };
        for word in words {
            word.store(0, Relaxed);
        }
    }
}

/// Offsets of one GPU's parts.
#[derive(Debug)]
pub(super) struct GpuLayout {
    pub(super) words: usize,
    pub(super) counters: usize,
    pub(super) meters: usize,
    pub(super) owners: usize,
    pub(super) writers: usize,
    pub(super) memory: usize,
}

/// Offsets of everything that depends on the configuration.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) gpus: Vec<GpuLayout>,
    /// Bytes of all but the device memory, which comes last.
    pub(super) accounts_size: usize,
    /// Bytes of the file.
    pub(super) size: usize,
}

impl Layout {
    pub(super) fn of(config: &Config) -> Self {
        let mut at = GPUS_AT;
        let mut take = |bytes: usize, align: usize| {
            let start = at.next_multiple_of(align);
            at = start + bytes;
            start
        };
        let mut gpus: Vec<_> = config
            .gpus
            .iter()
            .map(|gpu| GpuLayout {
                words: take(size_of::<GpuWords>(), 4096),
                counters: take(SLOTS * size_of::<Counters>(), 4096),
                meters: take(SLOTS * size_of::<Meter>(), 4096),
                owners: take((gpu.memory.0 / GRANULE) as usize * size_of::<u64>(), 4096),
                writers: take((gpu.memory.0 / GRANULE) as usize * size_of::<u64>(), 4096),
                memory: 0,
            })
            .collect();
        for (gpu, config) in gpus.iter_mut().zip(&config.gpus) {
            gpu.memory = take(config.memory.0 as usize, GRANULE as usize);
        }
        Self {
            accounts_size: gpus[0].memory,
            gpus,
            size: at.next_multiple_of(GRANULE as usize),
        }
    }
}

const _: () = assert!(size_of::<Header>() <= CONFIG_AT && size_of::<Slot>() == 64);
const _: () = assert!(size_of::<Counters>() == 256);
