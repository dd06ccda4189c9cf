//! Where a trial is made: the GPU, and the programs that it needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use rtswap_dbus::driver::Description;

use super::TrialError;
use crate::driver;

/// The workload as it is built, and as it is installed.
const WORKLOAD: [&str; 2] = ["dnn", "rtswap-dnn"];
const WORKLOAD_FOLDER: &str = "/usr/bin";

/// The GPU of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// CUDA's number of it in the order of the bus.
    pub(crate) index: usize,
    /// As nvidia-smi prints it.
    pub(crate) uuid: String,
    /// The product; empty where NVML does not tell.
    pub(crate) name: String,
    /// The driver's version; empty where NVML does not tell.
    pub(crate) driver: String,
    /// All its memory, in bytes.
    pub(crate) memory: u64,
}

impl Place {
    /// The GPU that is `wanted`, by its number or UUID; the first without.
    pub(crate) fn find(wanted: Option<&str>) -> Result<Self, TrialError> {
        let description = driver::describe().map_err(TrialError::Driver)?;
        Self::among(&description, wanted)
    }

    fn among(description: &Description, wanted: Option<&str>) -> Result<Self, TrialError> {
        let cuda = match &description.cuda {
            Ok(cuda) => cuda,
            Err(fault) => return Err(TrialError::Driver(fault.text.clone())),
        };
        let nvml = description.nvml.as_ref().ok();
        let places = cuda.gpus.iter().enumerate().map(|(index, gpu)| {
            let known = nvml.and_then(|nvml| nvml.gpus.iter().find(|known| known.uuid == gpu.uuid));
            Self {
                index,
                // NVML knows instances by other means: what it does not list is one.
                uuid: if known.is_none() && nvml.is_some() {
                    gpu.uuid.replacen("GPU-", "MIG-", 1)
                } else {
                    gpu.uuid.clone()
                },
                name: known.map(|known| known.name.clone()).unwrap_or_default(),
                driver: nvml.map(|nvml| nvml.driver.clone()).unwrap_or_default(),
                memory: gpu.total_bytes,
            }
        });
        let places: Vec<_> = places.collect();
        let is_wanted = |place: &&Self| {
            wanted.is_none_or(|wanted| place.uuid == wanted || place.index.to_string() == wanted)
        };
        let there = || {
            let all = places
                .iter()
                .map(|place| format!("{} ({})", place.index, place.uuid));
            let all: Vec<_> = all.collect();
            if all.is_empty() {
                "none".to_owned()
            } else {
                all.join(", ")
            }
        };
        places
            .iter()
            .find(is_wanted)
            .cloned()
            .ok_or_else(|| TrialError::NoSuchGpu {
                wanted: wanted.unwrap_or("0").to_owned(),
                there: there(),
            })
    }

    /// The workload, told to run on this GPU.
    pub(crate) fn workload(&self) -> Result<Command, TrialError> {
        let beside = |name: &str| {
            std::env::current_exe()
                .ok()
                .map(|own| own.with_file_name(name))
        };
        let installed = Path::new(WORKLOAD_FOLDER).join(WORKLOAD[1]);
        let candidates = WORKLOAD.iter().filter_map(|name| beside(name));
        let found = candidates
            .chain([installed.clone()])
            .find(|path: &PathBuf| path.exists());
        let program = found.ok_or(TrialError::Absent {
            program: WORKLOAD[1],
            path: installed,
            package: "rtswap",
        })?;
        let mut command = Command::new(program);
        command
            .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
            .args(["--gpu", &self.index.to_string()]);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use rtswap_dbus::driver::{Cuda, CudaGpu, Nvml, NvmlGpu, Virtualization};

    use super::*;

    fn description(nvml: &[&str]) -> Description {
        let gpu = |uuid: &str| CudaGpu {
            uuid: format!("GPU-{uuid}"),
            total_bytes: 8 << 30,
            virtual_memory: true,
            integrated: false,
        };
        let known = |uuid: &&str| NvmlGpu {
            uuid: format!("GPU-{uuid}"),
            name: "H".into(),
            is_divided: false,
            virtualization: Virtualization::None,
        };
        Description {
            library: None,
            cuda: Ok(Cuda {
                version: 12_080,
                gpus: vec![gpu("a"), gpu("b")],
            }),
            nvml: Ok(Nvml {
                driver: "580".into(),
                gpus: nvml.iter().map(known).collect(),
            }),
        }
    }

    #[test]
    fn a_gpu_is_found_by_number_and_uuid_or_those_there_are_are_named() {
        let description = description(&["a"]);
        let find = |wanted| Place::among(&description, wanted).map(|place| place.uuid);
        assert_eq!(find(None).unwrap(), "GPU-a");
        assert_eq!(find(Some("1")).unwrap(), "MIG-b");
        assert_eq!(find(Some("GPU-a")).unwrap(), "GPU-a");
        assert_eq!(
            find(Some("7")).unwrap_err().to_string(),
            "no GPU is 7: there is 0 (GPU-a), 1 (MIG-b)"
        );
    }
}
