//! Graphs by their nodes, and the ways to make them.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::gated(
        "node",
        "copies",
        "cuGraphAddMemcpyNode, cuGraphExecMemcpyNodeSetParams",
    ),
    Probe::gated(
        "node",
        "sets",
        "cuGraphAddMemsetNode, cuGraphExecMemsetNodeSetParams",
    ),
    Probe::gated(
        "node",
        "hosts",
        "cuGraphAddHostNode, cuGraphExecHostNodeSetParams",
    ),
    Probe::gated(
        "node",
        "forms",
        "cuGraphInstantiate, _v2, WithParams and its _ptsz form, cuGraphUpload_ptsz",
    ),
    Probe::gated("node", "update", "cuGraphExecUpdate"),
    Probe::gated(
        "node",
        "captures",
        "cuStreamBeginCapture, ToGraph and all _ptsz forms, cuStreamEndCapture_ptsz",
    ),
    Probe::gated(
        "node",
        "priority",
        "cuStreamCreateWithPriority, cuStreamDestroy",
    ),
];
