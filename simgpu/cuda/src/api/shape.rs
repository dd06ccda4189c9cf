//! Copies of rows, as CUDA_MEMCPY2D and CUDA_MEMCPY3D describe them.

use std::ffi::c_uint;

use simgpu_core::driver::{CopyPlane, CopyShape, CopySide, Extent, driver};
use simgpu_core::{Error, Result};

use crate::abi::{End2D, End3D, Rows2D, Rows3D};

/// CUmemorytype.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
const ARRAY: c_uint = 3;
const UNIFIED: c_uint = 4;

/// A copy of rows.
pub(super) fn of_2d(copy: Rows2D) -> Result<CopyShape> {
    let end = |end: End2D| End3D {
        x: end.x,
        y: end.y,
        z: 0,
        level: 0,
        memory_type: end.memory_type,
        host: end.host,
        device: end.device,
        array: end.array,
        context: 0,
        pitch: end.pitch,
        height: 0,
    };
    of_3d(Rows3D {
        src: end(copy.src),
        dst: end(copy.dst),
        width: copy.width,
        height: copy.height,
        depth: 1,
    })
}

/// A copy of slices.
pub(super) fn of_3d(copy: Rows3D) -> Result<CopyShape> {
    let extent = Extent {
        width: copy.width,
        height: copy.height,
        depth: copy.depth,
    };
    Ok(CopyShape {
        dst: plane(&copy.dst, extent)?,
        src: plane(&copy.src, extent)?,
        extent,
    })
}

fn plane(end: &End3D, extent: Extent) -> Result<CopyPlane> {
    if end.level != 0 {
        return Err(Error::InvalidValue);
    }
    let side = match end.memory_type {
        HOST => CopySide::Host(end.host),
        DEVICE => CopySide::Device(end.device),
        UNIFIED => unified(end.device)?,
        ARRAY => {
            let array = driver()?.array(end.array)?;
            let size = [extent.width, extent.height, extent.depth];
            return array.plane([end.x, end.y, end.z], size);
        }
        _ => return Err(Error::InvalidValue),
    };
    // A pitch of 0 is that of rows without gaps.
    let pitch = if end.pitch == 0 {
        extent.width
    } else {
        end.pitch
    };
    let fits = end
        .x
        .checked_add(extent.width)
        .is_some_and(|row| row <= pitch);
    if !fits {
        return Err(Error::InvalidValue);
    }
    let height = end.height.max(extent.height).max(1);
    let slice = pitch.checked_mul(height).ok_or(Error::InvalidValue)?;
    let offset = end
        .z
        .checked_mul(slice)
        .zip(end.y.checked_mul(pitch))
        .and_then(|(slices, rows)| slices.checked_add(rows)?.checked_add(end.x))
        .ok_or(Error::InvalidValue)?;
    let side = match side {
        CopySide::Host(address) => CopySide::Host(address.wrapping_add(offset)),
        CopySide::Device(address) => CopySide::Device(address.wrapping_add(offset as u64)),
    };
    Ok(CopyPlane { side, pitch, slice })
}

/// What an address is under unified addressing.
pub(super) fn unified(address: u64) -> Result<CopySide> {
    let is_device = driver()?.is_device_address(address);
    Ok(if is_device {
        CopySide::Device(address)
    } else {
        CopySide::Host(address as usize)
    })
}

/// As a program described it, but for places within arrays: these are what is behind them.
pub(super) fn to_3d(shape: CopyShape) -> Rows3D {
    let Extent {
        width,
        height,
        depth,
    } = shape.extent;
    let end = |plane: CopyPlane| {
        let (memory_type, host, device) = match plane.side {
            CopySide::Host(address) => (HOST, address, 0),
            CopySide::Device(address) => (DEVICE, 0, address),
        };
        End3D {
            x: 0,
            y: 0,
            z: 0,
            level: 0,
            memory_type,
            host,
            device,
            array: 0,
            context: 0,
            pitch: plane.pitch,
            height: plane.slice.checked_div(plane.pitch).unwrap_or(0),
        }
    };
    Rows3D {
        src: end(shape.src),
        dst: end(shape.dst),
        width,
        height,
        depth,
    }
}
