//! Graphs and plans that people give.

use std::path::Path;

use rtswap_planner::graph::Graph;
use rtswap_planner::validator::validate;
use rtswap_taskset::TaskSetError;
use rtswap_taskset::graph::{GraphFile, read_graph};
use rtswap_taskset::plan::{self, PlanFile};

use super::ROOFLINE;
use crate::failure::Failure;
use crate::{files, output};

/// The most errors of a file that are told: of what begins to be wrong, all is.
const MOST_TOLD: usize = 3;

/// Reads a graph.
pub(crate) fn graph(path: &Path) -> Result<GraphFile, Failure> {
    let (file, text) = files::unpacked(path, "graph")?;
    read_graph(&text, &ROOFLINE).map_err(|errors| tell(&file, errors))
}

/// Reads a plan for `graph` that computes it.
pub(super) fn plan(path: &Path, graph: &Graph) -> Result<PlanFile, Failure> {
    let (file, text) = files::unpacked(path, "swap plan")?;
    let read = plan::read(&text, graph).map_err(|errors| tell(&file, errors))?;
    // The proof takes memory as well.
    drop(text);
    match validate(graph, &read.plan) {
        Ok(()) => Ok(read),
        Err(error) => Err(Failure::WrongPlan { file, error }),
    }
}

/// Tells the first errors of `file`, and returns the last of those.
fn tell(file: &str, errors: Vec<TaskSetError>) -> Failure {
    let more = errors.len().saturating_sub(MOST_TOLD);
    let mut told = errors.into_iter().take(MOST_TOLD).map(Box::new).peekable();
    loop {
        let error = told.next().expect("a file that is refused has an error");
        let file = file.to_owned();
        if told.peek().is_none() {
            return Failure::Graph { file, error, more };
        }
        let one = Failure::Graph {
            file,
            error,
            more: 0,
        };
        output::note(&one.to_string());
    }
}
