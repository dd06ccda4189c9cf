//! The program's own physical memory: each of its handles is one or more pieces, which fill bundles
//! of δ. A bundle takes δ of the budget from its first piece to its last, holes included, so that
//! the task's memory stays a number of chunks.

use super::chunk::{Chunk, ChunkId, KeptFor, Mapping, PieceId, Run, join};
use super::{AllocError, Memory};
use crate::cuda::{Access, Handle, Location, Status};

/// A piece, or its first bytes, and the address at which they are mapped or to be mapped.
pub type Placed = (PieceId, u64);

impl Memory {
    /// The unit of physical memory in bytes.
    pub fn granularity(&self) -> u64 {
        self.granularity
    }

    /// Allocates `bytes` of physical memory, a multiple of the granularity, mapped nowhere: all or
    /// nothing. Holes of bundles are filled first; in one that is swapped out nothing needs to be
    /// allocated yet.
    pub fn create(&mut self, bytes: u64) -> Result<Vec<PieceId>, AllocError> {
        if bytes > self.device_bytes {
            return Err(AllocError::TooLarge);
        }
        let mut pieces = self.chunks.holes_for(bytes, self.chunk);
        let mut left = bytes - pieces.iter().map(|piece| piece.bytes).sum::<u64>();
        self.take_chunks(left.div_ceil(self.chunk) * self.chunk)
            .map_err(AllocError::OverBudget)?;
        while left > 0 {
            let chunk = self.chunks.insert(Chunk::bundle());
            let bytes = left.min(self.chunk);
            pieces.push(PieceId {
                chunk,
                offset: 0,
                bytes,
            });
            left -= bytes;
        }
        for &piece in &pieces {
            self.chunks.put(piece, self.chunk);
        }
        let created = pieces.iter().try_for_each(|&id| {
            if self.is_resident(id) {
                let handle = self.driver.create(self.device, id.bytes)?;
                self.chunks.piece_mut(id).handle = Some(handle);
            }
            Ok(())
        });
        if let Err(status) = created {
            self.destroy(&pieces)?;
            return Err(AllocError::Driver(status));
        }
        for piece in &pieces {
            if self.chunks[piece.chunk].slot.is_none() {
                self.chunks[piece.chunk].slot = self.set.assign(piece.chunk);
            }
        }
        self.publish();
        Ok(pieces)
    }

    /// Frees pieces that are mapped nowhere.
    pub fn destroy(&mut self, pieces: &[PieceId]) -> Result<(), Status> {
        let mut freed = Ok(());
        for &id in pieces {
            if let Err(status) = self.free_piece(id) {
                // It stays counted: it is still there.
                freed = Err(status);
                continue;
            }
            self.chunks.take(id);
            if self.chunks[id.chunk].pieces.is_empty() {
                freed = freed.and(self.drop_chunk(id.chunk));
            }
        }
        self.publish();
        freed
    }

    fn free_piece(&mut self, id: PieceId) -> Result<(), Status> {
        let driver = self.driver;
        let piece = self.chunks.piece_mut(id);
        let Some(handle) = piece.handle else {
            return Ok(());
        };
        // Only addresses of our own that could not be unmapped before.
        while let Some(mapping) = piece.mappings.last() {
            driver.unmap(mapping.at, mapping.bytes)?;
            piece.mappings.pop();
        }
        driver.release(handle)
    }

    /// Maps pieces; those that are swapped out as soon as they come back.
    pub fn map(&mut self, placed: &[Placed]) -> Result<(), Status> {
        for (count, &(id, at)) in placed.iter().enumerate() {
            let Some(handle) = self.chunks.piece(id).handle else {
                continue;
            };
            if let Err(status) = self.driver.map(at, id.bytes, handle) {
                for run in self.resident_runs(&placed[..count]) {
                    self.driver.unmap(run.at, run.bytes)?;
                }
                return Err(status);
            }
        }
        for &(id, at) in placed {
            let (bytes, access) = (id.bytes, Vec::new());
            let mappings = &mut self.chunks.piece_mut(id).mappings;
            mappings.push(Mapping { at, bytes, access });
            self.ranges.add(at, id.bytes);
        }
        Ok(())
    }

