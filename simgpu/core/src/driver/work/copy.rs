//! Copies: bytes in rows, on the engine of their direction.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Executor, transfer_ns};
use crate::Result;
use crate::clock::{now_ns, wait_roughly_until, wait_until};
use crate::config::GRANULE;
use crate::driver::space::{Access, Segment};
use crate::machine::EngineKind;

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
        let (engine, gib_per_s, counter) = match (&copy.dst.side, &copy.src.side) {
            (Side::Device(_), Side::Device(_)) => {
                // Each byte is read and written.
                (
                    EngineKind::Compute,
                    costs.compute_gib_per_s / 2.0,
                    &counters.d2d_bytes,
                )
            }
            (Side::Device(_), _) => (
                EngineKind::HostToDevice,
                costs.h2d_gib_per_s,
                &counters.h2d_bytes,
            ),
            (_, Side::Device(_)) => (
                EngineKind::DeviceToHost,
                costs.d2h_gib_per_s,
                &counters.d2h_bytes,
            ),
            _ => {
                self.move_rows(copy, &mut cursor, len)?;
                return Ok(now_ns().max(ready_ns));
            }
        };
        let mut latency_ns = costs.copy_us * 1e3;
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(GRANULE as usize);
            let duration_ns = latency_ns + transfer_ns(piece as u64, gib_per_s);
            latency_ns = 0.0;
            let span = machine.reserve(self.gpu, engine, ready_ns, duration_ns as u64);
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
