//! Nodes of graphs.

use super::Probe;

const WHY: &str = "the driver gives and takes it while the graph runs";

pub(super) const PROBES: &[Probe] = &[
    Probe::counted(
        "node",
        "memory_former",
        "cuGraphAddMemAllocNode, cuDeviceGraphMemTrim",
        WHY,
    ),
    Probe::counted(
        "node",
        "memory",
        "cuGraphAddNode of one that allocates",
        WHY,
    ),
    Probe::counted(
        "node",
        "memory_v2",
        "cuGraphAddNode_v2 of one that allocates",
        WHY,
    ),
    Probe::counted(
        "node",
        "memory_other",
        "cuGraphAddNode of one that allocates on a GPU that is not current",
        WHY,
    )
    .on_two_gpus(),
    Probe::counted(
        "node",
        "memory_other_former",
        "cuGraphAddMemAllocNode on a GPU that is not current",
        WHY,
    )
    .on_two_gpus(),
    Probe::gated(
        "node",
        "any",
        "cuGraphAddNode, cuGraphAddNode_v2, cuGraphExecNodeSetParams",
    ),
];
