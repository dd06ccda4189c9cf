//! The GPUs: `gpu` is one with its scheduler and the account of its memory, `plan` what follows from
//! its plan for status and log, `pace` whether swaps take as long as their costs say, `intake` takes GPUs in as NVML, files and agents show them, and places
//! the tasks that waited for them.

mod gpu;
mod intake;
mod pace;
mod plan;

pub(crate) use gpu::Gpu;
pub(crate) use plan::Planned;
