//! The simulated machine: one shared file that every process maps.
//!
//! It holds the configuration, who is attached (`slots`), who owns which
//! granule of device memory (`granules`), the engines (`engine`), what copies take
//! on them (`link`) and how busy they were (`meter`), counters and the device memory itself. Memory that
//! several processes hold has a file of its own (`share`). Nothing in it is a lock: a process can be
//! killed between any two instructions and others go on.

mod engine;
mod expose;
mod granules;
mod layout;
mod link;
mod meter;
mod open;
mod share;
mod slots;
mod watch;

pub use engine::EngineKind;
pub(crate) use expose::hide;
pub use layout::Counters;
pub(crate) use link::{Piece, transfer_ns};
pub use meter::Lately;
pub use open::{MachineError, default_dir};

#[cfg(test)]
pub(crate) use open::tests::small as open_small;
pub(crate) use share::{Share, Shared};
pub(crate) use slots::Identity;
pub(crate) use watch::Watch;

use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::AtomicU64;

use crate::config::{Config, GRANULE, GpuConfig};
use layout::{GpuLayout, GpuWords, Header, Layout, SLOTS, Slot};
use meter::Meter;

/// The machine as this process maps it.
#[derive(Debug)]
pub struct Machine {
    base: NonNull<u8>,
    /// Bytes that are mapped: all, or all but the device memory.
    mapped: usize,
    /// Whether the pages of each GPU's memory are in place.
    populated: Box<[Once]>,
    /// The folder it is in.
    dir: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
    layout: Layout,
    config: Config,
    /// The places of the GPUs in the configuration, by this process's numbers of them.
    order: Vec<usize>,
}

// SAFETY: the mapping lives as long as the Machine; all shared words in it are
// atomics and device memory is only touched through raw pointers.
unsafe impl Send for Machine {}
// SAFETY: as above.
unsafe impl Sync for Machine {}

impl Machine {
    /// What the machine is made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Has this process number the GPUs so that these come first. All functions take its numbers.
    pub(crate) fn put_first(&mut self, mut first: Vec<usize>) {
        let others = (0..self.config.gpus.len()).filter(|gpu| !first.contains(gpu));
        let others: Vec<_> = others.collect();
        first.extend(others);
        self.order = first;
    }

    /// A GPU's place in the configuration.
    pub(crate) fn place(&self, gpu: usize) -> usize {
        self.order[gpu]
    }

    /// The configuration of one GPU.
    pub(crate) fn gpu(&self, gpu: usize) -> &GpuConfig {
        &self.config.gpus[self.place(gpu)]
    }

    /// Where one GPU's parts are in the file.
    fn parts(&self, gpu: usize) -> &GpuLayout {
        &self.layout.gpus[self.place(gpu)]
    }

    /// Number of granules of a GPU's memory.
    pub(crate) fn granule_count(&self, gpu: usize) -> usize {
        (self.gpu(gpu).memory.0 / GRANULE) as usize
    }

    /// The counters of the process in `slot`, on one GPU.
    pub(crate) fn counters(&self, gpu: usize, slot: usize) -> &Counters {
        assert!(slot < SLOTS);
        // SAFETY: the layout has SLOTS aligned Counters here, all of them atomics.
        unsafe {
            &*self
                .base
                .as_ptr()
                .add(self.parts(gpu).counters)
                .cast::<Counters>()
                .add(slot)
        }
    }

    /// How the process in `slot` uses the compute engine of one GPU.
    fn compute_meter(&self, gpu: usize, slot: usize) -> &Meter {
        assert!(slot < SLOTS);
        // SAFETY: the layout has SLOTS aligned Meters here, all of them atomics.
        unsafe {
            &*self
                .base
                .as_ptr()
                .add(self.parts(gpu).meters)
                .cast::<Meter>()
                .add(slot)
        }
    }

    /// Where a granule's bytes are in this process.
    pub(crate) fn granule(&self, gpu: usize, index: u32) -> *mut u8 {
        assert!((index as usize) < self.granule_count(gpu) && self.mapped == self.layout.size);
        let offset = self.parts(gpu).memory + index as usize * GRANULE as usize;
        // SAFETY: the layout has all granules of the GPU within the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping starts with a Header; its words that change are atomics.
        unsafe { &*self.base.as_ptr().cast::<Header>() }
    }

    fn slot(&self, slot: usize) -> &Slot {
        assert!(slot < SLOTS);
        // SAFETY: the layout has SLOTS aligned Slots here, all of them atomics.
        unsafe {
            &*self
                .base
                .as_ptr()
                .add(layout::SLOTS_AT)
                .cast::<Slot>()
                .add(slot)
        }
    }

    fn words(&self, gpu: usize) -> &GpuWords {
        // SAFETY: the layout has aligned GpuWords here, all of them atomics.
        unsafe {
            &*self
                .base
                .as_ptr()
                .add(self.parts(gpu).words)
                .cast::<GpuWords>()
        }
    }

    fn engine(&self, gpu: usize, kind: EngineKind) -> &Meter {
        &self.words(gpu).engines[kind as usize]
    }

    /// The owner tag of each granule; 0 is free.
    fn owners(&self, gpu: usize) -> &[AtomicU64] {
        self.tags(gpu, self.parts(gpu).owners)
    }

    /// The tag of who could write to each granule last; 0 is nobody.
    fn writers(&self, gpu: usize) -> &[AtomicU64] {
        self.tags(gpu, self.parts(gpu).writers)
    }

    /// One of a GPU's tables of tags.
    fn tags(&self, gpu: usize, at: usize) -> &[AtomicU64] {
        // SAFETY: the layout has one aligned AtomicU64 for each granule here.
        unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(at).cast(), self.granule_count(gpu))
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: the mapping was made for this Machine, and no reference outlives it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}
