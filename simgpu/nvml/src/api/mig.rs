//! GPUs that are divided, and their instances. Each instance is a GPU instance with one compute
//! instance.

use std::ffi::c_uint;

use simgpu_core::Board;

use crate::abi::{Device, Out, Target};
use crate::status::{Result, Status};
use crate::view::{View, look};

/// NVML_DEVICE_MIG_ENABLE.
const ENABLED: c_uint = 1;
/// An A100 is divided into so many instances at most.
const MOST: usize = 7;

api! {
    fn nvmlDeviceGetMigMode(device: Device, current: Out<c_uint>, pending: Out<c_uint>) {
        look(|view| {
            instances(view, device)?;
            pending.check()?;
            current.set(ENABLED)?;
            pending.set(ENABLED)
        })
    }

    fn nvmlDeviceIsMigDeviceHandle(device: Device, is_mig: Out<c_uint>) {
        look(|view| is_mig.set(matches!(device.target(view)?, Target::Instance(_)).into()))
    }

    fn nvmlDeviceGetMaxMigDeviceCount(device: Device, count: Out<c_uint>) {
        look(|view| {
            device.target(view)?;
            count.set(instances(view, device).map_or(0, |instances| places(&instances)))
        })
    }

    fn nvmlDeviceGetMigDeviceHandleByIndex(
        device: Device, index: c_uint, instance: Out<Device>,
    ) {
        look(|view| {
            instance.check()?;
            let instances = instances(view, device)?;
            match instances.get(index as usize) {
                Some(gpu) => instance.set(Device::of_instance(*gpu)),
                None if index < places(&instances) => Err(Status::NotFound),
                None => Err(Status::InvalidArgument),
            }
        })
    }

    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance: Device, device: Out<Device>) {
        look(|view| match instance.target(view)? {
            Target::Instance(_) => device.set(Device::of(&instance.board(view)?)),
            Target::Board(_) => Err(Status::InvalidArgument),
        })
    }
}

/// The instances of a GPU in MIG mode; GPUs of their own have no such mode.
fn instances(view: &View, device: Device) -> Result<Vec<usize>> {
    match device.target(view)? {
        Target::Board(Board::Divided { instances, .. }) => Ok(instances),
        _ => Err(Status::NotSupported),
    }
}

/// How many there can be.
fn places(instances: &[usize]) -> c_uint {
    instances.len().max(MOST) as c_uint
}
