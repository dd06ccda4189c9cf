//! Devices: how to find them and what they are.

use std::ffi::{c_int, c_uint};

use nvml_wrapper_sys::bindings as sys;
use simgpu_core::Board;
use simgpu_core::driver::attributes::{COMPUTE_CAPABILITY, attribute, pci_bus_id};

use crate::abi::{Buffer, Device, Out, Target, Text, check_version, text_array, version_of};
use crate::status::{Result, Status};
use crate::view::{View, look};

/// GA102, the RTX 3090's: the device ID above NVIDIA's vendor ID.
const PCI_DEVICE_ID: c_uint = 0x2204_10de;
/// PCI class of a display controller.
const PCI_BASE_CLASS: c_uint = 3;
/// NVML_COMPUTEMODE_DEFAULT: any number of contexts.
const COMPUTE_MODE_DEFAULT: c_uint = 0;
/// What cuDeviceGetAttribute calls the PCI bus, the width of the memory's bus,
/// the number of multiprocessors.
const PCI_BUS: i32 = 33;
const MEMORY_BUS_WIDTH: i32 = 37;
const MULTIPROCESSORS: i32 = 16;
/// CUDA cores of one multiprocessor of compute capability 8.6.
const CORES_PER_MULTIPROCESSOR: c_uint = 128;

