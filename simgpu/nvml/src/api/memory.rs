//! Memory of a GPU as a whole.

use nvml_wrapper_sys::bindings as sys;
use simgpu_core::Observer;

use crate::abi::{Device, Out, check_version, version_of};
use crate::status::{Result, Status};
use crate::view::{View, look};

api! {
    fn nvmlDeviceGetMemoryInfo(device: Device, memory: Out<sys::nvmlMemory_t>) {
        look(|view| {
            let (total, used) = total_and_used(view, device)?;
            memory.set(sys::nvmlMemory_t {
                total,
                free: total - used,
                used,
            })
        })
    }

    fn nvmlDeviceGetMemoryInfo_v2(device: Device, memory: Out<sys::nvmlMemory_v2_t>) {
        look(|view| {
            let version = version_of::<sys::nvmlMemory_v2_t>(2);
            check_version(memory.get()?.version, version)?;
            let (total, used) = total_and_used(view, device)?;
            memory.set(sys::nvmlMemory_v2_t {
                version,
                total,
                // This driver keeps nothing for itself.
                reserved: 0,
                free: total - used,
                used,
            })
        })
    }
}

/// Bytes; what dead processes have not given back yet is used. Of a GPU in MIG mode all its
/// instances' together.
fn total_and_used(view: &View, device: Device) -> Result<(u64, u64)> {
    let places = device.places(view)?;
    let usage = view.machine().map(Observer::gpus);
    let (mut total, mut used) = (0, 0);
    for gpu in places {
        // What is integrated has no memory of its own.
        if view.gpu(gpu)?.integrated {
            return Err(Status::NotSupported);
        }
        total += view.gpu(gpu)?.memory.0;
        used += usage.as_ref().map_or(0, |usage| usage[gpu].used_bytes);
    }
    Ok((total, used))
}
