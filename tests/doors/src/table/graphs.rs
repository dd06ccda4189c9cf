//! Graphs by their nodes, and the ways to make them.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::gated(
        "graphs",
        "copies",
        "cuGraphAddMemcpyNode, cuGraphExecMemcpyNodeSetParams",
    ),
    Probe::gated(
        "graphs",
        "sets",
        "cuGraphAddMemsetNode, cuGraphExecMemsetNodeSetParams",
    ),
    Probe::gated(
        "graphs",
        "hosts",
        "cuGraphAddHostNode, cuGraphExecHostNodeSetParams",
    ),
    Probe::gated(
        "graphs",
        "forms",
        "cuGraphInstantiate, _v2, WithParams and its _ptsz form, cuGraphUpload_ptsz",
    ),
    Probe::gated("graphs", "update", "cuGraphExecUpdate"),
    Probe::gated(
        "graphs",
        "captures",
        "cuStreamBeginCapture, ToGraph and all _ptsz forms, cuStreamEndCapture_ptsz",
    ),
    Probe::gated(
        "graphs",
        "priority",
        "cuStreamCreateWithPriority, cuStreamDestroy",
    ),
];