    /// Takes mappings away. The memory lock keeps copies of the swap thread out of the way; for work
    /// of its own the program has waited, as the driver demands.
    pub fn unmap(&mut self, placed: &[Placed]) -> Result<(), Status> {
        // What a call that failed half-way left.
        let is_left = |(id, at): &Placed| {
            let mut mappings = self.chunks.piece(*id).mappings.iter();
            mappings.any(|mapping| mapping.at == *at)
        };
        let left: Vec<Placed> = placed.iter().copied().filter(is_left).collect();
        for run in self.resident_runs(&left) {
            self.driver.unmap(run.at, run.bytes)?;
            let unmapped = run.at..run.at + run.bytes;
            self.forget_mappings(left.iter().filter(|(_, at)| unmapped.contains(at)));
        }
        self.forget_mappings(left.iter());
        Ok(())
    }

    pub(super) fn forget_mappings<'a>(&mut self, placed: impl Iterator<Item = &'a Placed>) {
        for &(id, at) in placed {
            let mappings = &mut self.chunks.piece_mut(id).mappings;
            mappings.retain(|mapping| mapping.at != at);
            self.ranges.remove(at);
        }
    }

    /// Says who may do what with mappings. Where something is swapped out, only this GPU may be
    /// given anything: see [`Self::hold`].
    pub fn set_access(&mut self, placed: &[Placed], access: &[Access]) -> Result<(), Status> {
        let here = Location::device(self.device);
        let known = |it: &Access| {
            let rights = [0, Access::READ, Access::READ_WRITE];
            it.location == here && rights.contains(&it.rights)
        };
        if !access.iter().all(known) && !placed.iter().all(|&(id, _)| self.is_resident(id)) {
            return Err(Status::INVALID_VALUE);
        }
        for run in self.resident_runs(placed) {
            self.driver.set_access(run.at, run.bytes, access)?;
        }
        for &(id, at) in placed {
            let mut mappings = self.chunks.piece_mut(id).mappings.iter_mut();
            let Some(mapping) = mappings.find(|mapping| mapping.at == at) else {
                continue;
            };
            for &given in access {
                mapping.access.retain(|it| it.location != given.location);
                mapping.access.extend((given.rights != 0).then_some(given));
            }
        }
        Ok(())
    }

    /// What a location may do with a mapping: CUmemAccess_flags.
    pub fn access(&self, (id, at): Placed, location: Location) -> u32 {
        let mut mappings = self.chunks.piece(id).mappings.iter();
        let mapping = mappings.find(|mapping| mapping.at == at);
        let mut access = mapping.into_iter().flat_map(|mapping| &mapping.access);
        let given = access.find(|access| access.location == location);
        given.map_or(0, |access| access.rights)
    }

    /// Keeps pieces on the GPU for good, and with them what shares their chunks: somebody uses them
    /// whom this GPU's gate does not stop. All must be there.
    pub fn hold(&mut self, pieces: &[PieceId], why: KeptFor) -> Result<(), Status> {
        if !self.are_resident(pieces) {
            return Err(Status::NOT_READY);
        }
        for id in pieces {
            self.hold_chunk(id.chunk, why);
        }
        self.publish();
        Ok(())
    }

    /// Keeps a chunk that is on the GPU there.
    pub(super) fn hold_chunk(&mut self, id: ChunkId, why: KeptFor) {
        let chunk = &mut self.chunks[id];
        if chunk.held.is_some() {
            return;
        }
        chunk.held = Some(why);
        self.held_chunks += 1;
        *self.kept_for(why) += self.chunk;
        let chunk = &mut self.chunks[id];
        if let Some(slot) = chunk.slot.take() {
            self.set.release(slot);
            self.seat_another();
        }
    }

    /// The driver's handle of a piece, while it is on the GPU.
    pub fn handle_of(&self, id: PieceId) -> Option<Handle> {
        self.chunks.piece(id).handle
    }

    /// Whether pieces are kept on the GPU.
    pub fn are_held(&self, pieces: &[PieceId]) -> bool {
        pieces.iter().all(|id| self.chunks[id.chunk].held.is_some())
    }

    /// Whether pieces are on the GPU.
    pub fn are_resident(&self, pieces: &[PieceId]) -> bool {
        pieces.iter().all(|&id| self.is_resident(id))
    }

    fn is_resident(&self, id: PieceId) -> bool {
        self.chunks[id.chunk].place == super::Place::Resident
    }

    /// The addresses of those pieces that are on the GPU.
    fn resident_runs(&self, placed: &[Placed]) -> Vec<Run<()>> {
        let resident = placed.iter().filter(|(id, _)| self.is_resident(*id));
        let runs = resident.map(|&(id, at)| Run {
            at,
            bytes: id.bytes,
            tag: (),
        });
        join(runs.collect())
    }
}
