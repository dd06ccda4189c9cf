//! What is known of an address.

use std::ffi::{c_int, c_uint, c_void};

use simgpu_core::driver::{PointerInfo, PointerKind, driver};
use simgpu_core::{Error, Result};

use crate::abi::{In, Out};

api! {
    4000 fn cuPointerGetAttribute(data: Out<c_void>, attribute: c_uint, address: u64) {
        data.check()?;
        attribute_of(attribute, address)?.store(&data)
    }

    7000 fn cuPointerGetAttributes(
        count: c_uint,
        attributes: In<c_uint>,
        data: In<*mut c_void>,
        address: u64,
    ) {
        // An address that is not known gives defaults here, or leaves the place as it is, and no error.
        let known = driver()?.pointer(address).is_ok() || driver()?.is_device_address(address);
        if count == 0 || attributes.is_null() || data.is_null() {
            return Err(Error::InvalidValue);
        }
        let count = count as usize;
        // SAFETY: as many attributes, and places for their values, as the program says.
        let (attributes, places) = unsafe { (attributes.list(count), data.list(count)) };
        for (attribute, place) in attributes.zip(places) {
            // SAFETY: an address of that list.
            let (attribute, place) = (attribute?, unsafe { Out::named(place?) });
            let answer = attribute_of(attribute, address).ok().filter(|_| known);
            let value = match answer {
                None => default_of(attribute)?,
                known => known,
            };
            if let Some(value) = value {
                value.store(&place)?;
            }
        }
        Ok(())
    }

    6000 fn cuPointerSetAttribute(value: In<c_int>, attribute: c_uint, address: u64) {
        match attribute {
            // The synchronization of copies.
            6 => driver()?.set_sync_memops(address, value.get()? != 0),
            _ => Err(Error::InvalidValue),
        }
    }
}

/// CU_MEMORYTYPE_HOST and CU_MEMORYTYPE_DEVICE.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
/// CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE.
const READ_WRITE: c_uint = 3;
/// CU_DEVICE_INVALID.
const NO_DEVICE: c_int = -2;

/// An attribute's value in the width in which NVIDIA's library stores it. cuda.h names types for some attributes only;
/// the widths are those of the stores in the one switch behind both getters (550.163.01), where booleans are 32 bits wide.
#[derive(Clone, Copy)]
enum Value {
    Narrow(u32),
    Wide(u64),
}

impl Value {
    fn flag(is_set: bool) -> Self {
        Self::Narrow(is_set.into())
    }

    /// Stores it where the program has room for this attribute.
    fn store(self, data: &Out<c_void>) -> Result<()> {
        match self {
            // SAFETY: attributes of this kind have this width.
            Self::Narrow(value) => unsafe { data.cast::<u32>() }.set(value),
            // SAFETY: as above.
            Self::Wide(value) => unsafe { data.cast::<u64>() }.set(value),
        }
    }
}

fn attribute_of(attribute: c_uint, address: u64) -> Result<Value> {
    use Value::{Narrow, Wide};
    let driver = driver()?;
    // The reserved range of an address is known even where nothing is mapped.
    if let (11..=13, Some((start, size))) = (attribute, driver.reservation(address)) {
        let allocated = driver
            .pointer(address)
            .ok()
            .filter(|info| info.context != 0 || info.pool != 0);
        let (start, size) = allocated.map_or((start, size), |info| (info.start, info.size));
        return Ok(match attribute {
            11 => Wide(start),
            12 => Wide(size),
            _ => Value::flag(driver.pointer(address).is_ok()),
        });
    }
    let info = driver.pointer(address)?;
    let is_device = info.kind == PointerKind::Device;
    Ok(match attribute {
        // Context, memory type, device pointer, host pointer.
        1 => Wide(info.context as u64),
        2 => Narrow(if is_device { DEVICE } else { HOST }),
        4 if is_device && !driver.is_managed(address) => return Err(Error::InvalidValue),
        3 | 4 => Wide(address),
        // Synchronous copies; managed; handles for legacy IPC.
        6 => Value::flag(driver.has_sync_memops(address)),
        8 => Value::flag(driver.is_managed(address)),
        10 => Value::flag(driver.has_ipc_handle(address)),
        // An id that is unique while the memory lives; start of the range.
        7 | 11 => Wide(info.start),
        9 => Narrow(info.gpu as u32),
        // Size of the range, mapped, handle types, RDMA, access.
        12 => Wide(info.size),
        13 => Value::flag(true),
        14 => Wide(driver.handle_types(address)),
        15 => Value::flag(driver.is_rdma_capable(address)),
        16 => Narrow(READ_WRITE),
        // Memory pool.
        17 => Wide(info.pool as u64),
        18..=20 => Wide(mapping_attribute(attribute, address, info)?),
        _ => return Err(Error::InvalidValue),
    })
}

/// Size and start of the mapping around an address, and an id of the memory behind it; pinned host memory is its own mapping.
fn mapping_attribute(attribute: c_uint, address: u64, info: PointerInfo) -> Result<u64> {
    let own = (info.start, info.size, info.start);
    let (start, size, id) = driver()?.mapping(address).unwrap_or(own);
    Ok(match attribute {
        18 => size,
        19 => start,
        _ => id,
    })
}

/// What an attribute is where it has no value; none if its place keeps what was there, as driver 580.159 does for the start
/// of the range.
fn default_of(attribute: c_uint) -> Result<Option<Value>> {
    Ok(match attribute {
        11 => None,
        9 => Some(Value::Narrow(NO_DEVICE.cast_unsigned())),
        2 | 6 | 8 | 10 | 13 | 15 | 16 => Some(Value::Narrow(0)),
        1 | 3 | 4 | 7 | 12 | 14 | 17..=20 => Some(Value::Wide(0)),
        _ => return Err(Error::InvalidValue),
    })
}
