//! Physical memory with the requests and the order of calls of the frameworks that make them.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::requested("request", "torch", "PyTorch's expandable segments"),
    Probe::requested(
        "request",
        "torch_shared",
        "PyTorch's expandable segments, one of them given to another process",
    ),
    Probe::same("request", "torch_fabric", "PyTorch's question for a fabric"),
    Probe::requested(
        "request",
        "torch_symmetric",
        "PyTorch's symmetric memory, exported for each group",
    ),
    Probe::requested("request", "vllm", "vLLM's sleep and wake"),
    Probe::requested(
        "request",
        "memory_saver",
        "torch_memory_saver's pause and resume, as in SGLang",
    ),
    Probe::requested("request", "nccl_alloc", "ncclMemAlloc and ncclMemFree"),
    Probe::requested(
        "request",
        "nccl_peer",
        "NCCL's buffers and a user's, exported for each peer",
    ),
    Probe::requested("request", "xla", "XLA's device allocator, as in JAX"),
    Probe::requested("request", "ggml", "ggml's pool, as in llama.cpp"),
    Probe::requested(
        "request",
        "nvshmem",
        "NVSHMEM's heap for RDMA, and a dma-buf of it",
    ),
];
