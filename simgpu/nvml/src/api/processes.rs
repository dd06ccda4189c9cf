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

/// A process that holds memory, and the GPU instance that the memory is of.
struct Held {
    holder: Holder,
    gpu_instance: Option<c_uint>,
}

impl Held {
    /// IDs of the GPU instance and of its compute instance, which is the only one.
    fn instances(&self) -> (c_uint, c_uint) {
        let none = (NO_INSTANCE, NO_INSTANCE);
        self.gpu_instance.map_or(none, |id| (id, 0))
    }
}

/// A program's struct for one process.
trait ProcessInfo: Copy {
    fn of(held: &Held) -> Self;
}

impl ProcessInfo for sys::nvmlProcessInfo_v1_t {
    fn of(held: &Held) -> Self {
        Self {
            pid: held.holder.pid,
            usedGpuMemory: held.holder.bytes,
        }
    }
}

/// Versions 2 and 3 of the functions have this.
impl ProcessInfo for sys::nvmlProcessInfo_v2_t {
    fn of(held: &Held) -> Self {
        Self {
            pid: held.holder.pid,
            usedGpuMemory: held.holder.bytes,
            gpuInstanceId: held.instances().0,
            computeInstanceId: held.instances().1,
        }
    }
}

impl ProcessInfo for sys::nvmlProcessDetail_v1_t {
    fn of(held: &Held) -> Self {
        Self {
            pid: held.holder.pid,
            usedGpuMemory: held.holder.bytes,
            gpuInstanceId: held.instances().0,
            computeInstanceId: held.instances().1,
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
            let held = match given.mode {
                COMPUTE => held(view, device)?,
                GRAPHICS | MPS => nobody(view, device)?,
                _ => return Err(Status::InvalidArgument),
            };
            let count = Out::from_raw(&raw mut given.numProcArrayEntries);
            let filled = fill(&held, count, Out::from_raw(given.procArray));
            list.set(given)?;
            filled
        })
    }
}

fn compute<T: ProcessInfo>(device: Device, count: Out<c_uint>, infos: Out<T>) -> Result<()> {
    look(|view| fill(&held(view, device)?, count, infos))
}

/// The machine has no graphics and no MPS.
fn none<T: ProcessInfo>(device: Device, count: Out<c_uint>, infos: Out<T>) -> Result<()> {
    look(|view| fill(&nobody(view, device)?, count, infos))
}

fn fill<T: ProcessInfo>(held: &[Held], count: Out<c_uint>, infos: Out<T>) -> Result<()> {
    let values: Vec<_> = held.iter().map(T::of).collect();
    infos.fill(count, &values)
}

/// The running processes that hold memory of a GPU of its own.
pub(super) fn holders(view: &View, device: Device) -> Result<Vec<Holder>> {
    let gpu = device.whole(view)?;
    Ok(view
        .machine()
        .map_or_else(Vec::new, |machine| machine.holders(gpu)))
}

/// Those that hold memory of the device: of a GPU in MIG mode on all its instances, as root sees it.
fn held(view: &View, device: Device) -> Result<Vec<Held>> {
    let board = device.board(view)?;
    let mut all = Vec::new();
    for gpu in device.places(view)? {
        let holders = view.machine().map(|machine| machine.holders(gpu));
        let gpu_instance = board.gpu_instance(gpu);
        all.extend(holders.unwrap_or_default().into_iter().map(|holder| Held {
            holder,
            gpu_instance,
        }));
    }
    Ok(all)
}

fn nobody(view: &View, device: Device) -> Result<Vec<Held>> {
    device.target(view).map(|_| Vec::new())
}
