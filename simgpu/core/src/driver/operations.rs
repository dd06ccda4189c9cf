//! What programs submit to streams: copies, sets, kernels, host functions,
//! words. On a capturing stream it is recorded.

use std::sync::atomic::Ordering::Relaxed;

use super::context::Context;
use super::graph::Op;
use super::kernel::{Kernel, Launch};
use super::space::Access;
use super::stream::Stream;
use super::work::{Copy, Extent, HostCall, Plane, Set, Side, ValueOp, Work};
use crate::{Error, Result};

/// Copies from pageable memory up to this size return at once, their bytes taken.
const STAGED_MAX: usize = 64 << 10;

/// One end of a copy, as a program names it.
#[derive(Debug, Clone, Copy)]
pub enum CopySide {
    /// An address of the host.
    Host(usize),
    /// An address of the device address space.
    Device(u64),
}

/// One end with its distances from row to row and slice to slice, bytes.
#[derive(Debug, Clone, Copy)]
pub struct CopyPlane {
    /// Where it starts.
    pub side: CopySide,
    /// From row to row.
    pub pitch: usize,
    /// From slice to slice.
    pub slice: usize,
}

/// A copy of rows.
#[derive(Debug, Clone, Copy)]
pub struct CopyShape {
    /// Where to.
    pub dst: CopyPlane,
    /// Where from.
    pub src: CopyPlane,
    /// How much.
    pub extent: Extent,
}

/// A set of rows.
#[derive(Debug, Clone, Copy)]
pub struct SetShape {
    /// Where it starts.
    pub dst: u64,
    /// The value, in its low bytes.
    pub pattern: u32,
    /// Bytes of the value: 1, 2 or 4.
    pub width: usize,
    /// Values in a row.
    pub count: usize,
    /// Rows.
    pub rows: usize,
    /// Bytes from row to row.
    pub pitch: usize,
}

impl CopyPlane {
    fn into_work(self) -> Plane {
        let side = match self.side {
            CopySide::Host(address) => Side::Host(address),
            CopySide::Device(address) => Side::Device(address),
        };
        let Self { pitch, slice, .. } = self;
        Plane { side, pitch, slice }
    }

    /// Bytes from the first to the last, those between rows included; none if
    /// rows or slices overlap or it is too much.
    fn span(&self, extent: Extent) -> Option<usize> {
        let Extent {
            width,
            height,
            depth,
        } = extent;
        let rows = (height - 1).checked_mul(self.pitch)?;
        let slices = (depth - 1).checked_mul(self.slice)?;
        let apart = height == 1 || self.pitch >= width;
        let apart = apart && (depth == 1 || self.slice >= rows.checked_add(width)?);
        let span = rows.checked_add(slices)?.checked_add(width)?;
        apart.then_some(span)
    }
}

impl CopyShape {
    pub(super) fn into_work(self) -> Result<Copy> {
        let Self { dst, src, extent } = self;
        let empty = extent.bytes().ok_or(Error::InvalidValue)? == 0;
        let apart = |plane: &CopyPlane| plane.span(extent).is_some();
        if !(empty || apart(&dst) && apart(&src)) {
            return Err(Error::InvalidValue);
        }
        Ok(Copy {
            dst: dst.into_work(),
            src: src.into_work(),
            extent,
        })
    }
}

impl CopyShape {
    /// As a program would describe it.
    pub(super) fn of_work(copy: &Copy) -> Result<Self> {
        let plane = |plane: &Plane| {
            let side = match plane.side {
                Side::Host(address) => CopySide::Host(address),
                Side::Device(address) => CopySide::Device(address),
                // Taken when it was asked for: the program's bytes are no longer meant.
                Side::Staged(_) => return Err(Error::NotSupported),
            };
            let &Plane { pitch, slice, .. } = plane;
            Ok(CopyPlane { side, pitch, slice })
        };
        Ok(Self {
            dst: plane(&copy.dst)?,
            src: plane(&copy.src)?,
            extent: copy.extent,
        })
    }
}

impl SetShape {
    /// As a program would describe it.
    pub(super) fn of_work(set: &Set) -> Self {
        let &Set {
            dst,
            pattern,
            width,
            count,
            rows,
            pitch,
        } = set;
        Self {
            dst,
            pattern,
            width,
            count,
            rows,
            pitch,
        }
    }

    pub(super) fn into_work(self) -> Result<Set> {
        let Self {
            dst,
            pattern,
            width,
            count,
            rows,
            pitch,
        } = self;
        let set = Set {
            dst,
            pattern,
            width,
            count,
            rows,
            pitch,
        };
        let row = set.row_bytes().ok_or(Error::InvalidValue)?;
        let aligned = dst.is_multiple_of(width as u64);
        let apart = rows <= 1 || pitch >= row && pitch.is_multiple_of(width);
        let fits = rows == 0 || set.span().is_some();
        if !matches!(width, 1 | 2 | 4) || !aligned || !apart || !fits {
            return Err(Error::InvalidValue);
        }
        Ok(set)
    }
}

