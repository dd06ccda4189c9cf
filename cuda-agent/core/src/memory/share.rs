//! Memory of the arena whose physical pages somebody else uses: another process, another device. No gate
//! of ours stops that use (peer access, IPC, dma-buf, multicast), so the memory is resident for good and
//! no longer counts as arena.

use super::Memory;
use super::chunk::{ChunkId, KeptFor, Place};
use crate::cuda::{Access, Handle, Status};

impl Memory {
    /// Keeps the chunks of some of the arena on the GPU for good, and with them what shares them.
    /// All must be there.
    pub fn hold_range(&mut self, at: u64, bytes: u64, why: KeptFor) -> Result<(), Status> {
        let chunks = self.chunks_of(at, bytes);
        if chunks.is_empty() || !chunks.iter().all(|&id| self.is_there(id)) {
            return Err(Status::NOT_READY);
        }
        for id in chunks {
            self.hold_chunk(id, why);
        }
        self.publish();
        Ok(())
    }

    /// Lets another GPU use all of the arena, now and later, and holds it. All must be there.
    pub fn share(&mut self, peer: i32) -> Result<(), Status> {
        let access = Access::full(peer);
        if self.peers.contains(&access) {
            return Ok(());
        }
        let chunks: Vec<ChunkId> = self.backed.values().copied().collect();
        if !chunks.iter().all(|&id| self.is_there(id)) {
            return Err(Status::NOT_READY);
        }
        for &id in &chunks {
            for run in self.chunks[id].mapped() {
                self.driver.set_access(run.at, run.bytes, &[access])?;
            }
            for piece in &mut self.chunks[id].pieces {
                for mapping in &mut piece.mappings {
                    mapping.access.push(access);
                }
            }
            self.hold_chunk(id, KeptFor::Devices);
        }
        self.peers.push(access);
        self.publish();
        Ok(())
    }

    fn is_there(&self, id: ChunkId) -> bool {
        self.chunks[id].place == Place::Resident
    }

    /// Whether some of the arena is held.
    pub fn is_held(&self, at: u64, bytes: u64) -> bool {
        let chunks = self.chunks_of(at, bytes);
        !chunks.is_empty() && chunks.iter().all(|&id| self.chunks[id].held.is_some())
    }

    /// The physical memory of the object with this address and number, chunk by chunk; nothing if
    /// it is another object's by now, or not held. It is the object's as long as the memory is locked.
    pub fn held_handles(&self, at: u64, id: u64) -> Option<Vec<Handle>> {
        let (_, object) = self.object_at(at).filter(|&(start, _)| start == at)?;
        if object.id != id || !self.is_held(at, object.bytes) {
            return None;
        }
        let chunks = self.chunks_of(at, object.bytes).into_iter();
        let pieces = chunks.flat_map(|id| &self.chunks[id].pieces);
        pieces.map(|piece| piece.handle).collect()
    }

    fn chunks_of(&self, at: u64, bytes: u64) -> Vec<ChunkId> {
        let first = at / self.chunk * self.chunk;
        let backed = self.backed.range(first..at.saturating_add(bytes));
        backed.map(|(_, &id)| id).collect()
    }
}
