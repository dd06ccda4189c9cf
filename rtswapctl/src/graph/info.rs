//! `rtswapctl graph info`: what a graph computes, and how much memory it takes.

use rtswap_planner::graph::{Kind, OpId};
use rtswap_taskset::graph::GraphFile;
use serde::Serialize;

use super::{CHUNK, file};
use crate::cli::GraphInfoOptions;
use crate::failure::Failure;
use crate::output;

/// All kinds of tensors, as files call them.
pub(super) const KINDS: [(Kind, &str); 6] = [
    (Kind::Parameter, "parameter"),
    (Kind::OptimizerState, "optimizer_state"),
    (Kind::Input, "input"),
    (Kind::Activation, "activation"),
    (Kind::Gradient, "gradient"),
    (Kind::Scratch, "scratch"),
];

/// The JSON of `graph info`, version 1.
#[derive(Debug, Serialize)]
pub(super) struct Answer<'a> {
    version: u32,
    pub(super) name: &'a str,
    pub(super) operators: usize,
    pub(super) tensors: usize,
    /// How many different sizes the tensors have.
    pub(super) sizes: usize,
    /// The sum of all tensors.
    pub(super) total_bytes: u64,
    pub(super) kinds: Vec<OfKind>,
    pub(super) chunk_bytes: u64,
    pub(super) largest_operator: Largest<'a>,
    /// Where nothing is swapped, in whole chunks.
    pub(super) peak_bytes: u64,
    pub(super) ideal_ns: u64,
}

/// The tensors of a kind.
#[derive(Debug, Serialize)]
pub(super) struct OfKind {
    pub(super) kind: &'static str,
    pub(super) tensors: usize,
    pub(super) total_bytes: u64,
}

/// The operator that needs the most memory at once, which is the least budget, in whole chunks.
#[derive(Debug, Serialize)]
pub(super) struct Largest<'a> {
    pub(super) operator: OpId,
    pub(super) name: &'a str,
    pub(super) least_budget_bytes: u64,
}

/// Prints what is known of a graph.
pub(super) fn info(options: &GraphInfoOptions) -> Result<(), Failure> {
    let file = file::graph(&options.graph)?;
    let answer = Answer::new(&file);
    if options.json {
        output::json(&answer)
    } else {
        output::text(&answer.text())
    }
}

impl<'a> Answer<'a> {
    fn new(file: &'a GraphFile) -> Self {
        let graph = &file.graph;
        let largest = graph.largest(CHUNK);
        let kinds = KINDS.map(|(kind, name)| OfKind {
            kind: name,
            tensors: graph
                .tensors()
                .iter()
                .filter(|tensor| tensor.kind == kind)
                .count(),
            total_bytes: graph.bytes_of(kind),
        });
        Self {
            version: 1,
            name: &file.name,
            operators: graph.operators().len(),
            tensors: graph.tensors().len(),
            sizes: graph.sizes().len(),
            total_bytes: kinds.iter().map(|of| of.total_bytes).sum(),
            kinds: kinds.into(),
            chunk_bytes: CHUNK,
            largest_operator: Largest {
                operator: largest.op,
                name: &graph.operator(largest.op).name,
                least_budget_bytes: largest.bytes,
            },
            peak_bytes: graph.peak(CHUNK),
            ideal_ns: graph.compute_ns(),
        }
    }
}
