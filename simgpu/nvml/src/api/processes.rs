//! Who holds memory of a GPU.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as sys;
use simgpu_core::Holder;

use crate::abi::{Device, Out, check_version, version_of};
use crate::status::{Result, Status};
use crate::view::{View, look};

/// Instance IDs where a GPU is not divided; also "not available".
const NO_INSTANCE: c_uint = c_uint::MAX;

/// The modes of nvmlProcessDetailList_t.
const COMPUTE: c_uint = 0;
const GRAPHICS: c_uint = 1;
const MPS: c_uint = 2;

/// A program's struct for one process.
trait ProcessInfo: Copy {
    fn of(holder: &Holder) -> Self;
}

impl ProcessInfo for sys::nvmlProcessInfo_v1_t {
    fn of(holder: &Holder) -> Self {
        Self {
            pid: holder.pid,
            usedGpuMemory: holder.bytes,
        }
    }
}

/// Versions 2 and 3 of the functions have this.
impl ProcessInfo for sys::nvmlProcessInfo_v2_t {
    fn of(holder: &Holder) -> Self {
        Self {
            pid: holder.pid,
            usedGpuMemory: holder.bytes,
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
        }
    }
}

impl ProcessInfo for sys::nvmlProcessDetail_v1_t {
    fn of(holder: &Holder) -> Self {
        Self {
            pid: holder.pid,
            usedGpuMemory: holder.bytes,
            gpuInstanceId: NO_INSTANCE,
            computeInstanceId: NO_INSTANCE,
            usedGpuCcProtectedMemory: 0,
        }
    }
}

type V1 = sys::nvmlProcessInfo_v1_t;
type V2 = sys::nvmlProcessInfo_v2_t;

api! {
    fn nvmlDeviceGetComputeRunningProcesses(
        device: Device, count: Out<c_uint>, infos: Out<V1>,
    ) {
        compute(device, count, infos)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2(
        device: Device, count: Out<c_uint>, infos: Out<V2>,
    ) {
        compute(device, count, infos)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(
        device: Device, count: Out<c_uint>, infos: Out<V2>,
    ) {
        compute(device, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses(
        device: Device, count: Out<c_uint>, infos: Out<V1>,
    ) {
        none(device, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2(
        device: Device, count: Out<c_uint>, infos: Out<V2>,
    ) {
        none(device, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        device: Device, count: Out<c_uint>, infos: Out<V2>,
    ) {
        none(device, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses(
        device: Device, count: Out<c_uint>, infos: Out<V1>,
    ) {
        none(device, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(
        device: Device, count: Out<c_uint>, infos: Out<V2>,
    ) {
        none(device, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        device: Device, count: Out<c_uint>, infos: Out<V2>,
    ) {
        none(device, count, infos)
    }

    fn nvmlDeviceGetRunningProcessDetailList(
        device: Device, list: Out<sys::nvmlProcessDetailList_v1_t>,
    ) {
        look(|view| {
            let mut given = list.get()?;
            check_version(given.version, version_of::<sys::nvmlProcessDetailList_v1_t>(1))?;
            let holders = match given.mode {
                COMPUTE => holders(view, device)?,
                GRAPHICS | MPS => nobody(view, device)?,
                _ => return Err(Status::InvalidArgument),
            };
            let count = Out::from_raw(&raw mut given.numProcArrayEntries);
            let filled = fill(&holders, count, Out::from_raw(given.procArray));
            list.set(given)?;
            filled
        })
    }
}

fn compute<T: ProcessInfo>(device: Device, count: Out<c_uint>, infos: Out<T>) -> Result<()> {
    look(|view| fill(&holders(view, device)?, count, infos))
}

/// The machine has no graphics and no MPS.
fn none<T: ProcessInfo>(device: Device, count: Out<c_uint>, infos: Out<T>) -> Result<()> {
    look(|view| fill(&nobody(view, device)?, count, infos))
}

fn fill<T: ProcessInfo>(holders: &[Holder], count: Out<c_uint>, infos: Out<T>) -> Result<()> {
    let values: Vec<_> = holders.iter().map(T::of).collect();
    infos.fill(count, &values)
}

/// The running processes that hold memory of the device.
pub(super) fn holders(view: &View, device: Device) -> Result<Vec<Holder>> {
    let gpu = device.gpu(view)?;
    Ok(view
        .machine()
        .map_or_else(Vec::new, |machine| machine.holders(gpu)))
}

fn nobody(view: &View, device: Device) -> Result<Vec<Holder>> {
    device.gpu(view).map(|_| Vec::new())
}
