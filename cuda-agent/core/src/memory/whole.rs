//! Pieces that one allocation takes the place of: copied first, then unmapped for it.

use super::Memory;
use super::bundle::Placed;
use super::chunk::PieceId;
use crate::cuda::{Access, Context, Handle, Status};

impl Memory {
    /// Copies pieces, one after another, into the physical memory `whole` of the same size, by work
    /// in `context`, which is current. NOT_READY if some are not on the GPU.
    pub fn copy_to(
        &mut self,
        pieces: &[PieceId],
        whole: Handle,
        context: Context,
    ) -> Result<(), Status> {
        if !self.are_resident(pieces) {
            return Err(Status::NOT_READY);
        }
        self.prepare_engine(context)?;
        let driver = self.driver;
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        // Addresses for both, side by side.
        let base = driver.reserve(2 * bytes, self.granularity)?;
        let mut mapped = 0;
        let copied = self.map_beside(base, pieces, whole, &mut mapped);
        let copied = copied.and_then(|()| self.copy_beside(base, bytes));
        let unmapped = match mapped {
            0 => Ok(()),
            // Once more where it is refused: what stays mapped is never freed.
            _ => driver
                .unmap(base, mapped)
                .or_else(|_| driver.unmap(base, mapped)),
        };
        // Addresses that something is still mapped at are lost, and nothing else.
        let freed = unmapped.and_then(|()| driver.unreserve(base, 2 * bytes));
        copied.and(freed)
    }

    /// Maps all of it at `base`, and the pieces after it; `mapped` are the bytes so far.
    fn map_beside(
        &self,
        base: u64,
        pieces: &[PieceId],
        whole: Handle,
        mapped: &mut u64,
    ) -> Result<(), Status> {
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        let handles = pieces.iter().map(|&id| (self.handle_of(id), id.bytes));
        for (handle, bytes) in std::iter::once((Some(whole), bytes)).chain(handles) {
            let handle = handle.ok_or(Status::NOT_READY)?;
            self.driver.map(base + *mapped, bytes, handle)?;
            *mapped += bytes;
        }
        let access = [Access::full(self.device)];
        self.driver.set_access(base, *mapped, &access)
    }

    fn copy_beside(&mut self, base: u64, bytes: u64) -> Result<(), Status> {
        let driver = self.driver;
        let engine = self.engine.as_ref().expect("prepared before");
        let (stream, done) = (engine.stream, engine.events[engine.turn]);
        let copied = driver.copy_within(base, base + bytes, bytes, stream);
        let over = driver
            .record(done, stream)
            .and_then(|()| driver.wait_event(done));
        if over.is_err() {
            // Nothing else tells when the copy is over, and both are about to be unmapped.
            let _ = driver.synchronize();
        }
        copied.and(over)
    }

    /// Maps `whole` wherever the pieces are mapped, with the same rights, and frees them: each
    /// of `mapped` is one mapping of all or the first of them. Where the driver refuses, everything
    /// is as before. No work uses them.
    pub fn replace(
        &mut self,
        pieces: &[PieceId],
        mapped: &[Vec<Placed>],
        whole: Handle,
    ) -> Result<(), Status> {
        for (count, placed) in mapped.iter().enumerate() {
            if let Err(status) = self.exchange(placed, whole) {
                for placed in &mapped[..count] {
                    let (at, bytes) = extent(placed);
                    self.driver.unmap(at, bytes)?;
                    self.map_back(placed)?;
                }
                return Err(status);
            }
        }
        for placed in mapped {
            self.forget_mappings(placed.iter());
        }
        // What cannot be freed stays counted.
        let _ = self.destroy(pieces);
        Ok(())
    }

    /// One mapping: all or nothing.
    fn exchange(&self, placed: &[Placed], whole: Handle) -> Result<(), Status> {
        let (at, bytes) = extent(placed);
        let access = self.rights(placed);
        self.driver.unmap(at, bytes)?;
        let mut is_mapped = false;
        let exchanged = self.driver.map(at, bytes, whole).and_then(|()| {
            is_mapped = true;
            match access {
                [] => Ok(()),
                access => self.driver.set_access(at, bytes, access),
            }
        });
        if exchanged.is_err() {
            if is_mapped {
                self.driver.unmap(at, bytes)?;
            }
            self.map_back(placed)?;
        }
        exchanged
    }

    fn map_back(&self, placed: &[Placed]) -> Result<(), Status> {
        for &(id, at) in placed {
            let handle = self.handle_of(id).ok_or(Status::NOT_READY)?;
            self.driver.map(at, id.bytes, handle)?;
        }
        let (at, bytes) = extent(placed);
        match self.rights(placed) {
            [] => Ok(()),
            access => self.driver.set_access(at, bytes, access),
        }
    }

    /// The access rights of a mapping. All its pieces have the same rights, because a program sets
    /// them for whole mappings only.
    fn rights(&self, placed: &[Placed]) -> &[Access] {
        let first = placed.first().and_then(|&(id, at)| {
            let mut mappings = self.chunks.piece(id).mappings.iter();
            mappings.find(|mapping| mapping.at == at)
        });
        first.map_or(&[], |mapping| &mapping.access)
    }
}

/// Where a mapping starts, and its bytes.
fn extent(placed: &[Placed]) -> (u64, u64) {
    let start = placed.first().map_or(0, |&(_, at)| at);
    (start, placed.iter().map(|(id, _)| id.bytes).sum())
}
