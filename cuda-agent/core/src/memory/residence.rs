//! Putting the pieces of a chunk on the GPU and taking them off: nothing here knows budgets,
//! slots or when.

use super::Memory;
use super::chunk::{ChunkId, Mapping};
use crate::cuda::{Access, Status};

/// As many copies are in flight at once, each with scratch addresses of its own.
pub(super) const LANES: u64 = 2;

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
                    driver.map(mapping.at, mapping.bytes, handle)?;
                    mapped.push((mapping.at, mapping.bytes));
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

    /// Gives addresses of our own to the pieces that a copy engine cannot reach with `rights` where
    /// the program mapped them, if it did. Maps them there if the chunk is on the GPU already.
    pub(super) fn lend_scratch(
        &mut self,
        id: ChunkId,
        rights: u32,
        lane: u64,
    ) -> Result<(), Status> {
        let (driver, device) = (self.driver, self.device);
        let mut pieces = self.chunks[id].pieces.iter();
        if pieces.all(|piece| piece.reachable(device, rights).is_some()) {
            return Ok(());
        }
        let base = match self.scratch {
            Some(base) => base,
            None => driver.reserve(LANES * self.chunk, self.chunk)?,
        };
        self.scratch = Some(base);
        for piece in &mut self.chunks[id].pieces {
            if piece.reachable(device, rights).is_some() {
                continue;
            }
            let (at, bytes) = (base + lane * self.chunk + piece.offset, piece.bytes);
            let access = vec![Access::full(device)];
            if let Some(handle) = piece.handle {
                driver.map(at, bytes, handle)?;
                piece.mappings.push(Mapping { at, bytes, access });
                let access = &piece.mappings[piece.mappings.len() - 1].access;
                driver.set_access(at, bytes, access)?;
            } else {
                piece.mappings.push(Mapping { at, bytes, access });
            }
        }
        Ok(())
    }

    /// Takes the addresses of our own away again; unmaps what is on the GPU.
    pub(super) fn return_scratch(&mut self, id: ChunkId) -> Result<(), Status> {
        let Some(base) = self.scratch else {
            return Ok(());
        };
        let (driver, lent) = (self.driver, base..base + LANES * self.chunk);
        let mut returned = Ok(());
        for piece in &mut self.chunks[id].pieces {
            let (bytes, is_there) = (piece.bytes, piece.handle.is_some());
            piece.mappings.retain(|mapping| {
                let is_lent = lent.contains(&mapping.at);
                if is_lent && is_there {
                    returned = returned.and(driver.unmap(mapping.at, bytes));
                }
                !is_lent
            });
        }
        returned
    }

    /// Unmaps a chunk everywhere. All copies and all work on it are done.
    pub(super) fn unmap_chunk(&self, id: ChunkId) -> Result<(), Status> {
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
        self.unmap_chunk(id)?;
        self.release(id)
    }
}
