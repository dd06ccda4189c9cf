//! TENSILE's evaluation (Zhang et al., arXiv:2105.13336), computed again from graphs of PyTorch.
//!
//! `workloads` has what is trained, with `separate` as the paper's framework has it; `method` the planners that are
//! compared, `vdnn` and `capuchin` the baselines, `order` our order of operators; `session` runs jobs on one GPU,
//! `measure` has the paper's ratios of noisy runs, `dynamic` jobs that come and go, and `published` the paper's
//! numbers.

pub mod capuchin;
pub mod dynamic;
pub mod measure;
pub mod method;
pub mod order;
pub mod published;
pub mod separate;
pub mod session;
pub mod vdnn;
pub mod workloads;

use rtswap_planner::machine::{Link, Roofline};

/// The paper's GPU, an RTX 2080 Ti, in 32-bit floating point: 13.45 TFLOP/s and 616 GB/s by its data sheet, with the
/// factor for cuDNN's Winograd kernels and the launch of [`Roofline::V100`], whose depthwise rate is scaled by memory
/// bandwidth.
pub const RTX_2080_TI: Roofline = Roofline {
    dense: 14.8e12,
    depthwise: 41e9,
    bandwidth: 616e9,
    launch_ns: 28_000.0,
};

/// PCIe 3 of 16 lanes, on which one copy is made at a time, as the paper has it.
pub const LINK: Link = Link {
    alone: 12.0,
    duplex: 12.0,
    latency_ns: 10_000.0,
};

/// What tensors are rounded up to, in bytes: as PyTorch's allocator does. The paper counts bytes of tensors.
pub const CHUNK: u64 = 512;

/// The part by which an operator's time differs at most.
pub const NOISE: f64 = 0.2;
