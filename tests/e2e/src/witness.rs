//! What the simulated GPU itself counted: it knows nothing of rtswap, and so is the witness.

use std::sync::atomic::Ordering::Relaxed;

use simgpu_core::Observer;

use crate::machine::Machine;

/// The calls and copies of one process, over all GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes copied to GPUs.
    pub h2d_bytes: u64,
    /// Bytes copied from GPUs.
    pub d2h_bytes: u64,
    /// Chunks created by cuMemCreate.
    pub creates: u64,
    /// Allocations by cuMemAlloc.
    pub allocs: u64,
    /// Kernels run.
    pub launches: u64,
}

impl Machine {
    /// The counts of a process, also after its death; nothing if it never used a GPU.
    pub fn counters(&self, pid: u32) -> Option<Counted> {
        let observer = Observer::open(&self.simgpu_dir()).ok()?;
        let processes = observer.processes();
        let process = processes.iter().rev().find(|process| process.pid == pid)?;
        let mut sum = Counted::default();
        for gpu in &process.gpus {
            sum.h2d_bytes += gpu.h2d_bytes.load(Relaxed);
            sum.d2h_bytes += gpu.d2h_bytes.load(Relaxed);
            sum.creates += gpu.creates.load(Relaxed);
            sum.allocs += gpu.allocs.load(Relaxed);
            sum.launches += gpu.launches.load(Relaxed);
        }
        Some(sum)
    }

    /// The memory that a process holds on a GPU, its context included.
    pub fn process_bytes(&self, pid: u32, gpu: usize) -> Option<u64> {
        let observer = Observer::open(&self.simgpu_dir()).ok()?;
        Some(observer.process_bytes(pid, gpu))
    }

    /// The memory that a process allocated on a GPU, without its context. `pid` as it numbers itself.
    pub fn allocated_bytes(&self, pid: u32, gpu: usize) -> Option<u64> {
        let observer = Observer::open(&self.simgpu_dir()).ok()?;
        let processes = observer.processes().into_iter();
        let own = processes.filter(|process| process.pid == pid && process.is_live);
        let counted = own.map(|process| process.gpus[gpu].memory_bytes.load(Relaxed));
        Some(counted.sum())
    }

    /// The memory that processes hold on a GPU.
    pub fn used_bytes(&self, gpu: usize) -> Option<u64> {
        let observer = Observer::open(&self.simgpu_dir()).ok()?;
        observer.gpus().get(gpu).map(|gpu| gpu.used_bytes)
    }
}
