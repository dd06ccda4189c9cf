//! Putting the pieces of a chunk on the GPU and taking them off: nothing here knows budgets,
//! slots or when.

use super::Memory;
use super::chunk::{ChunkId, Mapping, Run};
use crate::cuda::{Access, Status};

/// As many copies are in flight at once, each with scratch addresses of its own.
pub(super) const LANES: u64 = 2;

impl Memory {
    /// Creates every piece of a chunk and maps it as recorded. Where that fails, nothing stays.
    /// New memory is as the driver gives it. NVIDIA's kernel module scrubs memory when it is freed
    /// (`bScrubOnFreeEnabled` in open-gpu-kernel-modules), and simgpu does the same. Clearing it here
    /// would protect nobody: a killed process, or one without an agent, clears nothing. What comes back
    /// is overwritten whole before it is resident.
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
                if !lent.contains(&mapping.at) {
                    return true;
                }
                let unmapped = if is_there {
                    driver.unmap(mapping.at, bytes)
                } else {
                    Ok(())
                };
                returned = returned.and(unmapped);
                unmapped.is_err()
            });
        }
        if returned.is_err() {
            // What is still mapped there goes with its piece; others need other addresses.
            self.scratch = None;
        }
        returned
    }

    /// Unmaps a chunk everywhere: all or nothing. All copies and all work on it are done.
    pub(super) fn unmap_chunk(&self, id: ChunkId) -> Result<(), Status> {
        let runs = self.chunks[id].mapped();
        for (count, run) in runs.iter().enumerate() {
            if let Err(status) = self.driver.unmap(run.at, run.bytes) {
                self.map_again(id, &runs[..count])?;
                return Err(status);
            }
        }
        Ok(())
    }

    fn map_again(&self, id: ChunkId, unmapped: &[Run<()>]) -> Result<(), Status> {
        let is_unmapped = |at| {
            let mut runs = unmapped.iter();
            runs.any(|run| (run.at..run.at + run.bytes).contains(&at))
        };
        for piece in &self.chunks[id].pieces {
            let Some(handle) = piece.handle else {
                continue;
            };
            for mapping in piece.mappings.iter().filter(|it| is_unmapped(it.at)) {
                self.driver.map(mapping.at, mapping.bytes, handle)?;
                if !mapping.access.is_empty() {
                    self.driver
                        .set_access(mapping.at, mapping.bytes, &mapping.access)?;
                }
            }
        }
        Ok(())
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
