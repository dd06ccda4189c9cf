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
}

impl<'a> Answer<'a> {
    pub(crate) fn new(planned: &'a Planned) -> Self {
        let plan = planned.assignment();
        let analysis = plan.map(|plan| &plan.analysis);
        let tasks = planned.set.tasks.iter().enumerate().map(|(place, task)| {
            let load = analysis.map(|analysis| analysis.tasks[place]);
            Task {
                name: &task.name,
                swap_volume_bytes: plan.map(|plan| plan.volumes[place].0),
                swap_out_ns: load.map(|load| load.swap_out.0),
                swap_in_ns: load.map(|load| load.swap_in.0),
                utilization: load.map(|load| load.utilization),
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
