//! Devices and their primary contexts.

use std::ffi::{c_int, c_uint};

use simgpu_core::Error;
use simgpu_core::driver::attributes::{COMPUTE_CAPABILITY, attribute, pci_bus_id};
use simgpu_core::driver::driver;

use crate::abi::{Buffer, Out, Text};

api! {
    2000 fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) {
        driver()?.gpu(ordinal)?;
        device.set(ordinal)
    }

    2000 fn cuDeviceGetCount(count: Out<c_int>) {
        count.set(driver()?.count() as c_int)
    }

    2000 fn cuDeviceGetName(name: Buffer, size: c_int, device: c_int) {
        name.write(size, &driver()?.gpu(device)?.name)
    }

    9020 fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: c_int) {
        uuid.set(driver()?.board_uuid(device)?)
    }

    11040 fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) {
        uuid.set(driver()?.uuid(device)?)
    }

    3020 early fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        bytes.clear();
        bytes.set(driver()?.gpu(device)?.memory.0 as usize)
    }

    2000 early fn cuDeviceGetAttribute(value: Out<c_int>, number: c_int, device: c_int) {
        value.check()?;
        let driver = driver()?;
        let found = attribute(driver.gpu(device)?, driver.slot(device)?, number);
        value.set(found.ok_or(Error::InvalidValue)?)
    }

    2000 fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) {
        driver()?.gpu(device)?;
        major.set(COMPUTE_CAPABILITY.0)?;
        minor.set(COMPUTE_CAPABILITY.1)
    }

    4010 fn cuDeviceGetPCIBusId(id: Buffer, size: c_int, device: c_int) {
        id.write(size, &pci_bus_id(driver()?.slot(device)?))
    }

    4010 fn cuDeviceGetByPCIBusId(device: Out<c_int>, id: Text) {
        let driver = driver()?;
        let id = id.get()?.to_string_lossy().to_lowercase();
        let is_it = |ordinal: &c_int| {
            let slot = driver.slot(*ordinal);
            slot.is_ok_and(|slot| pci_bus_id(slot).ends_with(&id))
        };
        let found = (0..driver.count() as c_int).find(is_it);
        device.set(found.filter(|_| id.len() >= 7).ok_or(Error::InvalidDevice)?)
    }

    7000 fn cuDevicePrimaryCtxRetain(context: Out<usize>, device: c_int) {
        context.check()?;
        context.set(driver()?.retain_primary(device)?.handle())
    }

    7000 fn cuDevicePrimaryCtxRelease(device: c_int) {
        driver()?.release_primary(device)
    }

    11000 fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        driver()?.release_primary(device)
    }

    7000 fn cuDevicePrimaryCtxReset(device: c_int) {
        driver()?.reset_primary(device)
    }

    11000 fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        driver()?.reset_primary(device)
    }

    7000 fn cuDevicePrimaryCtxSetFlags(device: c_int, flags: c_uint) {
        driver()?.set_primary_flags(device, flags)
    }

    11000 fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        driver()?.set_primary_flags(device, flags)
    }

    7000 early fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        flags.check()?;
        active.check()?;
        let (now, is_active) = driver()?.primary_state(device)?;
        flags.set(now)?;
        active.set(c_int::from(is_active))
    }
}
