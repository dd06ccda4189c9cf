//! Launches, and what else runs in a stream's order.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::gated("launch", "kernel", "cuLaunchKernel"),
    Probe::gated(
        "launch",
        "per_thread",
        "cuLaunchKernel_ptsz, CU_STREAM_PER_THREAD",
    ),
    Probe::gated(
        "launch",
        "green",
        "cuGreenCtxCreate, cuCtxFromGreenCtx, cuGreenCtxStreamCreate, cuGreenCtxDestroy",
    ),
    Probe::gated("launch", "kernel_ex", "cuLaunchKernelEx and its _ptsz form"),
    Probe::gated(
        "launch",
        "cooperative",
        "cuLaunchCooperativeKernel and its _ptsz form",
    ),
    Probe::gated("launch", "graph", "cuGraphLaunch and its _ptsz form"),
    Probe::gated("launch", "graph_upload", "cuGraphUpload"),
    Probe::gated("launch", "graph_instantiate", "cuGraphInstantiateWithFlags"),
    Probe::gated(
        "launch",
        "capture",
        "cuStreamBeginCapture_v2, cuStreamEndCapture, cuGraphLaunch",
    ),
    Probe::gated(
        "launch",
        "host_function",
        "cuLaunchHostFunc and its _ptsz form",
    ),
    Probe::gated(
        "launch",
        "callback",
        "cuStreamAddCallback and its _ptsz form",
    ),
    Probe::gated(
        "launch",
        "streams",
        "six streams that wait for each other's events",
    ),
    Probe::gated(
        "memop",
        "write32",
        "cuStreamWriteValue32, _v2 and their _ptsz forms",
    ),
    Probe::gated(
        "memop",
        "write64",
        "cuStreamWriteValue64, _v2 and their _ptsz forms",
    ),
    Probe::gated(
        "memop",
        "wait32",
        "cuStreamWaitValue32, _v2 and their _ptsz forms",
    ),
    Probe::gated(
        "memop",
        "wait64",
        "cuStreamWaitValue64, _v2 and their _ptsz forms",
    ),
    Probe::gated(
        "memop",
        "batch",
        "cuStreamBatchMemOp, _v2 and their _ptsz forms",
    ),
];
