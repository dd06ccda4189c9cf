//! What the witnesses of GPU memory show, as plain data that the daemon fills in: `gpu` is one
//! sample of NVML, `probes` one of the eBPF probes on the CUDA driver.

mod gpu;
mod probes;

pub use gpu::{Caveat, GpuSample, Identity, LeftAlone, ProcessSample, Sample};
pub use probes::{Held, ProbeSample, ProbeState, ProbedProcess};
