//! Arrays: memory with a shape, reached only through copies. Rows lie one
//! after another with a pitch, as nobody can see the difference.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::context::Context;
use super::heap::{map_new, unmap};
use super::{CopyPlane, CopySide, Driver};
use crate::config::GRANULE;
use crate::{Error, Result};

/// Rows start at multiples of this.
const PITCH: usize = 512;
/// The most elements in each direction, and levels of a mipmapped array.
const MOST: usize = 131_072;
const MOST_LEVELS: u32 = 18;

/// CUDA_ARRAY3D_DESCRIPTOR: what an array is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayShape {
    /// Elements in a row.
    pub width: usize,
    /// Rows; 0 is a one-dimensional array.
    pub height: usize,
    /// Slices, or layers; 0 is none.
    pub depth: usize,
    /// CUarray_format.
    pub format: u32,
    /// Values of an element: 1, 2 or 4.
    pub channels: u32,
    /// As they came.
    pub flags: u32,
}

impl ArrayShape {
    /// Bytes of an element.
    fn element(&self) -> Result<usize> {
        let value = match self.format {
            0x01 | 0x08 => 1,
            0x02 | 0x09 | 0x10 => 2,
            0x03 | 0x0a | 0x20 => 4,
            _ => return Err(Error::InvalidValue),
        };
        match self.channels {
            1 | 2 | 4 => Ok(value * self.channels as usize),
            _ => Err(Error::InvalidValue),
        }
    }

    /// Of one level of a mipmapped array.
    fn level(self, level: u32) -> Self {
        let half = |size: usize| if size == 0 { 0 } else { (size >> level).max(1) };
        Self {
            width: half(self.width),
            height: half(self.height),
            depth: half(self.depth),
            ..self
        }
    }
}

/// An array.
#[derive(Debug)]
pub struct Array {
    /// What it was asked to be.
    pub shape: ArrayShape,
    /// Bytes of a row.
    row: usize,
    pitch: usize,
    address: u64,
    size: u64,
    context: u64,
    /// Whether it is a level of a mipmapped array.
    is_level: bool,
}

/// An array with smaller and smaller levels; handles of arrays.
#[derive(Debug)]
pub struct Mipmapped {
    levels: Vec<usize>,
}

impl Array {
    /// Where a copy starts, `x` bytes into row `y` of slice `z`, if all
    /// of `width` bytes, `height` rows and `depth` slices are within.
    pub fn plane(&self, at: [usize; 3], extent: [usize; 3]) -> Result<CopyPlane> {
        let has = [self.row, self.shape.height.max(1), self.shape.depth.max(1)];
        for ((at, extent), has) in at.iter().zip(extent).zip(has) {
            if at.checked_add(extent).is_none_or(|end| end > has) {
                return Err(Error::InvalidValue);
            }
        }
        let slice = self.pitch * has[1];
        let offset = at[2] * slice + at[1] * self.pitch + at[0];
        Ok(CopyPlane {
            side: CopySide::Device(self.address + offset as u64),
            pitch: self.pitch,
            slice,
        })
    }

    /// A run of bytes of a one-dimensional array.
    pub fn run(&self, offset: usize, len: usize) -> Result<CopySide> {
        if self.shape.height > 1 || self.shape.depth > 1 {
            return Err(Error::InvalidValue);
        }
        self.plane([offset, 0, 0], [len, 1, 1])
            .map(|plane| plane.side)
    }
}

impl Driver {
    /// cuArrayCreate, cuArray3DCreate; the handle.
    pub fn create_array(&self, context: &Context, shape: ArrayShape) -> Result<usize> {
        self.make_array(context, shape, false)
    }

    fn make_array(&self, context: &Context, shape: ArrayShape, is_level: bool) -> Result<usize> {
        context.check()?;
        self.process.captures.check_unsafe()?;
        let ArrayShape {
            width,
            height,
            depth,
            ..
        } = shape;
        if width == 0 || width.max(height).max(depth) > MOST {
            return Err(Error::InvalidValue);
        }
        let row = width * shape.element()?;
        let pitch = row.next_multiple_of(PITCH);
        let bytes = pitch
            .checked_mul(height.max(1))
            .and_then(|bytes| bytes.checked_mul(depth.max(1)))
            .and_then(|bytes| (bytes as u64).checked_next_multiple_of(GRANULE));
        let size = bytes.ok_or(Error::OutOfMemory)?;
        let gpu = context.gpu();
        let address = context.with_pools_trimmed(|| map_new(&self.process, gpu, size))?;
        self.process.counters(gpu).allocs.fetch_add(1, Relaxed);
        Ok(self.arrays.insert(&Arc::new(Array {
            shape,
            row,
            pitch,
            address,
            size,
            context: context.id,
            is_level,
        })))
    }

    /// The array with this handle.
    pub fn array(&self, handle: usize) -> Result<Arc<Array>> {
        self.arrays.get(handle).ok_or(Error::InvalidHandle)
    }

    /// cuArrayDestroy; levels go with what they are levels of.
    pub fn destroy_array(&self, context: &Context, handle: usize) -> Result<()> {
        if self.array(handle)?.is_level {
            return Err(Error::InvalidHandle);
        }
        context.drain()?;
        self.take_array(handle)
    }

    fn take_array(&self, handle: usize) -> Result<()> {
        let array = self.arrays.remove(handle).ok_or(Error::InvalidHandle)?;
        unmap(&self.process, array.address, array.size)
    }

    /// cuMipmappedArrayCreate; the handle.
    pub fn create_mipmapped(
        &self,
        context: &Context,
        shape: ArrayShape,
        levels: u32,
    ) -> Result<usize> {
        let most = shape
            .width
            .max(shape.height)
            .max(shape.depth)
            .max(1)
            .ilog2()
            + 1;
        let mut made = Mipmapped { levels: Vec::new() };
        for level in 0..levels.clamp(1, most.min(MOST_LEVELS)) {
            match self.make_array(context, shape.level(level), true) {
                Ok(handle) => made.levels.push(handle),
                Err(error) => {
                    self.take_levels(&made);
                    return Err(error);
                }
            }
        }
        Ok(self.mipmapped.insert(&Arc::new(made)))
    }

    /// cuMipmappedArrayGetLevel; the handle of an array.
    pub fn mipmap_level(&self, handle: usize, level: u32) -> Result<usize> {
        let mipmapped = self.mipmapped.get(handle).ok_or(Error::InvalidHandle)?;
        let level = mipmapped.levels.get(level as usize);
        level.copied().ok_or(Error::InvalidValue)
    }

    /// cuMipmappedArrayDestroy.
    pub fn destroy_mipmapped(&self, context: &Context, handle: usize) -> Result<()> {
        let mipmapped = self.mipmapped.remove(handle).ok_or(Error::InvalidHandle)?;
        context.drain()?;
        self.take_levels(&mipmapped);
        Ok(())
    }

    fn take_levels(&self, mipmapped: &Mipmapped) {
        for handle in &mipmapped.levels {
            // Its context may have taken it along.
            let _ = self.take_array(*handle);
        }
    }

    /// Arrays end with their context.
    pub(super) fn take_arrays_of(&self, context: &Context) {
        for array in self.arrays.all() {
            if array.context == context.id {
                let _ = self.take_array(super::table::handle_of(&array));
            }
        }
    }
}
