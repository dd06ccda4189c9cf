//! Functions that are hooked although no driver of Debian has them yet.

use super::Reasons;

/// The version of CUDA that brought them, and their names.
pub const NEWER: Reasons = &[
    (
        "CUDA 12.8",
        &[
            "cuMemBatchDecompressAsync",
            "cuMemBatchDecompressAsync_ptsz",
            "cuMemcpy3DBatchAsync",
            "cuMemcpy3DBatchAsync_ptsz",
            "cuMemcpyBatchAsync",
            "cuMemcpyBatchAsync_ptsz",
        ],
    ),
    (
        "CUDA 13.0",
        &[
            "cuMemDiscardAndPrefetchBatchAsync",
            "cuMemDiscardAndPrefetchBatchAsync_ptsz",
            "cuMemDiscardBatchAsync",
            "cuMemDiscardBatchAsync_ptsz",
            "cuMemGetDefaultMemPool",
            "cuMemGetMemPool",
            "cuMemPrefetchBatchAsync",
            "cuMemPrefetchBatchAsync_ptsz",
            "cuMemcpy3DBatchAsync_v2",
            "cuMemcpy3DBatchAsync_v2_ptsz",
            "cuMemcpyBatchAsync_v2",
            "cuMemcpyBatchAsync_v2_ptsz",
        ],
    ),
    (
        "CUDA 13.1",
        &["cuMulticastBindAddr_v2", "cuMulticastBindMem_v2"],
    ),
    (
        "CUDA 13.2",
        &[
            "cuGraphNodeGetParams",
            "cuLaunchHostFunc_v2",
            "cuLaunchHostFunc_v2_ptsz",
            "cuMemcpy3DWithAttributesAsync",
            "cuMemcpy3DWithAttributesAsync_ptsz",
            "cuMemcpyWithAttributesAsync",
            "cuMemcpyWithAttributesAsync_ptsz",
        ],
    ),
    (
        "CUDA 13.3",
        &[
            "cuLogicalEndpointBindAddr",
            "cuStreamBeginRecaptureToGraph",
            "cuStreamBeginRecaptureToGraph_ptsz",
        ],
    ),
    (
        "CUDA 13.4",
        &["cuGraphAddNode_v3", "cuGraphNodeSetParams_v2"],
    ),
    (
        "CUDA 13.5",
        &["cuFabricCpyBatchAsync", "cuFabricCpyBatchAsync_ptsz"],
    ),
];
