//! What is trained: the paper's five networks with a batch of 2 and Adam.

use anyhow::Result;
use rtswap_planner::graph::{Graph, OpId};

use super::separate::separated;
use super::{CHUNK, RTX_2080_TI};
use crate::advisor::models::read;

/// A network of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name in the paper.
    pub name: &'static str,
    /// The name of its graph's file.
    pub file: &'static str,
}

/// The networks of section 5.1. Adam's step of a parameter is one operator.
pub const WORKLOADS: [Workload; 5] = [
    workload("VGG", "vgg-16-adam"),
    workload("Inception V3", "inception-3-adam"),
    workload("Inception V4", "inception-4-adam"),
    workload("ResNet-50", "resnet-50-adam"),
    workload("DenseNet", "densenet-121-adam"),
];

/// VGG with PyTorch's plain Adam: several operators for each parameter, and temporary tensors between them.
pub const UNFUSED: Workload = workload("VGG, unfused Adam", "vgg-16-unfused-adam");

const fn workload(name: &'static str, file: &'static str) -> Workload {
    Workload { name, file }
}

impl Workload {
    /// One iteration, with operators timed for the paper's GPU.
    pub fn graph(&self) -> Result<Graph> {
        separated(&read(self.file, &RTX_2080_TI)?)
    }
}

/// All operators in the order in which PyTorch ran them.
pub fn trace(graph: &Graph) -> Vec<OpId> {
    (0..graph.operators().len() as OpId).collect()
}

/// The time of each operator that the roofline predicts, in nanoseconds.
pub fn predicted(graph: &Graph) -> Vec<u64> {
    let operators = graph.operators().iter();
    operators.map(|operator| operator.time_ns).collect()
}

/// The bytes of a job that frees no tensor within an iteration: the paper's vanilla.
pub fn unfreed(graph: &Graph) -> u64 {
    let tensors = graph.tensors().iter();
    tensors
        .map(|tensor| tensor.bytes.next_multiple_of(CHUNK))
        .sum()
}
