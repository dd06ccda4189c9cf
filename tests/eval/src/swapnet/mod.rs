//! SwapNet's evaluation (Wang, Cao, Zhou and Li, 2024), computed again from graphs of PyTorch.
//!
//! `models` has the models and the device, `applications` what runs together in which memory, and each other file has one
//! table or figure. Accuracy, power and a second device (Fig. 17) need hardware.

pub mod ablation;
pub mod adaptation;
pub mod applications;
pub mod distribution;
pub mod memory;
pub mod models;
pub mod profiling;
pub mod published;

/// A megabyte of the paper: its model sizes are right in MiB only.
pub const MIB: u64 = 1 << 20;

/// Bytes in the paper's megabytes.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}
