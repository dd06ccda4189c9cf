//! Devices and their primary contexts.

use std::ffi::{c_int, c_uint};

use simgpu_core::driver::attributes::{COMPUTE_CAPABILITY, attribute, pci_bus_id};
use simgpu_core::driver::driver;
use simgpu_core::{Error, Result};

use crate::abi::{Buffer, Out, Text};

api! {
    2000 fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) {
        driver()?.gpu(ordinal)?;
        device.set(ordinal)
    }

    2000 fn cuDeviceGetCount(count: Out<c_int>) {
        count.set(driver()?.config().gpus.len() as c_int)
    }

    2000 fn cuDeviceGetName(name: Buffer, size: c_int, device: c_int) {
        name.write(size, &driver()?.gpu(device)?.name)
    }

    9020 fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: c_int) {
        get_uuid(&uuid, device)
    }

    11040 fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) {
        get_uuid(&uuid, device)
    }

    3020 fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        bytes.set(driver()?.gpu(device)?.memory.0 as usize)
    }

    2000 fn cuDeviceGetAttribute(value: Out<c_int>, number: c_int, device: c_int) {
        let gpu = driver()?.gpu(device)?;
        value.set(attribute(gpu, device, number).ok_or(Error::InvalidValue)?)
    }

    2000 fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) {
        driver()?.gpu(device)?;
        major.set(COMPUTE_CAPABILITY.0)?;
        minor.set(COMPUTE_CAPABILITY.1)
    }

    4010 fn cuDeviceGetPCIBusId(id: Buffer, size: c_int, device: c_int) {
        driver()?.gpu(device)?;
        id.write(size, &pci_bus_id(device))
    }

    4010 fn cuDeviceGetByPCIBusId(device: Out<c_int>, id: Text) {
        let count = driver()?.config().gpus.len() as c_int;
        let id = id.get()?.to_string_lossy().to_lowercase();
        let found = (0..count).find(|ordinal| pci_bus_id(*ordinal).ends_with(&id));
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

    7000 fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        let (now, is_active) = driver()?.primary_state(device)?;
        flags.set(now)?;
        active.set(c_int::from(is_active))
    }
}

fn get_uuid(uuid: &Out<[u8; 16]>, device: c_int) -> Result<()> {
    let driver = driver()?;
    driver.gpu(device)?;
    uuid.set(driver.config().uuid(device as usize))
}