/// nvmlPciInfo_t of the function's first version.
#[repr(C)]
struct PciInfoV1 {
    bus_id: [std::ffi::c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
}

/// Of its second: what only that had besides is reserved.
#[repr(C)]
struct PciInfoV2 {
    first: PciInfoV1,
    pci_sub_system_id: c_uint,
}

api! {
    fn nvmlDeviceGetCount(count: Out<c_uint>) {
        look(|view| count.set(view.config().boards().len() as c_uint))
    }

    fn nvmlDeviceGetCount_v2(count: Out<c_uint>) {
        look(|view| count.set(view.config().boards().len() as c_uint))
    }

    fn nvmlDeviceGetHandleByIndex(index: c_uint, device: Out<Device>) {
        handle_by_index(index, device)
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<Device>) {
        handle_by_index(index, device)
    }

    fn nvmlDeviceGetHandleByUUID(wanted: Text, device: Out<Device>) {
        look(|view| {
            device.check()?;
            let wanted = wanted.get()?;
            let all = every(view);
            let found = all.into_iter().find(|(_, uuid)| uuid == wanted);
            device.set(found.ok_or(Status::NotFound)?.0)
        })
    }

    fn nvmlDeviceGetHandleByPciBusId(wanted: Text, device: Out<Device>) {
        handle_by_bus_id(&wanted, device)
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(wanted: Text, device: Out<Device>) {
        handle_by_bus_id(&wanted, device)
    }

    fn nvmlDeviceGetIndex(device: Device, index: Out<c_uint>) {
        look(|view| index.set(index_of(view, device)?))
    }

    fn nvmlDeviceGetName(device: Device, name: Buffer, size: c_uint) {
        look(|view| {
            let own = &view.gpu(device.any(view)?)?.name;
            // Of an instance it is its GPU's, with the instance's profile behind.
            let name_of = match device.target(view)? {
                Target::Board(Board::Divided { .. }) => own.split(" MIG ").next(),
                _ => None,
            };
            name.write(size, name_of.unwrap_or(own))
        })
    }

    fn nvmlDeviceGetUUID(device: Device, text: Buffer, size: c_uint) {
        look(|view| {
            let config = view.config();
            let uuid = match device.target(view)? {
                Target::Board(board) => config.board_text(&board),
                Target::Instance(gpu) => config.uuid_text(gpu),
            };
            text.write(size, &uuid)
        })
    }

    fn nvmlDeviceGetPciInfo(device: Device, info: Out<PciInfoV1>) {
        look(|view| info.set(PciInfoV1::of(&pci_info(view, device)?)))
    }

    fn nvmlDeviceGetPciInfo_v2(device: Device, info: Out<PciInfoV2>) {
        look(|view| {
            let pci = pci_info(view, device)?;
            info.set(PciInfoV2 {
                first: PciInfoV1::of(&pci),
                pci_sub_system_id: pci.pciSubSystemId,
            })
        })
    }

    fn nvmlDeviceGetPciInfo_v3(device: Device, info: Out<sys::nvmlPciInfo_t>) {
        look(|view| info.set(pci_info(view, device)?))
    }

    fn nvmlDeviceGetPciInfoExt(device: Device, info: Out<sys::nvmlPciInfoExt_v1_t>) {
        look(|view| {
            let version = version_of::<sys::nvmlPciInfoExt_v1_t>(1);
            check_version(info.get()?.version, version)?;
            let pci = pci_info(view, device)?;
            info.set(sys::nvmlPciInfoExt_v1_t {
                version,
                domain: pci.domain,
                bus: pci.bus,
                device: pci.device,
                pciDeviceId: pci.pciDeviceId,
                pciSubSystemId: pci.pciSubSystemId,
                baseClass: PCI_BASE_CLASS,
                subClass: 0,
                busId: pci.busId,
            })
        })
    }

    fn nvmlDeviceGetCudaComputeCapability(device: Device, major: Out<c_int>, minor: Out<c_int>) {
        look(|view| {
            device.target(view)?;
            minor.check()?;
            major.set(COMPUTE_CAPABILITY.0)?;
            minor.set(COMPUTE_CAPABILITY.1)
        })
    }

    fn nvmlDeviceGetArchitecture(device: Device, architecture: Out<c_uint>) {
        look(|view| {
            device.target(view)?;
            architecture.set(sys::NVML_DEVICE_ARCH_AMPERE)
        })
    }

    fn nvmlDeviceGetComputeMode(device: Device, mode: Out<c_uint>) {
        look(|view| {
            device.target(view)?;
            mode.set(COMPUTE_MODE_DEFAULT)
        })
    }

    fn nvmlDeviceGetMemoryBusWidth(device: Device, bits: Out<c_uint>) {
        look(|view| bits.set(cuda_attribute(view, device, MEMORY_BUS_WIDTH)?))
    }

    fn nvmlDeviceGetNumGpuCores(device: Device, cores: Out<c_uint>) {
        look(|view| {
            let multiprocessors = cuda_attribute(view, device, MULTIPROCESSORS)?;
            cores.set(multiprocessors * CORES_PER_MULTIPROCESSOR)
        })
    }

    fn nvmlDeviceGetFieldValues(
        device: Device, count: c_int, values: Out<sys::nvmlFieldValue_t>,
    ) {
        look(|view| {
            device.target(view)?;
            values.check()?;
            get_fields(count, values)
        })
    }
}

/// Fields are counters of links, errors, power and the like: each says that it
/// is not there.
fn get_fields(count: c_int, values: Out<sys::nvmlFieldValue_t>) -> Result<()> {
    let count = usize::try_from(count).map_err(|_| Status::InvalidArgument)?;
    for index in 0..count {
        let mut value = values.get_at(index)?;
        value.nvmlReturn = Status::NotSupported as c_uint;
        values.set_at(index, value)?;
    }
    Ok(())
}

fn handle_by_index(index: c_uint, device: Out<Device>) -> Result<()> {
    look(|view| {
        let boards = view.config().boards();
        let board = boards.get(index as usize).ok_or(Status::InvalidArgument)?;
        device.set(Device::of(board))
    })
}

/// The bus ID may have its domain in four digits, in eight, or left out.
fn handle_by_bus_id(wanted: &Text, device: Out<Device>) -> Result<()> {
    look(|view| {
        device.check()?;
        let wanted = wanted.get()?.to_lowercase();
        let is_it = |board: &Board| {
            let short = pci_bus_id(board.first() as i32);
            let parts = short
                .split_once(':')
                .is_some_and(|(_, rest)| rest == wanted);
            parts || wanted == short || wanted == format!("0000{short}")
        };
        let found = view.config().boards().into_iter().find(is_it);
        device.set(Device::of(&found.ok_or(Status::NotFound)?))
    })
}

/// All boards and instances, with their UUIDs.
fn every(view: &View) -> Vec<(Device, String)> {
    let config = view.config();
    let mut all = Vec::new();
    for board in config.boards() {
        all.push((Device::of(&board), config.board_text(&board)));
        if let Board::Divided { instances, .. } = board {
            let instance = |gpu| (Device::of_instance(gpu), config.uuid_text(gpu));
            all.extend(instances.into_iter().map(instance));
        }
    }
    all
}

/// The index of a board among all, or of an instance on its board.
fn index_of(view: &View, device: Device) -> Result<c_uint> {
    let board = device.board(view)?;
    let index = match (device.target(view)?, &board) {
        (Target::Instance(gpu), Board::Divided { instances, .. }) => {
            instances.iter().position(|instance| *instance == gpu)
        }
        _ => view.config().boards().iter().position(|it| *it == board),
    };
    index.map(|index| index as c_uint).ok_or(Status::GpuIsLost)
}

fn cuda_attribute(view: &View, device: Device, number: i32) -> Result<c_uint> {
    let slot = device.board(view)?.first() as i32;
    let value = attribute(view.gpu(device.any(view)?)?, slot, number);
    value.map(i32::cast_unsigned).ok_or(Status::NotSupported)
}

fn pci_info(view: &View, device: Device) -> Result<sys::nvmlPciInfo_t> {
    let bus_id = pci_bus_id(device.board(view)?.first() as i32);
    Ok(sys::nvmlPciInfo_t {
        busIdLegacy: text_array(&bus_id),
        domain: 0,
        bus: cuda_attribute(view, device, PCI_BUS)?,
        device: 0,
        pciDeviceId: PCI_DEVICE_ID,
        pciSubSystemId: 0,
        busId: text_array(&format!("0000{bus_id}")),
    })
}

impl PciInfoV1 {
    fn of(info: &sys::nvmlPciInfo_t) -> Self {
        Self {
            bus_id: info.busIdLegacy,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            pci_device_id: info.pciDeviceId,
        }
    }
}
