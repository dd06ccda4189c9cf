//! The part of a plan's text about tasks that swap inside their jobs.

use rtswap_policy::units::Nanos;

use super::Planned;
use crate::table::{Widths, bytes, lines, millis, wrapped};

/// What holds for all of them.
const NOTE: &str = "These jobs swap tensors while they run, by plans that nothing executes yet: such tasks need an executor, and \
                    rtswapd refuses them until there is one. Each WCET is the time of the plan with half of each copy engine, by the \
                    times of operators in the graph, or else of a V100 (16 GB): predicted, not measured.";

const HEADS: [&str; 8] = [
    "TASK",
    "PLANNER",
    "BUDGET",
    "TENSORS",
    "CONTEXT",
    "WCET",
    "COMPUTING",
    "HOST MEMORY",
];

impl Planned {
    /// Nothing where there are none.
    pub(super) fn in_job_text(&self, width: Option<usize>) -> String {
        if self.in_job.is_empty() {
            return String::new();
        }
        let row = |in_job: &super::InJob| {
            let point = &in_job.point;
            vec![
                self.name(in_job.task).to_owned(),
                point.maker.name().to_owned(),
                bytes(point.budget),
                bytes(in_job.whole),
                bytes(in_job.context.0),
                millis(Nanos(point.time_ns)),
                millis(Nanos(in_job.graph.graph.compute_ns())),
                bytes(point.host_bytes),
            ]
        };
        let rows: Vec<Vec<String>> = self.in_job.iter().map(row).collect();
        let widths = Widths {
            most: width,
            // CONTEXT, COMPUTING, PLANNER.
            first_to_go: &[4, 6, 1],
        };
        let table = lines(&HEADS, &[0, 1], &rows, widths).concat();
        format!("\n{}\n{table}", wrapped(NOTE, 0, width))
    }
}
