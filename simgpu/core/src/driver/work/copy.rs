//! Copies: bytes in rows, on the engine of their direction.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Executor, Work};
use crate::Result;
use crate::clock::{now_ns, wait_roughly_until, wait_until};
use crate::config::GRANULE;
use crate::driver::space::{Access, Segment};
use crate::machine::{EngineKind, Piece};

/// One end of a copy.
#[derive(Debug, Clone)]
pub(crate) enum Side {
    Host(usize),
    Device(u64),
    /// Host bytes that were taken when the copy was asked for.
    Staged(Arc<[u8]>),
}

/// One end with the distances, in bytes, from row to row and slice to slice.
#[derive(Debug, Clone)]
pub(crate) struct Plane {
    pub(crate) side: Side,
    pub(crate) pitch: usize,
    pub(crate) slice: usize,
}

/// How much is copied: bytes of a row, rows of a slice, slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of a row.
    pub width: usize,
    /// Rows of a slice.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

impl Extent {
    /// So many bytes in one row.
    pub fn row(width: usize) -> Self {
        Self {
            width,
            height: 1,
            depth: 1,
        }
    }

    /// All bytes.
    pub(crate) fn bytes(self) -> Option<usize> {
        self.width
            .checked_mul(self.height)
            .and_then(|bytes| bytes.checked_mul(self.depth))
    }
}

impl Plane {
    /// A side that is one row.
    pub(crate) fn flat(side: Side) -> Self {
        Self {
            side,
            pitch: 0,
            slice: 0,
        }
    }

    fn offset(&self, row: usize, height: usize) -> usize {
        row / height * self.slice + row % height * self.pitch
    }
}

/// A copy.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) dst: Plane,
    pub(crate) src: Plane,
    pub(crate) extent: Extent,
}

impl Copy {
    /// The engine of its direction; none between host and host.
    fn engine(&self) -> Option<EngineKind> {
        match (&self.dst.side, &self.src.side) {
            (Side::Device(_), Side::Device(_)) => Some(EngineKind::Compute),
            (Side::Device(_), _) => Some(EngineKind::HostToDevice),
            (_, Side::Device(_)) => Some(EngineKind::DeviceToHost),
            _ => None,
        }
    }
}

/// A copy that waits for its turn, and counts as to come for as long as this lives: the engine that
/// shares the link with its own would otherwise take that for idle from one copy to the next.
pub(crate) struct QueuedCopy {
    executor: Arc<Executor>,
    engine: EngineKind,
    bytes: u64,
}

impl QueuedCopy {
    /// None for work that is no copy on an engine. Copies in a graph do not count.
    pub(crate) fn of(executor: &Arc<Executor>, work: &Work) -> Option<Self> {
        let Work::Copy(copy) = work else { return None };
        let (engine, bytes) = (copy.engine()?, copy.extent.bytes()? as u64);
        let queued = executor.queued_bytes(engine);
        let queued = queued.fetch_add(bytes, Relaxed) + bytes;
        let machine = &executor.process.machine;
        machine.expect_copies(executor.gpu, engine, queued);
        let executor = executor.clone();
        Some(Self {
            executor,
            engine,
            bytes,
        })
    }
}

impl Drop for QueuedCopy {
    fn drop(&mut self) {
        let queued = self.executor.queued_bytes(self.engine);
        queued.fetch_sub(self.bytes, Relaxed);
    }
}

/// The next byte to copy.
#[derive(Clone, Copy, Default)]
struct Cursor {
    row: usize,
    at: usize,
}

impl Executor {
    /// Copies granule by granule: an engine goes round among those who want it.
    pub(super) fn copy(&self, copy: &Copy, mut ready_ns: u64) -> Result<u64> {
        let machine = &self.process.machine;
        let costs = machine.gpu(self.gpu);
        let counters = self.process.counters(self.gpu);
        // Checked when the copy was asked for.
        let len = copy.extent.bytes().unwrap_or(0);
        let mut cursor = Cursor::default();
        let Some(engine) = copy.engine() else {
            self.move_rows(copy, &mut cursor, len)?;
            return Ok(now_ns().max(ready_ns));
        };
        let counter = match engine {
            EngineKind::HostToDevice => &counters.h2d_bytes,
            EngineKind::DeviceToHost => &counters.d2h_bytes,
            EngineKind::Compute => &counters.d2d_bytes,
        };
        let mut latency_ns = costs.copy_us * 1e3;
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(GRANULE as usize);
            let rest = (len - done - piece) as u64;
            let reserved = Piece {
                latency_ns,
                bytes: piece as u64,
                bytes_behind: rest + self.queued_bytes(engine).load(Relaxed),
            };
            latency_ns = 0.0;
            let span = machine.reserve_piece(self.gpu, engine, ready_ns, reserved);
            wait_roughly_until(span.start_ns);
            self.move_rows(copy, &mut cursor, piece)?;
            counter.fetch_add(piece as u64, Relaxed);
            ready_ns = span.end_ns;
            done += piece;
            if done < len {
                wait_roughly_until(ready_ns);
            }
        }
        wait_until(ready_ns);
        Ok(ready_ns)
    }

    /// Moves the next `len` bytes.
    fn move_rows(&self, copy: &Copy, cursor: &mut Cursor, mut len: usize) -> Result<()> {
        let Extent { width, height, .. } = copy.extent;
        while len > 0 {
            let run = len.min(width - cursor.at);
            let to = copy.dst.offset(cursor.row, height) + cursor.at;
            let from = copy.src.offset(cursor.row, height) + cursor.at;
            self.move_bytes((&copy.dst.side, to), (&copy.src.side, from), run)?;
            len -= run;
            cursor.at += run;
            if cursor.at == width {
                *cursor = Cursor {
                    row: cursor.row + 1,
                    at: 0,
                };
            }
        }
        Ok(())
    }

    fn move_bytes(&self, dst: (&Side, usize), src: (&Side, usize), len: usize) -> Result<()> {
        let to = self.side(dst, len, Access::ReadWrite)?;
        let from = self.side(src, len, Access::Read)?;
        let (mut to, mut from) = (to.into_iter(), from.into_iter());
        let nothing = Segment {
            start: ptr::null_mut(),
            len: 0,
        };
        let (mut into, mut out) = (nothing, nothing);
        loop {
            if into.len == 0 {
                let Some(next) = to.next() else { return Ok(()) };
                into = next;
            }
            if out.len == 0 {
                let Some(next) = from.next() else {
                    return Ok(());
                };
                out = next;
            }
            let run = into.len.min(out.len);
            // SAFETY: both are runs of at least `run` bytes, of the machine's
            // mapping or of host memory that the program vouches for; `copy`
            // allows that they overlap.
            unsafe { ptr::copy(out.start, into.start, run) };
            into = into.skip(run);
            out = out.skip(run);
        }
    }

    fn side(&self, (side, at): (&Side, usize), len: usize, access: Access) -> Result<Vec<Segment>> {
        let start = match side {
            Side::Device(address) => return self.reachable(*address + at as u64, len, access),
            Side::Host(address) => ptr::with_exposed_provenance_mut(address + at),
            Side::Staged(bytes) => bytes[at..at + len].as_ptr().cast_mut(),
        };
        Ok(vec![Segment { start, len }])
    }
}

impl Segment {
    fn skip(self, bytes: usize) -> Self {
        Self {
            start: self.start.wrapping_add(bytes),
            len: self.len - bytes,
        }
    }
}
