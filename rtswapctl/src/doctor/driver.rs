//! The GPU driver and what its GPUs can do. A child asks it: it may hang or crash.

use rtswap_dbus::driver::{Cuda, CudaFault, Description, Nvml, Virtualization};

use super::finding::Finding;
use super::machine::Machine;

/// CUDA's `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: i32 = 100;

/// The end of a loaded driver, by which its version is known.
const PREFIX: &str = "libcuda.so.";

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
