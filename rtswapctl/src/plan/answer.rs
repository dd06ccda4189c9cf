//! The JSON of `plan`.

use serde::Serialize;

use super::Planned;

/// Version 1. What is null could not be computed: the memory cannot be had, or the test was ended
/// before it had a number.
#[derive(Debug, Serialize)]
pub(crate) struct Answer<'a> {
    version: u32,
    schedulable: bool,
    test: &'static str,
    chunk_bytes: Option<u64>,
    total_swap_bytes: Option<u64>,
    blocking_ns: Option<u64>,
    blocking_term: Option<String>,
    utilization: Option<f64>,
    bound: Option<f64>,
    slack: Option<f64>,
    /// By what share of itself the objective can exceed the least possible for this chunk.
    gap: Option<f64>,
    tasks: Vec<Task<'a>>,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct Task<'a> {
    name: &'a str,
    swap_volume_bytes: Option<u64>,
    swap_out_ns: Option<u64>,
    swap_in_ns: Option<u64>,
    utilization: Option<f64>,
    /// Whether its jobs swap while they run, which nothing executes yet.
    needs_executor: bool,
    in_job: Option<InJobAnswer<'a>>,
}

/// How a task runs that is planned from a graph.
#[derive(Debug, Serialize)]
struct InJobAnswer<'a> {
    graph: &'a str,
    planner: &'static str,
    budget_bytes: u64,
    tensors_bytes: u64,
    context_bytes: u64,
    footprint_bytes: u64,
    host_bytes: u64,
    wcet_ns: u64,
    compute_ns: u64,
}

impl<'a> Answer<'a> {
    pub(crate) fn new(planned: &'a Planned) -> Self {
        let plan = planned.assignment();
        let analysis = plan.map(|plan| &plan.analysis);
        let tasks = planned.set.tasks.iter().enumerate().map(|(place, task)| {
            let load = analysis.map(|analysis| analysis.tasks[place]);
            let in_job = planned.in_job.iter().find(|in_job| in_job.task == place);
            Task {
                name: &task.name,
                swap_volume_bytes: plan.map(|plan| plan.volumes[place].0),
                swap_out_ns: load.map(|load| load.swap_out.0),
                swap_in_ns: load.map(|load| load.swap_in.0),
                utilization: load.map(|load| load.utilization),
                needs_executor: in_job.is_some(),
                in_job: in_job.map(|in_job| InJobAnswer {
                    graph: &in_job.graph.name,
                    planner: in_job.point.maker.name(),
                    budget_bytes: in_job.point.budget,
                    tensors_bytes: in_job.whole,
                    context_bytes: in_job.context.0,
                    footprint_bytes: task.memory.footprint.0,
                    host_bytes: in_job.point.host_bytes,
                    wcet_ns: task.timing.wcet.0,
                    compute_ns: in_job.graph.graph.compute_ns(),
                }),
            }
        });
        Self {
            version: 1,
            schedulable: planned.result.is_ok(),
            test: planned.test.name(),
            chunk_bytes: plan
                .map(|plan| plan.chunk)
                .or(planned.set.gpu.chunk)
                .map(|chunk| chunk.0),
            total_swap_bytes: plan.map(|plan| plan.volumes.iter().map(|volume| volume.0).sum()),
            blocking_ns: analysis.map(|analysis| analysis.blocking.total.0),
            blocking_term: analysis
                .map(|analysis| analysis.blocking.cause(|place| planned.name(place))),
            utilization: analysis.map(|analysis| analysis.utilization),
            bound: analysis.map(|analysis| analysis.bound),
            slack: analysis.map(|analysis| analysis.slack),
            gap: planned.result.as_ref().ok().map(|plan| plan.gap),
            tasks: tasks.collect(),
            reason: planned.reason(),
        }
    }
}
