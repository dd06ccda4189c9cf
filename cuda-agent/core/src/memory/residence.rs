//! Putting the pieces of a chunk on the GPU and taking them off: nothing here knows budgets,
//! slots or when.

use super::Memory;
use super::chunk::ChunkId;
use crate::cuda::Status;

impl Memory {
    /// Creates every piece of a chunk and maps it as recorded. Where that fails, nothing stays.
    pub(super) fn raise(&mut self, id: ChunkId) -> Result<(), Status> {
        let (driver, device) = (self.driver, self.device);
        let chunk = &mut self.chunks[id];
        let mut mapped = Vec::with_capacity(chunk.pieces.len());
        let mut raise = || {
            for piece in &mut chunk.pieces {
                let handle = driver.create(device, piece.bytes)?;
                piece.handle = Some(handle);
                for mapping in &piece.mappings {
                    driver.map(mapping.at, piece.bytes, handle)?;
                    mapped.push((mapping.at, piece.bytes));
                }
            }
            let mut runs = chunk.accessible().into_iter();
            runs.try_for_each(|run| driver.set_access(run.at, run.bytes, run.tag))
        };
        let raised = raise();
        if raised.is_err() {
            for (at, bytes) in mapped {
                driver.unmap(at, bytes)?;
            }
            self.release(id)?;
        }
        raised
    }

    /// Unmaps a chunk everywhere. All copies and all work on it are done.
    pub(super) fn unmap(&self, id: ChunkId) -> Result<(), Status> {
        let runs = self.chunks[id].mapped();
        runs.iter()
            .try_for_each(|run| self.driver.unmap(run.at, run.bytes))
    }

    /// Frees the physical memory of a chunk that is mapped nowhere.
    pub(super) fn release(&mut self, id: ChunkId) -> Result<(), Status> {
        let driver = self.driver;
        let pieces = self.chunks[id].pieces.iter_mut();
        pieces
            .filter_map(|piece| piece.handle.take())
            .map(|handle| driver.release(handle))
            .fold(Ok(()), Result::and)
    }

    /// Takes a chunk off the GPU.
    pub(super) fn lower(&mut self, id: ChunkId) -> Result<(), Status> {
        self.unmap(id)?;
        self.release(id)
    }
}
