//! What the admission test says of each GPU, newcomers included.

use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::admission::Test;
use rtswap_policy::task::{Class, TaskId, Timing};
use rtswap_policy::units::{Bytes, Nanos};

use crate::Uuid;
use crate::engine::Gpu;
use crate::ids::RegistrationId;

/// The plan of one GPU: that in effect, or the one that waits to take its place.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuPlan {
    /// The UUID of the GPU or of the MIG instance.
    pub uuid: Uuid,
    /// mᴰ, the bytes that rtswap may hand out.
    pub capacity: Bytes,
    /// The part of it that realtime tasks leave to best-effort tasks, in bytes.
    pub best_effort_reserve: Bytes,
    /// δ in bytes.
    pub chunk: Bytes,
    /// The admission test.
    pub test: Test,
    /// Whether no deadline can be missed.
    pub schedulable: bool,
    /// How long a job can be held up by what is due later.
    pub blocking: Nanos,
    /// What sets the blocking, in words.
    pub blocking_term: String,
    /// ΣU, swaps included; 1 is the whole GPU.
    pub utilization: f64,
    /// What the left side of the test must not exceed.
    pub bound: f64,
    /// The bound less the left side; negative where the test fails.
    pub slack: f64,
    /// The realtime tasks, in the scheduler's order.
    pub tasks: Vec<TaskPlan>,
}

impl GpuPlan {
    /// Σx, the bytes that may leave the GPU.
    pub fn total_swap(&self) -> Bytes {
        self.tasks.iter().map(|task| task.volume).sum()
    }
}

/// One realtime task in the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPlan {
    /// The number in its D-Bus path.
    pub registration: RegistrationId,
    /// The name by which the scheduler knows it: with `@` and the user.
    pub name: String,
    /// T, D and C.
    pub timing: Timing,
    /// x in bytes.
    pub volume: Bytes,
    /// How long it takes at most to copy x out.
    pub swap_out: Nanos,
    /// How long it takes at most to copy x in.
    pub swap_in: Nanos,
    /// E/T, swaps included.
    pub utilization: f64,
    /// Whether x is in effect, or waits for backing stores or a quiet instant.
    pub in_effect: bool,
}

/// The plan of one GPU. `registration` finds that of a task.
pub(super) fn of_gpu(
    gpu: &mut Gpu,
    registration: impl Fn(TaskId) -> Option<RegistrationId>,
) -> GpuPlan {
    let (planned, analysis) = gpu.intended();
    let loads = planned.iter().zip(&analysis.tasks);
    let tasks = loads.filter_map(|(task, load)| {
        let Class::Realtime(timing) = task.class else {
            return None;
        };
        let volume = task.next_volume.or(task.volume);
        Some(TaskPlan {
            registration: registration(task.task)?,
            name: task.name.clone(),
            timing,
            volume: volume.unwrap_or_default(),
            swap_out: load.swap_out,
            swap_in: load.swap_in,
            utilization: load.utilization,
            in_effect: volume == task.volume,
        })
    });
    let tasks = tasks.collect();
    let blocking = analysis.blocking;
    GpuPlan {
        uuid: gpu.uuid,
        capacity: gpu.scheduler.state().gpu().capacity,
        best_effort_reserve: gpu.config.best_effort_reserve,
        chunk: gpu.config.chunk,
        test: analysis.test,
        schedulable: analysis.schedulable,
        blocking: blocking.total,
        blocking_term: blocking.describe(|place| planned[place].name.as_str()),
        // An empty sum of floats is −0.
        utilization: analysis.utilization + 0.0,
        bound: analysis.bound,
        slack: analysis.slack,
        tasks,
    }
}
