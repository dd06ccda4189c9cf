//! What the GPU driver says of itself: `rtswapd` with [`ARGUMENT`] prints a [`Description`] as one line of JSON
//! and ends. A driver may hang or crash, and so is asked in a process of its own.

use serde::{Deserialize, Serialize};

/// What makes the daemon's executable print it.
pub const ARGUMENT: &str = "--describe-driver";

/// Of both libraries of the driver, as a program of the same environment finds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The file that `libcuda.so.1` is, if it could be loaded.
    pub library: Option<String>,
    /// What CUDA says, or why it says nothing.
    pub cuda: Result<Cuda, CudaFault>,
    /// What NVML says, or why it says nothing.
    pub nvml: Result<Nvml, String>,
}

/// Why CUDA does not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaFault {
    /// The error as a text.
    pub text: String,
    /// CUDA's number of the error, if a function answered one.
    pub code: Option<i32>,
}

/// The driver as CUDA describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuda {
    /// The CUDA version that it has, 1000 · major + 10 · minor.
    pub version: i32,
    /// In the order of its numbers.
    pub gpus: Vec<CudaGpu>,
}

/// A GPU that programs can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaGpu {
    /// `GPU-` and the UUID that CUDA has for it; of a MIG instance the instance's, with `GPU-` too.
    pub uuid: String,
    /// All its memory.
    pub total_bytes: u64,
    /// It has virtual memory management, without which nothing is swapped.
    pub virtual_memory: bool,
    /// It shares the host's memory.
    pub integrated: bool,
}

/// The driver as NVML describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nvml {
    /// The driver's version, such as `580.159.04`.
    pub driver: String,
    /// In the order of its numbers.
    pub gpus: Vec<NvmlGpu>,
}

/// A GPU of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmlGpu {
    /// As `nvidia-smi -L` prints it.
    pub uuid: String,
    /// The product name, as the driver spells it.
    pub name: String,
    /// It is divided into instances (MIG).
    pub is_divided: bool,
    /// Its part in virtual machines.
    pub virtualization: Virtualization,
}

/// What a GPU is to virtual machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Virtualization {
    /// Nothing, or one has it whole.
    None,
    /// It is a share of a GPU (vGPU).
    Share,
    /// The machines of this host share it.
    Host,
}
