//! The version that the driver calls itself, and what goes with it.

use std::ffi::CStr;

use crate::stage::{call, isolated, made, ok, place};

fn version() -> u32 {
    let mut version = 0_u32;
    ok("cuDriverGetVersion", &[place(&mut version)]);
    version
}

/// Address, status and result of cuGetProcAddress_v2.
fn look_up(name: &CStr, version: usize) -> (usize, u32, u32) {
    let (mut address, mut status) = (7_usize, 9_u32);
    let code = call(
        "cuGetProcAddress_v2",
        &[
            name.as_ptr() as usize,
            place(&mut address),
            version,
            0,
            place(&mut status),
        ],
    );
    (address, status, code)
}

#[test]
fn cuda_13_can_be_asked_for() {
    let settings = [("SIMGPU_CUDA_VERSION", "13000")];
    isolated("version::cuda_13_can_be_asked_for", &settings, || {
        assert_eq!(version(), 13_000);
        let (address, status, code) = look_up(c"cuMemGetMemPool", 13_000);
        assert!(address != 0 && (status, code) == (0, 0));
        // Such a driver refuses what is newer.
        assert_eq!(look_up(c"cuMemAlloc", 13_010), (7, 9, 1));
        ok("cuInit", &[0]);
        assert_eq!(version(), 13_000);
    });
}

#[test]
fn a_driver_of_cuda_12_does_not_know_what_came_later() {
    let name = "version::a_driver_of_cuda_12_does_not_know_what_came_later";
    isolated(name, &[], || {
        assert_eq!(version(), 12_080);
        assert_eq!(look_up(c"cuMemGetMemPool", 13_000), (0, 1, 0));
        let (address, status, code) = look_up(c"cuMemAlloc", 13_000);
        assert!(address != 0 && (status, code) == (0, 0));
    });
}

#[test]
fn newer_attributes_and_lazy_loading_are_answered() {
    let name = "version::newer_attributes_and_lazy_loading_are_answered";
    isolated(name, &[], || {
        ok("cuInit", &[0]);
        for attribute in 140..=147 {
            let mut value = -1_i32;
            ok("cuDeviceGetAttribute", &[place(&mut value), attribute, 0]);
            assert_eq!(value, 0, "attribute {attribute}");
        }
        let mut value = 0_i32;
        assert_eq!(
            call("cuDeviceGetAttribute", &[place(&mut value), 1000, 0]),
            1
        );
        // CU_MODULE_LAZY_LOADING.
        let mode = made("cuModuleGetLoadingMode", &[]);
        assert_eq!(mode, 2);
    });
}
