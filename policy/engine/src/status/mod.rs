//! What people may see, as plain values that the shell pulls when it publishes: nothing here is
//! decided by, and nothing here is on the way of a job. `tasks`, `gpus` and `processes` are the
//! parts of [`Status`], `plan` is what the admission test says of each GPU.

mod gpus;
mod plan;
mod processes;
mod tasks;

use alloc::string::String;
use alloc::vec::Vec;

pub use gpus::{DeviceStatus, GpuStatus};
pub use plan::{GpuPlan, TaskPlan};
pub use processes::{ProbedStatus, ProcessStatus};
pub use tasks::{MemoryStatus, Phase, StatisticsStatus, TaskStatus, TreatedAs};

use crate::sample::ProbeState;

/// All that people may see at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The registrations, by ascending number.
    pub tasks: Vec<TaskStatus>,
    /// The GPUs; the place of each is its index.
    pub gpus: Vec<GpuStatus>,
    /// The processes that use a GPU or have a session, one entry for each GPU that a process uses,
    /// by ascending pid, then by GPU.
    pub processes: Vec<ProcessStatus>,
    /// Whether the probes count, and how completely.
    pub probes: ProbeState,
    /// The GPUs that no task can run on: for each a sentence with the reason and what to do.
    pub left_alone: Vec<String>,
}
