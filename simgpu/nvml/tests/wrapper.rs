//! The built library through nvml-wrapper, as rtswapd uses NVML.
//!
//! Each test runs in a process of its own, because the library is one a process
//! and its machine is named by the environment. Programs on the machine are
//! this test binary again, told by the environment what to play.

use std::ffi::{CStr, c_char};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::ptr;
use std::time::{Duration, Instant};

use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::{DeviceArchitecture, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{self as sys, NvmlLib};
use simgpu_core::config::Config;
use simgpu_core::driver::Driver;
use simgpu_core::machine::default_dir;

const INSIDE: &str = "SIMGPU_NVML_TEST";
const HOLD: &str = "SIMGPU_NVML_TEST_HOLDS_MIB";
const WORK: &str = "SIMGPU_NVML_TEST_WORKS";
const MIB: u64 = 1 << 20;
/// No test takes nearly as long.
const PATIENCE: Duration = Duration::from_mins(1);

/// Two GPUs, the second of them slow enough to be kept busy by little.
const CONFIG: [(&str, &str); 4] = [
    ("SIMGPU_GPUS", "2"),
    ("SIMGPU_MEMORY", "64MiB"),
    ("SIMGPU_CONTEXT_BYTES", "2MiB"),
    ("SIMGPU_COMPUTE_GIB_PER_S", "0.5"),
];

/// Runs a test's body in a process of its own, on a machine of its own.
fn isolated(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        std::thread::spawn(|| {
            std::thread::sleep(PATIENCE);
            eprintln!("still not done after {PATIENCE:?}");
            std::process::exit(1);
        });
        return body();
    }
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let inside = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .env("SIMGPU_DIR", dir.path())
        .envs(CONFIG)
        .envs(settings.iter().copied())
        .status();
    assert!(inside.unwrap().success(), "{name} failed in its process");
}

fn nvml() -> Nvml {
    let path = library();
    Nvml::builder().lib_path(path.as_os_str()).init().unwrap()
}

/// The library of this build, beside the folder of the test's own binary.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("libsimgpu_nvml.so");
    assert!(
        path.exists(),
        "{} is missing: run `cargo build -p simgpu-nvml` first, or the tests by `cargo xtask test`",
        path.display()
    );
    path
}

/// A program that uses GPU 0 and ends with its owner.
struct Program {
    process: Child,
    out: BufReader<ChildStdout>,
}

impl Program {
    fn start(settings: &[(&str, &str)]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "program", "--nocapture"])
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let mut program = Self { process, out };
        let mut line = String::new();
        while !line.contains("program: ready") {
            line.clear();
            assert!(program.out.read_line(&mut line).unwrap() > 0, "it ended");
        }
        program
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a program does; nothing in the tests' own processes.
#[test]
fn program() {
    let Ok(mib) = std::env::var(HOLD) else {
        return;
    };
    let config = Config::from_env().unwrap();
    let driver = Driver::attach(&default_dir(), config.as_ref()).unwrap();
    let context = driver.retain_primary(0).unwrap();
    let bytes = mib.parse::<u64>().unwrap() * MIB;
    let address = context.alloc(bytes).unwrap();
    println!("program: ready");
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if std::env::var_os(WORK).is_some() {
            let stream = context.legacy_stream();
            context
                .set(stream, address, 1, 4, bytes as usize / 4)
                .unwrap();
            context.synchronize().unwrap();
        } else {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

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

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
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
        &[("SIMGPU_RELEASE_LAG_MS", "400")],
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
            assert!(death.elapsed() >= Duration::from_millis(400));
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
        let samples = gpu.process_utilization_stats(None).unwrap();
        let shares: Vec<_> = samples.iter().map(|s| (s.pid, s.sm_util >= 50)).collect();
        assert_eq!(shares, [(busy.pid(), true)], "{samples:?}");
        let other = nvml.device_by_index(1).unwrap();
        assert_eq!(other.utilization_rates().unwrap().gpu, 0);
        busy.kill();
        wait_until("the GPU is idle", || rate() == 0);
        drop(idle);
    });
}

#[test]
fn misuse_and_what_is_not_modelled_have_their_codes() {
    isolated(
        "misuse_and_what_is_not_modelled_have_their_codes",
        &[],
        || {
            let nvml = nvml();
            let gpu = nvml.device_by_index(0).unwrap();
            let not_supported = |error| matches!(error, NvmlError::NotSupported);
            assert!(
                gpu.temperature(TemperatureSensor::Gpu)
                    .is_err_and(not_supported)
            );
            assert!(gpu.power_usage().is_err_and(not_supported));
            assert!(gpu.fan_speed(0).is_err_and(not_supported));
            assert!(matches!(
                nvml.device_by_index(2),
                Err(NvmlError::InvalidArg)
            ));
            assert!(matches!(
                nvml.device_by_uuid("GPU-0"),
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
            self::nvml().shutdown().unwrap();
            assert!(nvml.device_count().is_ok());
            nvml.shutdown().unwrap();
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
