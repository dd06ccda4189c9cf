//! SwapNet's evaluation (Wang, Cao, Zhou and Li, 2024), computed again from graphs of PyTorch.
//!
//! `models` has the models and the device, `applications` what runs together in which memory, and each other file has one
//! table or figure. Accuracy, power and a second device (Fig. 17) need hardware.

pub mod models;

/// A megabyte of the paper: its model sizes are right in MiB only.
pub const MIB: u64 = 1 << 20;