impl Context {
    /// Records work on a capturing stream, and submits it on any other.
    pub(super) fn enqueue(&self, stream: &Stream, work: Work) -> Result<()> {
        self.check()?;
        match self.capture_of(stream)? {
            Some(capture) => capture.record(stream, Op::Work(work)).map(drop),
            None => self.submit(stream, work, None).map(drop),
        }
    }

    /// A copy of so many bytes; with `wait` it has ended on return.
    pub fn copy(
        &self,
        stream: &Stream,
        dst: CopySide,
        src: CopySide,
        len: usize,
        wait: bool,
    ) -> Result<()> {
        let [dst, src] = [dst, src].map(|side| CopyPlane {
            side,
            pitch: 0,
            slice: 0,
        });
        let extent = Extent::row(len);
        self.copy_rows(stream, CopyShape { dst, src, extent }, wait)
    }

    /// A copy; with `wait` it has ended on return.
    pub fn copy_rows(&self, stream: &Stream, shape: CopyShape, wait: bool) -> Result<()> {
        self.check()?;
        let work = shape.into_work()?;
        if wait {
            self.executor.process.captures.check_unsafe()?;
        }
        if shape.extent.bytes() == Some(0) {
            return Ok(());
        }
        self.counters().copies.fetch_add(1, Relaxed);
        let capture = self.capture_of(stream)?;
        if let Some(capture) = capture {
            return capture.record(stream, Op::Work(Work::Copy(work))).map(drop);
        }
        let dst_pageable = self.check_plane(&shape.dst, shape.extent)?;
        let src_pageable = self.check_plane(&shape.src, shape.extent)?;
        match (shape.src.side, shape.extent) {
            // As the driver does: small ones are staged, others are waited for.
            (
                CopySide::Host(address),
                Extent {
                    width,
                    height: 1,
                    depth: 1,
                },
            ) if src_pageable && !wait && !dst_pageable && width <= STAGED_MAX => {
                let bytes = std::ptr::with_exposed_provenance::<u8>(address);
                // SAFETY: the program vouches for `width` readable bytes here.
                let staged = unsafe { std::slice::from_raw_parts(bytes, width) }.into();
                let src = Plane::flat(Side::Staged(staged));
                self.submit(stream, Work::Copy(Copy { src, ..work }), None)
                    .map(drop)
            }
            _ if wait || src_pageable || dst_pageable => self.run(stream, Work::Copy(work)),
            _ => self.submit(stream, Work::Copy(work), None).map(drop),
        }
    }

    /// Checks device addresses as they are now; says whether it is pageable.
    fn check_plane(&self, plane: &CopyPlane, extent: Extent) -> Result<bool> {
        let len = plane.span(extent).ok_or(Error::InvalidValue)?;
        match plane.side {
            CopySide::Device(address) => {
                let reachable = self.executor.reachable(address, len, Access::Read);
                reachable.map_err(|_| Error::InvalidValue)?;
                Ok(false)
            }
            CopySide::Host(0) => Err(Error::InvalidValue),
            CopySide::Host(address) => {
                let process = &self.executor.process;
                Ok(!process.host().is_pinned(address, len))
            }
        }
    }

    /// cuMemsetD8, D16 and D32: `width` is 1, 2 or 4 bytes. As with the driver,
    /// the host does not wait.
    pub fn set(
        &self,
        stream: &Stream,
        dst: u64,
        pattern: u32,
        width: usize,
        count: usize,
    ) -> Result<()> {
        let shape = SetShape {
            dst,
            pattern,
            width,
            count,
            rows: 1,
            pitch: 0,
        };
        self.set_rows(stream, shape)
    }

    /// cuMemsetD2D8, D2D16 and D2D32.
    pub fn set_rows(&self, stream: &Stream, shape: SetShape) -> Result<()> {
        self.check()?;
        let set = shape.into_work()?;
        if shape.count == 0 || shape.rows == 0 {
            return Ok(());
        }
        self.counters().sets.fetch_add(1, Relaxed);
        if self.capture_of(stream)?.is_none() {
            let len = set.span().ok_or(Error::InvalidValue)?;
            self.executor
                .device(set.dst, len, Access::ReadWrite)
                .map_err(|_| Error::InvalidValue)?;
        }
        self.enqueue(stream, Work::Set(set))
    }

    /// cuLaunchKernel; `args` are the kernel's parameters in order.
    pub fn launch(&self, stream: &Stream, kernel: Kernel, args: Vec<u64>) -> Result<()> {
        self.enqueue(stream, Work::Launch(Launch { kernel, args }))
    }

    /// cuLaunchHostFunc, cuStreamAddCallback.
    pub fn call_host(&self, stream: &Stream, call: HostCall) -> Result<()> {
        self.enqueue(stream, Work::HostCall(call))
    }

    /// cuStreamWaitValue, cuStreamWriteValue, cuStreamBatchMemOp: all or none.
    pub fn value_ops(&self, stream: &Stream, ops: &[ValueOp]) -> Result<()> {
        self.check()?;
        ops.iter()
            .try_for_each(|op| self.executor.check_value(op))?;
        for op in ops {
            self.enqueue(stream, Work::Value(*op))?;
        }
        Ok(())
    }
}
