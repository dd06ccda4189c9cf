//! The built library through nvml-wrapper, as rtswapd uses NVML.
//!
//! `stage` gives each test a process and a machine of its own and programs on
//! it; `mig` is of divided GPUs, `misuse` what no safe wrapper lets through.

mod mig;
mod misuse;
mod stage;

use std::time::{Duration, Instant};

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::{DeviceArchitecture, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use simgpu_core::config::Config;
use simgpu_core::machine::default_dir;

use stage::{HOLD, MIB, Program, WORK, isolated, nvml, wait_until};

/// Pid and bytes of all that run.
fn running(gpu: &Device) -> Vec<(u32, u64)> {
    let processes = gpu.running_compute_processes().unwrap();
    let mut running: Vec<_> = processes
        .iter()
        .map(|process| match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => (process.pid, bytes),
            UsedGpuMemory::Unavailable => panic!("{process:?}"),
        })
        .collect();
    running.sort_unstable();
    running
}

fn sorted<const N: usize>(mut of: [(u32, u64); N]) -> Vec<(u32, u64)> {
    of.sort_unstable();
    of.into()
}

#[test]
fn before_a_machine_exists_the_configuration_is_shown_all_free() {
    isolated(
        "before_a_machine_exists_the_configuration_is_shown_all_free",
        &[("SIMGPU_NAME", "Test GPU")],
        || {
            let config = Config::from_env().unwrap().unwrap();
            let nvml = nvml();
            assert_eq!(nvml.device_count().unwrap(), 2);
            assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 12_080);
            assert_eq!(nvml.sys_driver_version().unwrap(), "570.00");
            assert_eq!(nvml.sys_nvml_version().unwrap(), "12.570.00");
            for ordinal in 0..2 {
                let gpu = nvml.device_by_index(ordinal).unwrap();
                assert_eq!(gpu.name().unwrap(), "Test GPU");
                assert_eq!(gpu.index().unwrap(), ordinal);
                let hex = gpu.uuid().unwrap().replace("GPU-", "").replace('-', "");
                let uuid = u128::from_str_radix(&hex, 16).unwrap().to_be_bytes();
                assert_eq!(uuid, config.uuid(ordinal as usize));
                let pci = gpu.pci_info().unwrap();
                assert_eq!(pci.bus_id, format!("00000000:{:02x}:00.0", ordinal + 1));
                assert_eq!((pci.bus, pci.pci_device_id & 0xffff), (ordinal + 1, 0x10de));
                for found in [
                    nvml.device_by_uuid(gpu.uuid().unwrap()).unwrap(),
                    nvml.device_by_pci_bus_id(pci.bus_id.as_str()).unwrap(),
                    nvml.device_by_pci_bus_id(&pci.bus_id[4..]).unwrap(),
                ] {
                    assert_eq!(found.index().unwrap(), ordinal);
                }
                let memory = gpu.memory_info().unwrap();
                let whole = (memory.total, memory.reserved, memory.free, memory.used);
                assert_eq!(whole, (64 * MIB, 0, 64 * MIB, 0));
                assert_eq!(running(&gpu), []);
                assert_eq!(gpu.running_graphics_processes().unwrap(), []);
                let rates = gpu.utilization_rates().unwrap();
                assert_eq!((rates.gpu, rates.memory), (0, 0));
                assert_eq!(gpu.architecture().unwrap(), DeviceArchitecture::Ampere);
                assert_eq!(gpu.cuda_compute_capability().unwrap().major, 8);
            }
            let dir = std::fs::read_dir(default_dir()).unwrap();
            assert_eq!(dir.count(), 0, "looking made something");
        },
    );
}

#[test]
fn what_processes_hold_is_exact_and_the_dead_are_not_shown() {
    isolated(
        "what_processes_hold_is_exact_and_the_dead_are_not_shown",
        &[("SIMGPU_RELEASE_LAG_MS", "3000")],
        || {
            let nvml = nvml();
            let gpu = nvml.device_by_index(0).unwrap();
            let used = || gpu.memory_info().unwrap().used;
            assert_eq!((used(), running(&gpu).len()), (0, 0));
            // Initialised before there was a machine, and shows it all the same.
            let first = Program::start(&[(HOLD, "20")]);
            let second = Program::start(&[(HOLD, "7")]);
            let (one, two) = ((first.pid(), 22 * MIB), (second.pid(), 10 * MIB));
            assert_eq!(running(&gpu), sorted([one, two]));
            assert_eq!(used(), 32 * MIB);
            let other = nvml.device_by_index(1).unwrap();
            assert_eq!(other.memory_info().unwrap().used, 0);
            assert_eq!(running(&other), []);
            let death = Instant::now();
            first.kill();
            assert_eq!(running(&gpu), [two]);
            assert_eq!(used(), 32 * MIB, "given back at once");
            wait_until("the memory comes back", || used() == 10 * MIB);
            assert!(death.elapsed() >= Duration::from_secs(3));
            drop(second);
            wait_until("all is free", || used() == 0);
        },
    );
}

#[test]
fn a_machine_that_is_removed_and_made_anew_is_the_one_shown() {
    isolated(
        "a_machine_that_is_removed_and_made_anew_is_the_one_shown",
        &[],
        || {
            let nvml = nvml();
            let gpu = nvml.device_by_index(0).unwrap();
            let used = || gpu.memory_info().unwrap().used;
            let old = Program::start(&[(HOLD, "20")]);
            assert_eq!(used(), 22 * MIB);
            std::fs::remove_file(default_dir().join("machine")).unwrap();
            assert_eq!((used(), running(&gpu).len()), (0, 0));
            let new = Program::start(&[(HOLD, "4")]);
            assert_eq!(running(&gpu), [(new.pid(), 6 * MIB)]);
            drop(old);
        },
    );
}

#[test]
fn utilisation_is_what_the_engines_did() {
    isolated("utilisation_is_what_the_engines_did", &[], || {
        let nvml = nvml();
        let gpu = nvml.device_by_index(0).unwrap();
        let rate = || gpu.utilization_rates().unwrap().gpu;
        let idle = Program::start(&[(HOLD, "2")]);
        assert_eq!(rate(), 0);
        assert!(matches!(
            gpu.process_utilization_stats(None),
            Err(NvmlError::NotFound)
        ));
        let busy = Program::start(&[(HOLD, "32"), (WORK, "1")]);
        // Sets of 62 ms one behind the other, less what a busy host adds between.
        wait_until("the GPU is busy", || rate() >= 60);
        let rates = gpu.utilization_rates().unwrap();
        assert!(rates.memory >= rates.gpu.min(60), "{rates:?}");
        // A host that stood still since shows less, or nothing at all.
        wait_until("it alone is seen at work", || {
            let samples = gpu.process_utilization_stats(None).unwrap_or_default();
            let shares: Vec<_> = samples.iter().map(|s| (s.pid, s.sm_util >= 50)).collect();
            shares == [(busy.pid(), true)]
        });
        let other = nvml.device_by_index(1).unwrap();
        assert_eq!(other.utilization_rates().unwrap().gpu, 0);
        busy.kill();
        wait_until("the GPU is idle", || rate() == 0);
        drop(idle);
    });
}
