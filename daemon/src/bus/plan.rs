//! `Manager1.Plan`: what the admission test says now, as JSON.

use rtswap_engine::status;
use serde::Serialize;

use super::viewer::Viewer;
use crate::names;

/// The JSON, version 1. Times are ns, sizes bytes; the keys are those of `rtswapctl plan`.
#[derive(Debug, Serialize)]
struct Plan {
    version: u32,
    gpus: Vec<GpuPlan>,
}

#[derive(Debug, Serialize)]
struct GpuPlan {
    index: usize,
    uuid: String,
    capacity_bytes: u64,
    best_effort_reserve_bytes: u64,
    chunk_bytes: u64,
    test: &'static str,
    schedulable: bool,
    total_swap_bytes: u64,
    blocking_ns: u64,
    blocking_term: String,
    utilization: f64,
    bound: f64,
    slack: f64,
    /// The tasks that the caller may see.
    tasks: Vec<TaskPlan>,
    /// The number of the others; the sums count them.
    other_tasks: usize,
}

#[derive(Debug, Serialize)]
struct TaskPlan {
    name: String,
    path: String,
    period_ns: u64,
    deadline_ns: u64,
    wcet_ns: u64,
    swap_volume_bytes: u64,
    swap_out_ns: u64,
    swap_in_ns: u64,
    utilization: f64,
    /// Whether the volume is in effect, or waits for backing stores or a quiet instant.
    in_effect: bool,
}

/// The users of the tasks in a plan.
pub(super) fn owners(gpus: &[status::GpuPlan]) -> impl Iterator<Item = u32> {
    let tasks = gpus.iter().flat_map(|gpu| &gpu.tasks);
    tasks.filter_map(|task| names::owner(&task.name))
}

/// The JSON of the plan of every GPU, as `viewer` may see it.
pub(super) fn json(gpus: &[status::GpuPlan], viewer: Viewer) -> String {
    let gpus = gpus.iter().enumerate();
    let plan = Plan {
        version: 1,
        gpus: gpus
            .map(|(index, gpu)| of_gpu(index, gpu, viewer))
            .collect(),
    };
    serde_json::to_string(&plan).expect("plain data with text keys")
}

fn of_gpu(index: usize, gpu: &status::GpuPlan, viewer: Viewer) -> GpuPlan {
    let total_swap_bytes = gpu.total_swap().0;
    let is_seen = |task: &status::TaskPlan| {
        let owner = names::owner(&task.name);
        owner.is_some_and(|owner| viewer.sees(owner))
    };
    let all = gpu.tasks.len();
    let tasks = gpu.tasks.iter().filter(|task| is_seen(task));
    let tasks: Vec<_> = tasks.map(|task| of_task(task, viewer)).collect();
    GpuPlan {
        index,
        uuid: gpu.uuid.to_string(),
        capacity_bytes: gpu.capacity.0,
        best_effort_reserve_bytes: gpu.best_effort_reserve.0,
        chunk_bytes: gpu.chunk.0,
        test: gpu.test.name(),
        schedulable: gpu.schedulable,
        total_swap_bytes,
        blocking_ns: gpu.blocking.0,
        blocking_term: viewer.text(&gpu.blocking_term),
        utilization: gpu.utilization,
        bound: gpu.bound,
        slack: gpu.slack,
        other_tasks: all - tasks.len(),
        tasks,
    }
}

fn of_task(task: &status::TaskPlan, viewer: Viewer) -> TaskPlan {
    TaskPlan {
        name: viewer.text(&task.name),
        path: rtswap_dbus::task_path(task.registration.0).to_string(),
        period_ns: task.timing.period.0,
        deadline_ns: task.timing.deadline.0,
        wcet_ns: task.timing.wcet.0,
        swap_volume_bytes: task.volume.0,
        swap_out_ns: task.swap_out.0,
        swap_in_ns: task.swap_in.0,
        utilization: task.utilization,
        in_effect: task.in_effect,
    }
}
