//! Allocations and frees in the order of a stream.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::context::Context;
use super::graph::{GraphMemory, Op};
use super::pool::{Freed, Pool};
use super::stream::Stream;
use super::work::Work;
use crate::{Error, Result};

impl Context {
    /// Allocates from a pool; the stream's later work may use the memory.
    pub(super) fn alloc_async(&self, stream: &Stream, pool: &Pool, size: u64) -> Result<u64> {
        self.check()?;
        let process = &self.executor.process;
        if let Some(capture) = self.capture_of(stream)? {
            let gpu = pool.place.gpu().ok_or(Error::NotSupported)?;
            let memory = process.graph_memories.make(process, gpu, size)?;
            let address = memory.address;
            capture.record(stream, Op::Alloc(memory))?;
            return Ok(address);
        }
        let (address, waits) = pool.alloc(process, size, stream.id)?;
        for fence in waits {
            self.mark(stream, Some(fence))?;
        }
        if let Some(gpu) = pool.place.gpu() {
            process.counters(gpu).allocs.fetch_add(1, Relaxed);
        }
        Ok(address)
    }

    /// Frees what a graph's node gives: recorded, or behind the stream's work
    /// so far.
    pub(super) fn free_graph_memory(&self, stream: &Stream, memory: &GraphMemory) -> Result<()> {
        self.check()?;
        match self.capture_of(stream)? {
            Some(capture) => capture.record(stream, Op::Free(memory.address)).map(drop),
            None => memory.free(Some(self.mark(stream, None)?)),
        }
    }

    /// Frees what a pool gave, behind the stream's work so far.
    pub(super) fn free_async(&self, stream: &Stream, pool: &Pool, address: u64) -> Result<()> {
        self.refuse_capture(stream)?;
        let freed = Freed {
            stream: stream.id,
            fence: self.mark(stream, None)?,
        };
        pool.free(address, Some(freed))?;
        if let Some(gpu) = pool.place.gpu() {
            self.count_free(gpu);
        }
        Ok(())
    }

    /// Frees what cuMemAlloc gave in `owner`, when the stream gets there.
    pub(super) fn free_plain_async(
        &self,
        stream: &Stream,
        owner: Arc<Context>,
        address: u64,
    ) -> Result<()> {
        self.refuse_capture(stream)?;
        self.submit(stream, Work::Free(owner, address), None)
            .map(drop)
    }

    /// Graphs free only what graphs allocate.
    fn refuse_capture(&self, stream: &Stream) -> Result<()> {
        match self.capture_of(stream)? {
            Some(_) => Err(Error::InvalidValue),
            None => Ok(()),
        }
    }

    pub(super) fn count_graph_launch(&self) {
        self.counters().graph_launches.fetch_add(1, Relaxed);
    }

    pub(super) fn count_alloc(&self) {
        self.counters().allocs.fetch_add(1, Relaxed);
    }

    fn count_free(&self, gpu: usize) {
        let counters = self.executor.process.counters(gpu);
        counters.frees.fetch_add(1, Relaxed);
    }

    /// The program has waited for work to end: pools above their threshold
    /// give memory back.
    pub(super) fn settle_pools(&self) {
        let process = &self.executor.process;
        process.pools.settle(process);
    }

    /// Runs an allocation again with what pools kept for later given back.
    pub(super) fn with_pools_trimmed<T>(&self, alloc: impl Fn() -> Result<T>) -> Result<T> {
        match alloc() {
            Err(Error::OutOfMemory) => {
                let process = &self.executor.process;
                process.pools.trim_all(process, self.gpu());
                alloc()
            }
            done => done,
        }
    }
}
