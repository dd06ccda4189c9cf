//! The free chunks of an arena, and what must have ended before something is put into them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::plan::{Extent, Queue, Waits};

/// Free chunks of one budget, in the order in which they became free.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeChunks {
    rows: VecDeque<Row>,
    count: u64,
    /// The size of a chunk in bytes.
    chunk: u64,
}

/// Free chunks in a row.
#[derive(Clone, Copy, Debug)]
struct Row {
    extent: Extent,
    /// What must have ended before something is put there.
    waits: Waits,
}

impl FreeChunks {
    /// None yet, of `chunk` bytes each, at least 1.
    pub(crate) fn new(chunk: u64) -> Self {
        Self {
            rows: VecDeque::new(),
            count: 0,
            chunk: chunk.max(1),
        }
    }

    /// The chunks from number `from` to the end of the budget are free, and no others.
    pub(crate) fn reset(&mut self, budget: u64, from: u64) {
        self.rows.clear();
        self.count = (budget / self.chunk).saturating_sub(from);
        if self.count > 0 {
            self.rows.push_back(Row {
                extent: Extent {
                    offset: from * self.chunk,
                    bytes: self.count * self.chunk,
                },
                waits: Waits::default(),
            });
        }
    }

    /// How many are free.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Takes `missing` chunks and adds their extents. Copies take those that became free first, results those that
    /// became free last. What must have ended before something is put there; none where too few are free.
    pub(crate) fn take(
        &mut self,
        mut missing: u64,
        is_copy: bool,
        extents: &mut Vec<Extent>,
    ) -> Option<Waits> {
        if self.count < missing {
            return None;
        }
        self.count -= missing;
        let first = extents.len();
        let mut waits = Waits::default();
        let mut at = self.rows.len();
        while missing > 0 {
            let is_last = !is_copy && at > 0;
            at = if is_last { at - 1 } else { 0 };
            let row = self.rows.get_mut(at)?;
            if is_last && row.waits.of(Queue::SwapOut) > 0 {
                // A copy to the host takes longer than an operator: such chunks are the last resort.
                continue;
            }
            waits = waits.and(row.waits);
            let bytes = row.extent.bytes.min(missing * self.chunk);
            let offset = row.extent.offset;
            match extents[first..].last_mut() {
                Some(last) if last.end() == offset => last.bytes += bytes,
                _ => extents.push(Extent { offset, bytes }),
            }
            missing -= bytes / self.chunk;
            row.extent.offset += bytes;
            row.extent.bytes -= bytes;
            if row.extent.bytes == 0 {
                self.rows.remove(at);
            }
        }
        Some(waits)
    }

    /// Gives chunks back, which may be filled once `waits` have ended.
    pub(crate) fn give(&mut self, extent: Extent, waits: Waits) {
        self.count += extent.bytes / self.chunk;
        match self.rows.back_mut() {
            Some(last) if last.waits == waits && last.extent.end() == extent.offset => {
                last.extent.bytes += extent.bytes;
            }
            _ => self.rows.push_back(Row { extent, waits }),
        }
    }
}
