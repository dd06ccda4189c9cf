//! `Manager1.Plan`: what the admission test says now, as JSON.

use rtswap_policy::task::Class;
use serde::Serialize;

use super::Dispatcher;
use super::gpu::Gpu;

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

impl Dispatcher {
    /// The plan of every GPU, newcomers included.
    pub(super) fn plan(&self) -> String {
        let gpus = self.gpus.iter().enumerate();
        let plan = Plan {
            version: 1,
            gpus: gpus.map(|(index, gpu)| self.plan_of(index, gpu)).collect(),
        };
        serde_json::to_string(&plan).expect("plain data with text keys")
    }

    fn plan_of(&self, index: usize, gpu: &Gpu) -> GpuPlan {
        let (planned, analysis) = gpu.intended();
        let names: Vec<_> = planned.iter().map(|task| task.name.as_str()).collect();
        let tasks = planned
            .iter()
            .zip(&analysis.tasks)
            .filter_map(|(task, load)| {
                let Class::Realtime(timing) = task.class else {
                    return None;
                };
                let registration = self.places.get(&task.task)?.registration;
                let volume = task.next_volume.or(task.volume);
                Some(TaskPlan {
                    name: task.name.clone(),
                    path: rtswap_dbus::task_path(registration.0).to_string(),
                    period_ns: timing.period.0,
                    deadline_ns: timing.deadline.0,
                    wcet_ns: timing.wcet.0,
                    swap_volume_bytes: volume.unwrap_or_default().0,
                    swap_out_ns: load.swap_out.0,
                    swap_in_ns: load.swap_in.0,
                    utilization: load.utilization,
                    in_effect: volume == task.volume,
                })
            });
        let tasks: Vec<_> = tasks.collect();
        GpuPlan {
            index,
            uuid: gpu.uuid.to_string(),
            capacity_bytes: gpu.scheduler.state().gpu().capacity.0,
            best_effort_reserve_bytes: gpu.config.best_effort_reserve.0,
            chunk_bytes: gpu.config.chunk.0,
            test: analysis.test.name(),
            schedulable: analysis.schedulable,
            total_swap_bytes: tasks.iter().map(|task| task.swap_volume_bytes).sum(),
            blocking_ns: analysis.blocking.total.0,
            blocking_term: analysis.blocking.describe(|place| names[place]),
            // An empty sum of floats is −0.
            utilization: analysis.utilization + 0.0,
            bound: analysis.bound,
            slack: analysis.slack,
            tasks,
        }
    }
}
