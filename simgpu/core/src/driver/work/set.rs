//! Sets: a value repeated over rows of device memory.

use std::ptr;

use super::Executor;
use crate::driver::space::{Access, Segment};
use crate::machine::transfer_ns;
use crate::{Error, Result};

/// A set of `rows` rows of `count` values, `width` bytes each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Set {
    pub(crate) dst: u64,
    pub(crate) pattern: u32,
    /// 1, 2 or 4.
    pub(crate) width: usize,
    pub(crate) count: usize,
    pub(crate) rows: usize,
    /// Bytes from row to row; nothing with one row.
    pub(crate) pitch: usize,
}

impl Set {
    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> Option<usize> {
        self.count.checked_mul(self.width)
    }

    /// Bytes from the first to the last, those between rows included.
    pub(crate) fn span(&self) -> Option<usize> {
        let before = self.rows.checked_sub(1)?.checked_mul(self.pitch)?;
        before.checked_add(self.row_bytes()?)
    }
}

impl Executor {
    pub(super) fn set(&self, set: &Set, ready_ns: u64) -> Result<u64> {
        let costs = self.process.machine.gpu(self.gpu);
        let len = set.row_bytes().ok_or(Error::IllegalAddress)?;
        let total = (len as u64).saturating_mul(set.rows as u64);
        let busy = costs.copy_us * 1e3 + transfer_ns(total, costs.compute_gib_per_s);
        self.compute(ready_ns, busy, || {
            for row in 0..set.rows {
                let at = set.dst + (row * set.pitch) as u64;
                for segment in self.device(at, len, Access::ReadWrite)? {
                    segment.fill(set.pattern, set.width);
                }
            }
            Ok(())
        })
    }
}

impl Segment {
    /// Zeroes it.
    pub(crate) fn clear(self) {
        self.fill(0, 1);
    }

    /// Repeats the low `width` bytes of `pattern`; segments of a set start at
    /// multiples of its width.
    fn fill(self, pattern: u32, width: usize) {
        let Self { start, len } = self;
        // SAFETY: the segment is `len` writable bytes, `start` a multiple of
        // the width as the caller checked of the address.
        unsafe {
            match width {
                1 => ptr::write_bytes(start, pattern as u8, len),
                2 => (0..len / 2).for_each(|i| start.cast::<u16>().add(i).write(pattern as u16)),
                _ => (0..len / 4).for_each(|i| start.cast::<u32>().add(i).write(pattern)),
            }
        }
    }
}
