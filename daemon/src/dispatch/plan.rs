//! `Manager1.Plan`: what the admission test says now, as JSON.

use rtswap_engine::status;
use serde::Serialize;

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
    tasks: Vec<TaskPlan>,
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

/// The JSON of the plan of every GPU.
pub(super) fn json(gpus: Vec<status::GpuPlan>) -> String {
    let gpus = gpus.into_iter().enumerate();
    let plan = Plan {
        version: 1,
        gpus: gpus.map(|(index, gpu)| of_gpu(index, gpu)).collect(),
    };
    serde_json::to_string(&plan).expect("plain data with text keys")
}

fn of_gpu(index: usize, gpu: status::GpuPlan) -> GpuPlan {
    GpuPlan {
        index,
        uuid: gpu.uuid.to_string(),
        capacity_bytes: gpu.capacity.0,
        best_effort_reserve_bytes: gpu.best_effort_reserve.0,
        chunk_bytes: gpu.chunk.0,
        test: gpu.test.name(),
        schedulable: gpu.schedulable,
        total_swap_bytes: gpu.total_swap().0,
        blocking_ns: gpu.blocking.0,
        blocking_term: gpu.blocking_term,
        utilization: gpu.utilization,
        bound: gpu.bound,
        slack: gpu.slack,
        tasks: gpu.tasks.into_iter().map(of_task).collect(),
    }
}

fn of_task(task: status::TaskPlan) -> TaskPlan {
    TaskPlan {
        name: task.name,
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
