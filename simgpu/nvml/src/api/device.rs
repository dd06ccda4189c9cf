//! Devices: how to find them and what they are.

use std::ffi::{c_int, c_uint};

use nvml_wrapper_sys::bindings as sys;
use simgpu_core::driver::attributes::{COMPUTE_CAPABILITY, attribute, pci_bus_id};

use crate::abi::{Buffer, Device, Out, Text, check_version, text_array, version_of};
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
        look(|view| count.set(view.config().gpus.len() as c_uint))
    }

    fn nvmlDeviceGetCount_v2(count: Out<c_uint>) {
        look(|view| count.set(view.config().gpus.len() as c_uint))
    }

    fn nvmlDeviceGetHandleByIndex(index: c_uint, device: Out<Device>) {
        handle_by_index(index, device)
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<Device>) {
        handle_by_index(index, device)
    }

    fn nvmlDeviceGetHandleByUUID(wanted: Text, device: Out<Device>) {
        look(|view| find(view, device, |gpu| Ok(uuid(view, gpu) == wanted.get()?)))
    }

    fn nvmlDeviceGetHandleByPciBusId(wanted: Text, device: Out<Device>) {
        handle_by_bus_id(&wanted, device)
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(wanted: Text, device: Out<Device>) {
        handle_by_bus_id(&wanted, device)
    }

    fn nvmlDeviceGetIndex(device: Device, index: Out<c_uint>) {
        look(|view| index.set(device.gpu(view)? as c_uint))
    }

    fn nvmlDeviceGetName(device: Device, name: Buffer, size: c_uint) {
        look(|view| name.write(size, &view.gpu(device.gpu(view)?)?.name))
    }

    fn nvmlDeviceGetUUID(device: Device, text: Buffer, size: c_uint) {
        look(|view| text.write(size, &uuid(view, device.gpu(view)?)))
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
            device.gpu(view)?;
            minor.check()?;
            major.set(COMPUTE_CAPABILITY.0)?;
            minor.set(COMPUTE_CAPABILITY.1)
        })
    }

    fn nvmlDeviceGetArchitecture(device: Device, architecture: Out<c_uint>) {
        look(|view| {
            device.gpu(view)?;
            architecture.set(sys::NVML_DEVICE_ARCH_AMPERE)
        })
    }

    fn nvmlDeviceGetComputeMode(device: Device, mode: Out<c_uint>) {
        look(|view| {
            device.gpu(view)?;
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
            device.gpu(view)?;
            values.check()?;
            get_fields(count, values)
        })
    }

    // GPUs of this kind are not divided.

    fn nvmlDeviceIsMigDeviceHandle(device: Device, is_mig: Out<c_uint>) {
        look(|view| {
            device.gpu(view)?;
            is_mig.set(0)
        })
    }

    fn nvmlDeviceGetMaxMigDeviceCount(device: Device, count: Out<c_uint>) {
        look(|view| {
            device.gpu(view)?;
            count.set(0)
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
        let gpu = index as usize;
        let exists = gpu < view.config().gpus.len();
        device.set(
            exists
                .then_some(Device::new(gpu))
                .ok_or(Status::InvalidArgument)?,
        )
    })
}

/// The bus ID may have its domain in four digits, in eight, or left out.
fn handle_by_bus_id(wanted: &Text, device: Out<Device>) -> Result<()> {
    look(|view| {
        find(view, device, |gpu| {
            let wanted = wanted.get()?.to_lowercase();
            let short = pci_bus_id(gpu as i32);
            let parts = short
                .split_once(':')
                .is_some_and(|(_, rest)| rest == wanted);
            Ok(parts || wanted == short || wanted == format!("0000{short}"))
        })
    })
}

fn find(view: &View, device: Out<Device>, is_it: impl Fn(usize) -> Result<bool>) -> Result<()> {
    device.check()?;
    for gpu in 0..view.config().gpus.len() {
        if is_it(gpu)? {
            return device.set(Device::new(gpu));
        }
    }
    Err(Status::NotFound)
}

/// The UUID as cuDeviceGetUuid gives it, in the library's spelling.
fn uuid(view: &View, gpu: usize) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(view.config().uuid(gpu)));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
    format!("GPU-{}", parts.join("-"))
}

fn cuda_attribute(view: &View, device: Device, number: i32) -> Result<c_uint> {
    let gpu = device.gpu(view)?;
    let value = attribute(view.gpu(gpu)?, gpu as i32, number);
    value.map(i32::cast_unsigned).ok_or(Status::NotSupported)
}

fn pci_info(view: &View, device: Device) -> Result<sys::nvmlPciInfo_t> {
    let gpu = device.gpu(view)?;
    let bus_id = pci_bus_id(gpu as i32);
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
