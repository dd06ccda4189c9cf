//! The GPU driver and what its GPUs can do. A child asks it: it may hang or crash.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rtswap_dbus::driver::{ARGUMENT, Cuda, CudaFault, Description, Nvml, Virtualization};

use super::finding::Finding;
use super::machine::Machine;

const DAEMON: &str = "rtswapd";
const SYSTEM_FOLDER: &str = "/usr/sbin";

/// How long the driver may take: the first program after a boot waits for it the longest.
const BOUND: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// How an older daemon ends.
const UNKNOWN_ARGUMENT: i32 = 2;

/// CUDA's `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: i32 = 100;

/// More bytes than a description has.
const LONGEST: u64 = 1 << 20;

/// The end of a loaded driver, by which its version is known.
const PREFIX: &str = "libcuda.so.";

/// Asks the driver; why that cannot be done, in words.
pub(super) fn describe() -> Result<Description, String> {
    let daemon = daemon();
    let start = Command::new(&daemon)
        .arg(ARGUMENT)
        .env_remove("LD_PRELOAD")
        .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = start.map_err(|error| format!("{}: {error}", daemon.display()))?;
    let until = Instant::now() + BOUND;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(POLL),
            Ok(None) => {
                // One that the kernel holds cannot be killed, and is left behind.
                let _ = child.kill();
                let seconds = BOUND.as_secs();
                return Err(format!("the driver does not answer within {seconds} s"));
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.code() == Some(UNKNOWN_ARGUMENT) {
        return Err(format!("{} is of another version", daemon.display()));
    }
    if !status.success() {
        return Err(format!(
            "the driver ends the program that asks it: {status}"
        ));
    }
    let mut text = String::new();
    let stdout = child.stdout.take().ok_or("no output")?;
    let read = stdout.take(LONGEST).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{} is of another version: {error}", daemon.display()))
}

/// The daemon's executable beside this one, else the system's.
fn daemon() -> PathBuf {
    let beside = std::env::current_exe().map(|own| own.with_file_name(DAEMON));
    let beside = beside.ok().filter(|path| path.exists());
    beside.unwrap_or_else(|| Path::new(SYSTEM_FOLDER).join(DAEMON))
}

/// All that is to be said of the driver and its GPUs.
pub(super) fn check(machine: &Machine, asked: &Result<Description, String>) -> Vec<Finding> {
    let description = match asked {
        Ok(description) => description,
        Err(why) => {
            let mend = "nvidia-smi; sudo dmesg | grep -i nvrm";
            return vec![Finding::fault("driver", why, mend)];
        }
    };
    let nvml = description.nvml.as_ref().ok();
    let mut findings = match &description.cuda {
        Ok(cuda) if cuda.gpus.is_empty() => vec![Finding::fault(
            "driver",
            "CUDA works and shows no GPU to this program",
            "nvidia-smi -L; unset CUDA_VISIBLE_DEVICES",
        )],
        Ok(cuda) => {
            let mut findings = vec![Finding::ok("driver", summary(cuda, nvml))];
            findings.extend(gpus(cuda));
            findings
        }
        Err(fault) => vec![without_cuda(machine, description.library.as_deref(), fault)],
    };
    match (&description.nvml, &description.cuda) {
        (Ok(nvml), _) => findings.extend(divided(nvml)),
        (Err(why), Ok(_)) => findings.push(Finding::warning(
            "nvml",
            format!("memory of programs without the agent is known by the probes alone: {why}"),
            "ls -l /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1; nvidia-smi; it comes with the driver (Debian: libnvidia-ml1)",
        )),
        (Err(_), Err(_)) => {}
    }
    findings
}

fn summary(cuda: &Cuda, nvml: Option<&Nvml>) -> String {
    let (major, minor) = (cuda.version / 1000, cuda.version % 1000 / 10);
    let driver = nvml.map_or(String::new(), |nvml| format!("driver {}, ", nvml.driver));
    let gpus = match cuda.gpus.len() {
        1 => "1 GPU".to_owned(),
        several => format!("{several} GPUs"),
    };
    format!("{driver}CUDA {major}.{minor}, {gpus}")
}

/// Why CUDA does not work, as well as files tell.
fn without_cuda(machine: &Machine, library: Option<&str>, fault: &CudaFault) -> Finding {
    let text = &fault.text;
    let Some(library) = library else {
        return Finding::fault(
            "driver",
            format!("no CUDA driver: {text}"),
            "sudo apt install nvidia-driver; without a GPU: rtswap-simgpu rtswapctl doctor",
        );
    };
    let version = library.rsplit_once(PREFIX).map(|(_, version)| version);
    let Some(loaded) = machine.read("/sys/module/nvidia/version") else {
        return Finding::fault(
            "driver",
            format!("{library} is there, but the kernel's driver is not loaded ({text})"),
            "sudo modprobe nvidia && nvidia-smi -L",
        );
    };
    if version.is_some_and(|version| version.contains('.') && version != loaded) {
        return Finding::fault(
            "driver",
            format!("{library} does not fit the kernel's driver {loaded} ({text})"),
            "sudo reboot: the driver was upgraded while it was loaded",
        );
    }
    if !machine.has("/dev/nvidiactl") {
        return Finding::fault(
            "driver",
            format!("there is no /dev/nvidiactl ({text})"),
            "sudo nvidia-modprobe; in a container: start it with --gpus all",
        );
    }
    if fault.code == Some(NO_DEVICE) {
        let found = format!("no GPU is visible to this program ({text})");
        let mend = "nvidia-smi -L; unset CUDA_VISIBLE_DEVICES";
        return Finding::fault("driver", found, mend);
    }
    let mend = "nvidia-smi; sudo dmesg | grep -i nvrm";
    Finding::fault("driver", text, mend)
}

/// What each GPU lacks.
fn gpus(cuda: &Cuda) -> Vec<Finding> {
    let name = |index: usize| format!("GPU {index} ({})", cuda.gpus[index].uuid);
    let integrated = "gpu-memory";
    let mut findings = Vec::new();
    for (index, gpu) in cuda.gpus.iter().enumerate() {
        if gpu.integrated {
            findings.push(Finding::warning(
                integrated,
                format!(
                    "{} shares the host's memory: swapping to the host would free nothing, so it is left alone",
                    name(index)
                ),
                "use rtswap with a GPU that has memory of its own",
            ));
        } else if !gpu.virtual_memory {
            findings.push(Finding::fault(
                "gpu-memory",
                format!(
                    "{} has no virtual memory management: what is swapped could not come back to its address",
                    name(index)
                ),
                "a vGPU: choose a profile with unified memory; else use another GPU",
            ));
        }
    }
    if findings.is_empty() {
        let found = "every GPU has virtual memory management and memory of its own";
        findings.push(Finding::ok("gpu-memory", found));
    }
    findings
}

/// GPUs that are shared below CUDA: among virtual machines or by MIG.
fn divided(nvml: &Nvml) -> Vec<Finding> {
    let mut findings = Vec::new();
    for gpu in &nvml.gpus {
        let name = format!("{} ({})", gpu.uuid, gpu.name);
        if gpu.is_divided {
            findings.push(Finding::warning(
                "mig",
                format!(
                    "{name} is in MIG mode: only instances that the configuration names are shared"
                ),
                "nvidia-smi -L, then name them in [[gpu]] tables of /etc/rtswap/rtswapd.toml",
            ));
        }
        match gpu.virtualization {
            Virtualization::None => {}
            Virtualization::Share => findings.push(Finding::warning(
                "vgpu",
                format!("{name} is a vGPU: other virtual machines use the same GPU at times that rtswap cannot see"),
                "give the vGPU a fixed share by its scheduling policy",
            )),
            Virtualization::Host => findings.push(Finding::fault(
                "vgpu",
                format!("{name} belongs to virtual machines"),
                "run rtswapd in them",
            )),
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            "mig",
            "no GPU is divided, by MIG or among virtual machines",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use rtswap_dbus::driver::{CudaGpu, NvmlGpu};

    use super::super::finding::Level;
    use super::super::machine::tests::with;
    use super::*;

    fn working() -> Description {
        Description {
            library: Some("/usr/lib/libcuda.so.580.159.04".into()),
            cuda: Ok(Cuda {
                version: 13_000,
                gpus: vec![CudaGpu {
                    uuid: "GPU-1".into(),
                    total_bytes: 1 << 30,
                    virtual_memory: true,
                    integrated: false,
                }],
            }),
            nvml: Ok(Nvml {
                driver: "580.159.04".into(),
                gpus: vec![NvmlGpu {
                    uuid: "GPU-1".into(),
                    name: "H200".into(),
                    is_divided: false,
                    virtualization: Virtualization::None,
                }],
            }),
        }
    }

    fn found(machine: &Machine, description: Description) -> Vec<(&'static str, Level, String)> {
        let findings = check(machine, &Ok(description)).into_iter();
        findings.map(|it| (it.check, it.level, it.found)).collect()
    }

    #[test]
    fn a_working_driver_is_summed_up() {
        let (_folder, machine) = with(&[]);
        let found = found(&machine, working());
        assert!(
            found.iter().all(|(_, level, _)| *level == Level::Ok),
            "{found:?}"
        );
        assert_eq!(found[0].2, "driver 580.159.04, CUDA 13.0, 1 GPU");
    }

    #[test]
    fn a_driver_that_does_not_work_is_told_from_one_that_is_not_there() {
        let broken = |library: Option<&str>, code| Description {
            library: library.map(str::to_owned),
            cuda: Err(CudaFault {
                text: "cuInit fails: error 100".into(),
                code,
            }),
            nvml: Err("no NVML".into()),
        };
        let library = Some("/usr/lib/libcuda.so.535.261.03");
        let first = |files: &[(&str, &str)], library, code| {
            let (_folder, machine) = with(files);
            let found = found(&machine, broken(library, code));
            assert_eq!((found.len(), found[0].1), (1, Level::Fault), "{found:?}");
            found[0].2.clone()
        };
        assert!(first(&[], None, None).starts_with("no CUDA driver"));
        assert!(first(&[], library, Some(100)).contains("kernel's driver is not loaded"));
        let loaded = ("/sys/module/nvidia/version", "535.261.03\n");
        let other = ("/sys/module/nvidia/version", "550.163.01\n");
        let control = ("/dev/nvidiactl", "");
        assert!(first(&[other], library, Some(803)).contains("does not fit"));
        assert!(first(&[loaded], library, Some(100)).contains("/dev/nvidiactl"));
        assert!(first(&[loaded, control], library, Some(100)).contains("no GPU is visible"));
        assert_eq!(
            first(&[loaded, control], library, Some(999)),
            "cuInit fails: error 100"
        );
    }

    #[test]
    fn what_a_gpu_lacks_is_said() {
        let (_folder, machine) = with(&[]);
        let mut description = working();
        let cuda = description.cuda.as_mut().unwrap();
        cuda.gpus[0].virtual_memory = false;
        cuda.gpus.push(CudaGpu {
            integrated: true,
            ..cuda.gpus[0].clone()
        });
        let nvml = description.nvml.as_mut().unwrap();
        nvml.gpus[0].is_divided = true;
        nvml.gpus[0].virtualization = Virtualization::Host;
        let found = found(&machine, description);
        let levels: Vec<_> = found
            .iter()
            .map(|(check, level, _)| (*check, *level))
            .collect();
        assert_eq!(
            levels,
            [
                ("driver", Level::Ok),
                ("gpu-memory", Level::Fault),
                ("gpu-memory", Level::Warning),
                ("mig", Level::Warning),
                ("vgpu", Level::Fault),
            ]
        );
    }
}
