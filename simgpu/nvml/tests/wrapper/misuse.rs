//! What no safe wrapper lets through.

use std::ffi::{CStr, c_char};
use std::ptr;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::{self as sys, NvmlLib};

use crate::stage::{HOLD, Program, isolated, library, nvml};

#[test]
fn misuse_and_what_is_not_modelled_have_their_codes() {
    isolated(
        "misuse::misuse_and_what_is_not_modelled_have_their_codes",
        &[],
        || {
            let ours = nvml();
            let gpu = ours.device_by_index(0).unwrap();
            let not_supported = |error| matches!(error, NvmlError::NotSupported);
            assert!(
                gpu.temperature(TemperatureSensor::Gpu)
                    .is_err_and(not_supported)
            );
            assert!(gpu.power_usage().is_err_and(not_supported));
            assert!(gpu.fan_speed(0).is_err_and(not_supported));
            assert!(matches!(
                ours.device_by_index(2),
                Err(NvmlError::InvalidArg)
            ));
            assert!(matches!(
                ours.device_by_uuid("GPU-0"),
                Err(NvmlError::NotFound)
            ));
            let holders = [
                Program::start(&[(HOLD, "2")]),
                Program::start(&[(HOLD, "2")]),
            ];
            // SAFETY: the built library, which has no constructors.
            let raw = unsafe { NvmlLib::new(library()) }.unwrap();
            misuse(&raw, &gpu);
            drop(holders);
            // Initialised twice, so the first end is not the last.
            nvml().shutdown().unwrap();
            assert!(ours.device_count().is_ok());
            ours.shutdown().unwrap();
            let mut count = 0;
            // SAFETY: the place is good for a write.
            let [counted, powered, ended] = unsafe {
                [
                    raw.nvmlDeviceGetCount_v2(&raw mut count),
                    raw.nvmlDeviceGetPowerUsage(ptr::null_mut(), ptr::null_mut()),
                    raw.nvmlShutdown(),
                ]
            };
            let uninitialized = sys::nvmlReturn_enum_NVML_ERROR_UNINITIALIZED;
            assert_eq!([counted, powered, ended], [uninitialized; 3]);
        },
    );
}

/// What no safe wrapper can do; two processes hold memory of `gpu`.
fn misuse(raw: &NvmlLib, gpu: &Device) {
    let null = ptr::null_mut::<()>();
    let mut text: [c_char; 8] = [1; 8];
    let mut memory = sys::nvmlMemory_v2_t {
        // The right size of the wrong version.
        version: 0x0100_0028,
        total: 7,
        reserved: 7,
        free: 7,
        used: 7,
    };
    let mut process = sys::nvmlProcessInfo_t {
        pid: 7,
        usedGpuMemory: 7,
        gpuInstanceId: 7,
        computeInstanceId: 7,
    };
    let (mut none, mut one) = (0, 1);
    // SAFETY: what is not null is good for the writes that the size beside it,
    // or the type, allows.
    let codes = unsafe {
        let device = gpu.handle();
        [
            raw.nvmlDeviceGetCount_v2(ptr::null_mut()),
            raw.nvmlDeviceGetHandleByIndex_v2(0, ptr::null_mut()),
            raw.nvmlDeviceGetHandleByUUID(ptr::null(), ptr::null_mut()),
            raw.nvmlDeviceGetName(device, ptr::null_mut(), 64),
            raw.nvmlDeviceGetMemoryInfo(device, ptr::null_mut()),
            raw.nvmlDeviceGetMemoryInfo(ptr::without_provenance_mut(77), null.cast()),
            raw.nvmlDeviceGetComputeRunningProcesses_v3(device, null.cast(), null.cast()),
            raw.nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut one, null.cast()),
            raw.nvmlInitWithFlags(1 << 30),
            raw.nvmlDeviceGetName(device, text.as_mut_ptr(), 8),
            raw.nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut none, null.cast()),
            raw.nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut one, &raw mut process),
            raw.nvmlDeviceGetMemoryInfo_v2(device, &raw mut memory),
        ]
    };
    let mut wanted = [sys::nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT; 13];
    wanted[9..12].fill(sys::nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE);
    wanted[12] = sys::nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    assert_eq!(codes, wanted);
    assert_eq!((none, one), (2, 2), "the number needed");
    let untouched = (text, memory.total, process.pid);
    assert_eq!(untouched, ([1; 8], 7, 7), "written all the same");
    let say = |code| {
        // SAFETY: the library's texts last.
        let text = unsafe { CStr::from_ptr(raw.nvmlErrorString(code)) };
        text.to_str().unwrap()
    };
    assert_eq!(say(0), "Success");
    assert_eq!(say(7), "Insufficient Size");
    assert_eq!(say(12345), "Unknown Error");
}
