//! What people may see, as plain values that the shell pulls when it publishes: nothing here is
//! decided by, and nothing here is on the way of a job. `tasks`, `gpus` and `processes` are the
//! parts of [`Status`], `plan` is what the admission test says of each GPU.

mod gpus;
mod plan;
mod processes;
mod tasks;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;

pub use gpus::{DeviceStatus, GpuStatus};
pub use plan::{GpuPlan, TaskPlan};
pub use processes::{ProbedStatus, ProcessStatus};
pub use tasks::{MemoryStatus, Phase, StatisticsStatus, TaskStatus, TreatedAs};

use crate::engine::{Engine, Gpu};
use crate::rules::Row;
use crate::sample::ProbeState;
use processes::Witnesses;

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
    /// The rules of the policy.
    pub policy: Vec<Row>,
    /// The GPUs that no task can run on: for each a sentence with the reason and what to do.
    pub left_alone: Vec<String>,
}

impl Engine {
    /// What people may see now. O(n log n) in the number of tasks and processes; the analysis of a
    /// plan is computed only where the plan is another than at the last call.
    pub fn status(&mut self) -> Status {
        let planned: Vec<_> = self.gpus.iter().map(Gpu::planned).collect();
        let tasks = self.registry.iter();
        let tasks = tasks
            .map(|entry| self.task_status(entry, &planned))
            .collect();
        let witnesses = Witnesses {
            gpus: &self.gpus,
            sessions: &self.sessions,
            probed: &self.probes.last.processes,
        };
        Status {
            tasks,
            processes: witnesses.processes(|task| Some(self.tasks.get(task)?.registration)),
            probes: self.probes.last.state.clone(),
            policy: self.policy.rows(),
            left_alone: self.left_alone(),
            gpus: (0..self.gpus.len())
                .map(|gpu| self.gpu_status(gpu))
                .collect(),
        }
    }

    /// What the admission test says of each GPU now, by index. Costs what [`Self::status`] does.
    pub fn plan(&mut self) -> Vec<GpuPlan> {
        let tasks = &self.tasks;
        let registration = |task| tasks.get(task).map(|task| task.registration);
        let gpus = self.gpus.iter_mut();
        gpus.map(|gpu| plan::of_gpu(gpu, registration)).collect()
    }
}
